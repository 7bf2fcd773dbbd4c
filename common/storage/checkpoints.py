"""The checkpoints of an output_dir: listed, verified, recovered, and awaited from another process."""

from collections.abc import Callable, Iterator
import contextlib
import os
import re
import time
import typing

import tensorflow.compat.v1 as tf

from estimator_trainer.common.errors import RunError, UsageError
from estimator_trainer.common.files import check_no_pipes, explain, names_in, remove_abandoned
from estimator_trainer.common.paths import is_remote, real
from estimator_trainer.common.storage.abandoned import move
from estimator_trainer.common.storage.best_checkpoint import best_dir, find_best, intact_best
from estimator_trainer.common.storage.restore import CheckpointGone, is_intact, open_checkpoint, paths_of, without_suffix

# Temporary files of TensorFlow, left behind by an interrupted save.
_LEFTOVER = re.compile(
    r'model\.ckpt-\d+_temp(_\w+)?|(model\.ckpt-\d+\.meta|checkpoint|graph\.pbtxt)\.tmp[0-9a-f]{32}'
    r'|model\.ckpt-\d+\.(index|data-\d+-of-\d+)\.tempstate\d+'  # Of a Saver that is not sharded.
)
_CHECKPOINT = re.compile(r'checkpoint|model\.ckpt-\d+\.(index|data-\d+-of-\d+)')
_SAVED = re.compile(r'model\.ckpt-\d+')
_REPORT_SECONDS = 60
_TRIES = 20
T = typing.TypeVar('T')


def has_checkpoint(output_dir: str) -> bool:
    """Whether the directory has a checkpoint, intact or not. With a damaged one of step 0, nothing is lost.

    Raises:
      UsageError: a file in the directory is a pipe or a device.
    """
    check_no_pipes(output_dir)
    return any(step > 0 or is_intact(path) for step, path in _list(output_dir))


def global_step(checkpoint_path: str) -> int:
    """Returns the step of a checkpoint, given by its path without suffix.

    Raises:
      RunError: it is corrupt or missing, or no run has saved it.
    """
    reader = open_checkpoint(checkpoint_path)
    if reader.get_variable_to_shape_map().get(tf.GraphKeys.GLOBAL_STEP) != []:
        raise RunError(f'{checkpoint_path}: has no scalar global_step, so no run has saved it: choose another checkpoint')
    return int(reader.get_tensor(tf.GraphKeys.GLOBAL_STEP))


def latest_intact(output_dir: str) -> str | None:
    """Returns the path of the latest intact checkpoint, without suffix; None if there are none, as `has_checkpoint` counts.

    Reads every tensor to verify its checksum. A warning names each corrupt checkpoint, and the one in its place.

    Raises:
      RunError: all checkpoints are corrupt.
    """
    listed, corrupt = _list(output_dir), False
    for _, path in listed:
        if is_intact(path):
            if corrupt:
                tf.logging.warning('The latest intact checkpoint is %s.', path)
            return path
        if paths_of(path):
            corrupt = True
            tf.logging.warning('%s: is corrupt or incomplete.', path)
    if _list(output_dir) != listed:  # A run has saved others meanwhile, and deleted these.
        return latest_intact(output_dir)
    if any(step > 0 for step, _ in listed):
        raise RunError(f'{output_dir}: all checkpoints are corrupt{_cure(output_dir)}')
    return None


def _cure(output_dir):
    """Returns the end of the message about a directory whose own checkpoints are all corrupt."""
    best = None
    with contextlib.suppress(RunError):  # best.json is corrupt, too.
        best = intact_best(output_dir)
    if not best:
        return ': choose another directory'
    return (
        f', but {best} is intact: use --checkpoint=best or --warm_start_from={best}, or copy {best}.* to {output_dir} to train '
        'on from there'
    )


