"""--schedule=verify: whether a run, or an export, is what its provenance.jsonl records, by training some of its steps again."""

import contextlib
import dataclasses
from typing import Any

from absl import flags as absl_flags
import tensorflow.compat.v1 as tf

from estimator_trainer.common.commands import flags, request
from estimator_trainer.common.commands.rerun import last_ordered, rerun
from estimator_trainer.common.errors import RunError, UsageError
from estimator_trainer.common.inference.evaluated_input import aside
from estimator_trainer.common.replay import exported, input_state, proof
from estimator_trainer.common.runs import made_by
from estimator_trainer.common.stop import StopOnSignal
from estimator_trainer.common.storage import checkpoints, provenance
from estimator_trainer.common.storage.provenance import Record
from estimator_trainer.common.training import exact_program
from estimator_trainer.common.training.reproducibility import warn_of_random_ops

_CURE = '--keep_checkpoint_every=N, or --keep_checkpoint_max=0, keeps those that a verification needs'
_NOTHING_CHANGED = (
    'nothing that is recorded has changed since, so it was not made by these steps, unless the model draws its own random '
    'numbers, which a warning says'
)
_NONE = request.Objects()


@dataclasses.dataclass(frozen=True)
class _Run:
    """A run, its record, its kept checkpoints {step: path}, and whether it can be trained from its start."""

    output_dir: str
    record: Record
    kept: dict[int, str]
    from_start: bool


def run(FLAGS: absl_flags.FlagValues, stop: StopOnSignal, objects: request.Objects = _NONE) -> dict[str, Any]:
    """Verifies the run in output_dir, which is only read, or an export of it.

    Returns:
      run: the digest of its first line; last_line: that of its last; lines: their number. Of a run, checkpoints: the steps of
      those that are as recorded; intervals: a dict for each that was trained again, with steps, text and largest_difference.
      Of an export, step and text.

    Raises:
      UsageError: there is no run, it is of an older version, or it keeps too few checkpoints.
      RunError: the chain is broken; or a checkpoint, a result of training again, or the export differs.
    """
    output_dir = flags.output_dir(FLAGS)
    paths = proof.checkpoint_paths(output_dir)
    entries, record = proof.read_record(output_dir)
    found = {'run': record.starts[0]['digest'], 'last_line': record.last, 'lines': len(entries)}
    if FLAGS.export:
        return {**found, **exported.verify(FLAGS.export, output_dir, entries)}
    verified = _Run(output_dir, record, proof.kept(output_dir, paths, record), _starts_again(record))
    chosen = proof.choose(_intervals(verified), None if FLAGS.intervals == 'all' else int(FLAGS.intervals))
    tf.logging.info('Training again: steps %s.', ', '.join(map(_shown, chosen)))
    data_dir = FLAGS.data_dir if FLAGS['data_dir'].present else None
    intervals = [_train_again(verified, *interval, stop, data_dir, objects) for interval in chosen]
    return {**found, 'checkpoints': sorted(verified.kept), 'intervals': intervals}


def to_text(found: dict[str, Any]) -> str:
    """Returns the result of `run` as lines of text; intervals of which the same holds share one."""
    lines = [f'run {found["run"]}: {found["lines"]} lines, the last is {found["last_line"]}']
    if 'intervals' not in found:
        return '\n'.join([*lines, found['text']])
    lines.append(f'checkpoints {", ".join(map(str, found["checkpoints"]))}: as recorded')
    by_text: dict[str, list[str]] = {}
    for interval in found['intervals']:
        by_text.setdefault(interval['text'], []).append(_shown(interval['steps']))
    return '\n'.join([*lines, *(f'steps {", ".join(steps)}: {text}' for text, steps in by_text.items())])


def _shown(interval):
    return f'{interval[0]}-{interval[1]}'


def _intervals(verified):
    """Returns the intervals between kept checkpoints; raises UsageError if there are none."""
    every = proof.intervals([*verified.kept], verified.from_start)
    ordered = last_ordered(verified.output_dir)
    found = [interval for interval in every if interval[1] <= ordered] or every
    if len(found) < len(every):
        tf.logging.warning(
            'The steps after %d are not trained again: since step %d they had parameter servers, which keep no order.',
            *(found[-1][1], ordered),
        )
    if not found:
        steps = ', '.join(map(str, verified.kept)) or 'none'
        raise UsageError(
            f'--output_dir={verified.output_dir}: keeps too few checkpoints to train from one to another ({steps}): {_CURE}'
        )
    if len(verified.kept) < 2:
        tf.logging.warning('Only the checkpoint of step %d is kept: %s.', *verified.kept, _CURE)
    return found


