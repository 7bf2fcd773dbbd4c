"""From the flags of sweep.py to a search."""

from collections.abc import Mapping
import os
import types
from typing import Any

from absl import flags

from estimator_trainer.common.cluster import tf_config
from estimator_trainer.common.commands import request, shared_data
from estimator_trainer.common.commands.flags import SWEEP_DIR, arguments, output_dir
from estimator_trainer.common.errors import UsageError
from estimator_trainer.common.files import check_scheme
from estimator_trainer.common.options.entry import Trait
from estimator_trainer.common.options.table import names_with
from estimator_trainer.common.stop import StopOnSignal
from estimator_trainer.common.storage.objective import parse_objective
from estimator_trainer.common.sweep import forks, sampling
from estimator_trainer.common.sweep import space as spaces
from estimator_trainer.common.sweep.search import search
from estimator_trainer.common.sweep.trials import TrialRunner
from estimator_trainer.common.training.model_fn import check_hparams
from estimator_trainer.hparams import build, merge
from estimator_trainer.hparams.text import parse

_TRIALS = 20


def read_space(path: str) -> dict[str, Any]:
    """Returns the values of --space; raises UsageError if they cannot be read."""
    check_scheme('space', path)
    return spaces.read_space(path)


def run(
    FLAGS: flags.FlagValues,
    stop: StopOnSignal,
    server: forks.Server | None,
    values: Mapping[str, Any],
    origin: str,
    hparams: Mapping[str, Any] = types.MappingProxyType({}),
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Runs the remaining trials and returns the result and the table of all, see `common.sweep.search.search`.

    Args:
      FLAGS: of sweep.py.
      server: forks trials; None if this system has no forks.
      values: of the space, as in JSON.
      origin: of the values, for errors.
      hparams: with values of their types, in place of text in FLAGS.
    """
    tf_config.refuse(os.environ, 'sweep.py')
    _, dataset, params = request.load(FLAGS, request.Objects(hparams=hparams))
    objective = parse_objective(FLAGS.best_metric or 'loss:min')
    space = _make_space(FLAGS, values, origin, params, hparams)
    trial_runner = TrialRunner(
        [f'--model={FLAGS.model}', f'--dataset={FLAGS.dataset}', *arguments(FLAGS, but_for=Trait.SET_IN_TRIALS)],
        params,
        output_dir(FLAGS, SWEEP_DIR),
        FLAGS.eval_splits[0],
        objective,
        FLAGS.seeds,
    )
    num_trials = FLAGS.trials or (int(sampling.size(space)) if FLAGS.sampler == 'grid' else _TRIALS)
    setup, array_task = _setup(FLAGS, params, values), os.environ.get('SLURM_ARRAY_TASK_ID', '')

    def find_data():
        return shared_data.find(dataset, FLAGS.data_dir, params, [params.train_split, *FLAGS.eval_splits], values)

    return search(trial_runner, space, FLAGS.sampler, setup, find_data, num_trials, FLAGS.jobs, stop, server, array_task)


def _make_space(FLAGS, values, origin, params, hparams):
    space: dict[str, Any] = spaces.make_space(values, origin, params, {*_given(FLAGS), *hparams})
    for name in space.keys() & {'optimizer', 'learning_rate_schedule'}:
        for choice in space[name].choices:
            check_hparams(build.HParams(merge.apply(params, origin, {name: choice})))
    if 'seed' in space and FLAGS.seeds > 1:
        raise UsageError(f'{origin}: seed is also set by --seeds={FLAGS.seeds}: remove one of the two')
    if FLAGS.sampler == 'grid':
        sampling.check_grid(space, origin)
    return space


def _given(FLAGS):
    """Returns the names of the hyper-parameters set by flags, which must not be searched."""
    given = {*parse(FLAGS.hparams), *(name for name in ('train_steps', 'num_epochs', 'seed') if FLAGS[name].present)}
    return {*given, 'train_steps', 'num_epochs'} if given & {'train_steps', 'num_epochs'} else given


def _setup(FLAGS, params, values):
    """Returns the setup that trials must share to be comparable."""
    space = {f'the space of {name}': of_name for name, of_name in values.items()}
    same = {f'--{name}': FLAGS[name].value for name in names_with(Trait.SAME_IN_TRIALS)}
    same['--best_metric'] = FLAGS.best_metric or 'loss:min'  # As in studies of older versions.
    return {**params, **space, **same, '--seeds': FLAGS.seeds}