def recover(output_dir: str) -> None:
    """Prepares the directory to resume from the latest intact checkpoint.

    For the only process that trains there. Deletes the files left behind by an interrupted save, but not those that another
    process, such as a prediction, is writing.

    Raises:
      RunError: there are checkpoints, and all are corrupt.
    """
    path = latest_intact(output_dir)
    names = names_in(output_dir)
    for name in names:
        remove_abandoned(os.path.join(output_dir, name))
    leftovers = [os.path.join(output_dir, name) for name in filter(_LEFTOVER.fullmatch, names)]
    for _, checkpoint in _list(output_dir):
        if not path or not tf.io.gfile.exists(f'{checkpoint}.index'):  # Without one, only a damaged one of step 0 is left.
            leftovers += paths_of(checkpoint)
    state = os.path.join(output_dir, 'checkpoint')
    if not path and tf.io.gfile.exists(state) and not tf.io.gfile.isdir(state):
        leftovers.append(state)
    for leftover in leftovers:
        tf.io.gfile.rmtree(leftover)
    if path and _latest_by_state(output_dir) != path:
        tf.logging.warning('Resuming from %s.', path)
        known = [*_indexed(output_dir).values()]
        count = known.index(path) + 1
        # The Saver deletes the first ones first: those that are damaged.
        tf.train.update_checkpoint_state(output_dir, path, [*known[count:], *known[:count]])


def _latest_by_state(output_dir):
    """Returns the path in the file `checkpoint`, from which the Estimator resumes, or None."""
    try:
        return tf.train.latest_checkpoint(output_dir)
    except ValueError:  # The file is empty.
        return None


def path_of(output_dir: str, step: int) -> str:
    """Returns the path, without suffix, of the checkpoint of a step."""
    return os.path.join(output_dir, f'model.ckpt-{step}')


def steps(output_dir: str) -> list[int]:
    """Returns the steps of the checkpoints in a directory, intact or not, in ascending order."""
    return [*_indexed(output_dir)]


def abandon(output_dir: str, step: int, folder: str) -> None:
    """Moves the checkpoints later than a step to a folder; the Estimator then resumes from that step."""
    found = [path for saved, path in _indexed(output_dir).items() if saved <= step]
    tf.train.update_checkpoint_state(output_dir, path_of(output_dir, step), found)
    for name in names_in(output_dir):
        if (file := re.fullmatch(r'model\.ckpt-(\d+)\..+', name)) and int(file[1]) > step:
            move(os.path.join(output_dir, name), folder)


def require_checkpoint(output_dir: str) -> None:
    """Raises UsageError if there is no checkpoint to load."""
    if not has_checkpoint(output_dir):
        below = (os.path.join(output_dir, name) for name in names_in(output_dir))  # As in a trial of several seeds.
        run = next((path for path in below if tf.io.gfile.exists(os.path.join(path, 'hparams.json'))), '')
        raise UsageError(
            f'--output_dir={output_dir}: contains no checkpoint: train first, with --schedule=train, or '
            f'choose the directory of a run{run and f", such as {run}"}'
        )


def find_checkpoint(output_dir: str, which: str) -> str:
    """Returns the path of a checkpoint, without suffix.

    Args:
      which: 'latest', 'best', or the path of a checkpoint, with or without suffix.

    Raises:
      UsageError: there is no such checkpoint.
    """
    if which == 'latest':
        require_checkpoint(output_dir)
        return typing.cast(str, latest_intact(output_dir))
    if which == 'best':
        path = find_best(output_dir)
        if not path:
            raise UsageError(
                f'--checkpoint=best: there is none in {best_dir(output_dir)}; --schedule=train_and_evaluate keeps one, unless '
                'the metric is NaN'
            )
        return path
    path = without_suffix(which)
    if not tf.io.gfile.exists(f'{path}.index'):
        known = ['best'] * bool(find_best(output_dir)) + ['latest', *_indexed(output_dir).values()]
        raise UsageError(f'--checkpoint={which}: no such checkpoint; available: {", ".join(known)}')
    return path


