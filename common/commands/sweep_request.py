"""From the flags of sweep.py to a search."""

import os
from typing import Any

from absl import flags

from estimator_trainer.common.cluster import tf_config
from estimator_trainer.common.commands import request
from estimator_trainer.common.commands.flags import arguments
from estimator_trainer.common.files import check_scheme, read_json
from estimator_trainer.common.options.entry import Trait
from estimator_trainer.common.options.table import names_with
from estimator_trainer.common.stop import StopOnSignal
from estimator_trainer.common.storage.metrics import parse_objective
from estimator_trainer.common.sweep.search import search
from estimator_trainer.common.sweep.space import read_space
from estimator_trainer.common.sweep.trials import TrialRunner
from estimator_trainer.common.training.model_fn import check_hparams
from estimator_trainer.hparams import build, merge
from estimator_trainer.hparams.text import parse


def run(script: str, FLAGS: flags.FlagValues, stop: StopOnSignal) -> dict[str, Any]:
    """Runs the remaining trials and returns the result.

    Args:
      script: trainer.py, run by trials.
      FLAGS: of sweep.py.
    """
    tf_config.refuse(os.environ, 'sweep.py')
    _, _, params = request.load(FLAGS)
    check_scheme('space', FLAGS.space)
    objective = parse_objective(FLAGS.best_metric)
    space: dict[str, Any] = read_space(FLAGS.space, params, _given(FLAGS))
    for name in space.keys() & {'optimizer', 'learning_rate_schedule'}:
        for choice in space[name].choices:
            check_hparams(build.HParams(merge.apply(params, '--space', {name: choice})))
    trial_runner = TrialRunner(
        script,
        [f'--model={FLAGS.model}', f'--dataset={FLAGS.dataset}', *arguments(FLAGS, but_for=Trait.SET_IN_TRIALS)],
        params,
        FLAGS.output_dir or f'output/{FLAGS.dataset}/{FLAGS.model}_sweep',
        FLAGS.eval_splits[0],
        objective,
    )
    return search(trial_runner, space, _setup(FLAGS, params), FLAGS.trials, FLAGS.jobs, stop)


def _given(FLAGS):
    """Returns the names of the hyper-parameters set by flags, which must not be searched."""
    given = {*parse(FLAGS.hparams), *(name for name in ('train_steps', 'num_epochs', 'seed') if FLAGS[name].present)}
    return {*given, 'train_steps', 'num_epochs'} if given & {'train_steps', 'num_epochs'} else given


def _setup(FLAGS, params):
    """Returns the setup that trials must share to be comparable."""
    space = {f'the space of {name}': values for name, values in read_json(FLAGS.space).items()}
    same = {f'--{name}': FLAGS[name].value for name in names_with(Trait.SAME_IN_TRIALS)}
    same['--best_metric'] = FLAGS.best_metric or 'loss:min'  # As in studies of older versions.
    return {**params, **space, **same}