def _starts_again(record):
    """Whether a run can be trained from its initialization, with the weights of its warm start, if it had one."""
    first = record.starts[0]
    if first['kind'] != provenance.START:
        return False
    if not (start := first.get('warm_start')):
        return True
    with contextlib.suppress(RunError, tf.errors.OpError):
        if made_by.warm_start_of(start['from']) == start['sha256']:
            return True
    tf.logging.warning(
        '%s: the weights that the run started from are gone or have changed, so its first steps are not trained again, unless '
        'the checkpoint of step 0 is kept.',
        start['from'],
    )
    return False


def _train_again(verified, start, end, stop, data_dir, objects):
    """Returns what training from a step to another again shows; raises RunError if the result differs."""
    record, recorded = verified.record, verified.kept[end]
    lines = _lines_within(record, start, end)
    path = None if start == 0 and verified.from_start else verified.kept[start]
    with _trained(verified, path, end, stop, data_dir, objects) as directory:
        again = provenance.record_of(provenance.read(directory))
        pairs = [(line['made_by'], provenance.made_by(again, max(line['step'], start))) for line in lines]
        differing = proof.compare(recorded, checkpoints.path_of(directory, end))
    text, largest = _judge(recorded, (start, end), differing, pairs)
    return {'steps': [start, end], 'text': text, 'largest_difference': largest}


@contextlib.contextmanager
def _trained(verified, path, end, stop, data_dir, objects):
    """Yields the directory of a Rerun up to a step, from a checkpoint, or from the initialization if that is None."""
    with rerun(verified.output_dir, end if path else None, end, stop, data_dir, objects, path) as again:
        if not again.train(end):
            raise RunError(f'{verified.kept[end]}: training the steps before it again gives a loss that is not finite')
        _compare_input(verified, again, end)
        yield again.directory
        if proof.compare(verified.kept[end], again.checkpoint()):
            with again.opened() as experiment:
                train_op = _train_op(experiment)
            warn_of_random_ops(train_op)


def _compare_input(verified, again, end):
    """Raises RunError if a module's own `input_fn` goes on otherwise than it did in the run; warns if that is unknown."""
    if not verified.record.checkpoints[end].get('input'):
        return  # The position is a function of the step, or a warning of the run has said what it does not save.
    states = [exact_program.state_path(directory, end) for directory in (verified.output_dir, again.directory)]
    are_equal = None
    if all(tf.io.gfile.exists(f'{state}.index') for state in states):
        with again.opened() as experiment:
            are_equal = input_state.are_equal(experiment.train_input_fn, experiment.estimator.config.tf_random_seed, *states)
    if are_equal is None:
        tf.logging.warning(
            'Step %d: where the input goes on is not compared: its state is not kept, or cannot be restored here.', end
        )
    elif not are_equal:
        raise RunError(f'{states[0]}: is not where the input comes to when the steps before are trained again')


def _train_op(experiment):
    estimator = experiment.estimator
    with aside(experiment.train_input_fn, estimator.config.tf_random_seed) as (_, batch):
        return estimator.model_fn(batch.features, batch.labels, tf.estimator.ModeKeys.TRAIN, estimator.config).train_op


def _lines_within(record, start, end):
    """Returns the lines of what trained the steps of an interval."""
    before = [line for line in record.starts if line['step'] <= start]
    return [before[-1], *(line for line in record.starts if start < line['step'] < end)]


def _judge(recorded, interval, differing, pairs):
    """Returns what holds for an interval, in words, and the largest difference; raises RunError if it must not differ so.

    Args:
      pairs: what the run, and the training now, were made by, of each part of the interval.
    """
    changed = [*dict.fromkeys(text for then, now in pairs for text in made_by.differences(then, now))]
    rounded = [*dict.fromkeys(text for then, now in pairs for text in made_by.rounding(then, now))]
    only_rounded, has_gpus = changed == rounded, any(now['gpus'] for _, now in pairs)
    why = '; '.join([*changed, *(['GPUs add in any order'] if has_gpus else [])])
    if not differing:
        return f'equal, although {why}' if changed else 'equal', 0.0
    shown = proof.describe(differing)
    if why and only_rounded and differing[0].relative <= proof.TOLERANCE:
        limit = f'equal within {proof.TOLERANCE:g} of the largest value of each variable, not to the bit ({shown})'
        return f'{limit}: {why}', max(item.largest for item in differing)
    reason = f'since this was trained, {why}' if why else _NOTHING_CHANGED
    raise RunError(f'{recorded}: differs from what training steps {_shown(interval)} again gives: {shown}: {reason}')