def use_checkpoint(output_dir: str, which: str, use: Callable[[str], T]) -> T:
    """Returns what `use` returns for a checkpoint; if a run deletes the latest or best one meanwhile, for the next.

    Args:
      which: as for `find_checkpoint`.
      use: function of the checkpoint's path; raises CheckpointGone if it is deleted.

    Raises:
      RunError: the run deletes each one before it is loaded.
    """
    path = find_checkpoint(output_dir, which)
    for _ in range(_TRIES):
        try:
            return use(path)
        except CheckpointGone:
            gone, path = path, find_checkpoint(output_dir, which)
            if which not in ('latest', 'best') or path == gone:
                raise
            tf.logging.info('%s was deleted meanwhile; using %s.', gone, path)
    raise RunError(
        f'{output_dir}: {_TRIES} checkpoints in succession were deleted before they could be loaded: let the training keep '
        'more, with --keep_checkpoint_max, or save less often'
    )


def is_of(output_dir: str, checkpoint_path: str) -> bool:
    """Whether a checkpoint is in an output_dir or its best directory, even through symbolic links."""
    return real(os.path.dirname(checkpoint_path)) in (real(output_dir), real(best_dir(output_dir)))


def _list(output_dir):
    """Returns (step, path without suffix) of all checkpoints, even incomplete ones, the latest first."""
    found = [re.fullmatch(r'model\.ckpt-(\d+)\.(index|data-\d+-of-\d+)', name) for name in names_in(output_dir)]
    steps = {int(match[1]) for match in found if match}
    return [(step, path_of(output_dir, step)) for step in sorted(steps, reverse=True)]


def _indexed(output_dir):
    """Returns {step: path without suffix} of the checkpoints that have their index, intact or not, in ascending order."""
    return {step: path for step, path in reversed(_list(output_dir)) if tf.io.gfile.exists(f'{path}.index')}


def new_checkpoints(directory: str, last_step: int, timeout: int = 0) -> Iterator[str]:
    """Yields the paths of checkpoints as another process saves them; logs every minute what it waits for.

    Args:
      last_step: the step at which training ends, for the messages.
      timeout: seconds to wait for the next checkpoint; 0 waits forever.

    Raises:
      RunError: no checkpoint was saved within the timeout, or this user may not read the directory or its checkpoints.
    """
    waiting_since, last = time.monotonic(), None
    _check_access(directory)

    def report():
        _check_access(directory)
        waited = time.monotonic() - waiting_since
        seen = f'the last one was {last}' if last else 'there has been none'
        if timeout and waited >= timeout:
            raise RunError(
                f'{directory}: no new checkpoint for {waited:.0f} seconds, and {seen}; training was to end at '
                f'step {last_step}: check whether it has failed, or raise --eval_timeout'
            )
        tf.logging.info(
            f'Still waiting for a checkpoint in {directory}, for {int(waited)} seconds; {seen}, and training ends at step '
            f'{last_step}.'
        )

    for last in tf.train.checkpoints_iterator(
        directory, timeout=min(timeout or _REPORT_SECONDS, _REPORT_SECONDS), timeout_fn=report
    ):
        if _SAVED.fullmatch(os.path.basename(last)):  # Estimators with a train() of their own write others, of the same step.
            yield last
        waiting_since = time.monotonic()


def _check_access(directory):
    """Raises RunError if this user may not read a local directory or its checkpoints: TensorFlow would wait forever."""
    try:
        names = names_in(directory)
        for name in [] if is_remote(directory) else filter(_CHECKPOINT.fullmatch, names):
            with contextlib.suppress(FileNotFoundError), open(os.path.join(directory, name), 'rb'):
                pass
    except PermissionError as error:
        raise RunError(
            f'{explain(error)}: this user may not read it: use the user who trains, or train with umask 022'
        ) from None
