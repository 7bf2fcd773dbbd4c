"""Searches hyper-parameters, a training for each trial, several at once: python sweep.py --help"""

import contextlib
import os
import sys

from absl import flags

import trainer  # Before TensorFlow.
import tensorflow.compat.v1 as tf

from common import command, run_dir
from common.errors import RunError, UsageError
from common.goal import parse_goal
from common.schedules import to_json
from hparams import build

try:
    from common.study import TrialState, lock, open_study, run_trials
    from common.trainings import Trainings
    from hparams.space import read_space
except ModuleNotFoundError as error:
    sys.exit(f"sweep.py: there is no {error.name}: pip install -e '.[sweep]'")

# These are the sweep's own, or reach the trials in another way.
_NOT_PASSED_ON = ('space', 'trials', 'jobs', 'model', 'dataset', 'output_dir', 'hparams', 'hparams_set', 'train_steps',
                  'num_epochs', 'seed')


def define_flags():
    """Returns the trainer's flags and the sweep's own."""
    FLAGS = trainer.define_flags()
    group = {'flag_values': FLAGS, 'module_name': 'The sweep'}
    flags.DEFINE_string('space', '', 'A JSON file of what to search: for each hyper-parameter a list of choices, or a range '
                        'such as {"low": 1e-4, "high": 0.1, "log": true}.', **group)
    flags.DEFINE_integer('trials', 20, 'How many trials to make in all.', lower_bound=1, **group)
    flags.DEFINE_integer('jobs', 1, 'How many of them to run at once.', lower_bound=1, **group)
    return FLAGS


def check_flags(FLAGS):
    """Raises UsageError where flags are empty or do not go together."""
    trainer.check_flags(FLAGS)
    if FLAGS['schedule'].present:
        raise UsageError('--schedule is for trainer.py: a sweep trains and evaluates')
    if not FLAGS.space:
        raise UsageError('--space is missing: a JSON file of what to search, such as hparams/spaces/alexnet_mnist.json')
    if '://' in (FLAGS.output_dir or ''):
        raise UsageError(f'--output_dir={FLAGS.output_dir}: a sweep needs a local directory')


def run(FLAGS, unused_stop):
    """Runs the trials that are missing and returns the result, a dict."""
    _, _, params = trainer.load(FLAGS)
    given = [name for name in ('train_steps', 'num_epochs', 'seed') if FLAGS[name].present]
    space = read_space(FLAGS.space, params, [*given, *build.parse(FLAGS.hparams)])
    goal = parse_goal(FLAGS.best_metric)
    split = FLAGS.eval_splits[0]
    setup = {**params, **{f'the space of {name}': str(values) for name, values in space.items()},
             '--best_metric': FLAGS.best_metric, 'the split that is judged': split}
    output_dir = FLAGS.output_dir or f'output/{FLAGS.dataset}/{FLAGS.model}_sweep'
    best_path = os.path.join(output_dir, 'best_hparams.json')
    run_dir.claim(output_dir)
    with lock(output_dir) as descriptor:
        study = open_study(output_dir, goal, params.seed, setup)
        passed_on = [FLAGS[name].serialize() for name in FLAGS if FLAGS[name].present and name not in _NOT_PASSED_ON]
        trainings = Trainings(trainer.__file__, [f'--model={FLAGS.model}', f'--dataset={FLAGS.dataset}', *passed_on], params,
                              output_dir, split, goal, descriptor)
        if not study.trials:
            trainings.check()
        trials = run_trials(study, space, goal, FLAGS.trials, FLAGS.jobs, trainings.start, trainings.read)
        with contextlib.closing(trials):
            for trial in trials:
                _log(trial, trainings, goal)
                if _best(study) == trial:
                    trainings.save_hparams(trial, best_path)
    best = _best(study)
    if not best:
        raise RunError(f'no trial came to its end: the last, {trainings.directory(study.trials[-1])}, failed: '
                       f'{trainings.error(study.trials[-1])}')
    result = {'trials': len(study.trials), goal.metric: to_json(best.value), 'best': trainings.directory(best),
              'hparams_set': best_path}
    run_dir.save_results(output_dir, result)
    return result


def _best(study):
    return study.best_trial if study.get_trials(states=[TrialState.COMPLETE]) else None


def _log(trial, trainings, goal):
    if trial.state == TrialState.FAIL:
        tf.logging.warning('%s failed: %s', trainings.directory(trial), trainings.error(trial))
        return
    number = len(trial.intermediate_values)
    tf.logging.info('%s %s: %s = %g after %d evaluation%s', trainings.directory(trial),
                    'was pruned' if trial.state == TrialState.PRUNED else 'is done', goal.metric, trial.value, number,
                    's' if number > 1 else '')


def main(argv):
    """Runs a command line and returns the exit code: 0 done, 1 failed, 2 wrong usage."""
    return command.execute(argv, __doc__, define_flags(), check_flags, run)


if __name__ == '__main__':
    sys.exit(main(sys.argv))
