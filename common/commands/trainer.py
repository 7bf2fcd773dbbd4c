"""Trains a model on a dataset, evaluates it, predicts with it and exports it.

python trainer.py --model=alexnet --dataset=mnist
"""

from typing import TYPE_CHECKING, Any

from absl import flags

import estimator_trainer
from estimator_trainer.common.commands import command, compare, status
from estimator_trainer.common.commands.flags import check, check_names, define, output_dir, to_options
from estimator_trainer.common.errors import UsageError, check_all
from estimator_trainer.common.plugins.module_help import describe_framework, describe_module
from estimator_trainer.common.plugins.module_list import list_modules

if TYPE_CHECKING:
    from estimator_trainer.common.stop import StopOnSignal


def help_text(FLAGS: flags.FlagValues, doc: str | None = __doc__) -> str:
    """Returns the output of --help, which begins with `doc`, --list or --version; '' without them."""
    if FLAGS.version:
        return estimator_trainer.__version__
    if FLAGS.list:
        return list_modules()
    given = [kind for kind in ('model', 'dataset') if FLAGS[kind].present]
    if not FLAGS.help or not given:
        return command.flags_help(doc, FLAGS) if FLAGS.help else ''
    return '\n\n'.join([*(describe_module(kind, FLAGS[kind].value or '') for kind in given), describe_framework()])


def check_command(FLAGS: flags.FlagValues) -> None:
    """Raises UsageError if flags are empty or incompatible, or name something that does not exist."""
    check_all([lambda: check(FLAGS), lambda: check_names(FLAGS)])


def run_quickly(FLAGS: flags.FlagValues) -> bool:
    """Prints the status of runs, or compares them, if that is the schedule; returns whether it is."""
    if FLAGS.schedule == 'status':
        status.show(FLAGS.runs or output_dir(FLAGS), FLAGS.watch)
    if FLAGS.schedule == 'compare':
        compare.show(FLAGS.runs, FLAGS.best_metric)
    return FLAGS.schedule in ('status', 'compare')


def run(FLAGS: flags.FlagValues, stop: 'StopOnSignal') -> Any:
    """Runs the schedule that the flags select and returns the result: text, or values of JSON."""
    import tensorflow.compat.v1 as tf

    from estimator_trainer.common.commands import find_batch_size, folds, replay, request, rerun, verify
    from estimator_trainer.common.runs.serve_schedule import serve_export

    if FLAGS.schedule == 'serve' and FLAGS.checkpoint not in (None, 'latest', 'best'):
        if tf.io.gfile.isdir(FLAGS.checkpoint):
            return serve_export(to_options(FLAGS), stop)
        if not tf.io.gfile.exists(f'{FLAGS.checkpoint}.index'):
            raise UsageError(f'--checkpoint={FLAGS.checkpoint}: there is neither a checkpoint nor an export')
    if folds.are_asked_for(FLAGS):
        return folds.run(FLAGS, stop, {})
    if FLAGS.schedule in ('replay', 'verify'):
        rerun.warn_of_ignored(FLAGS)
    if FLAGS.schedule == 'replay':
        return replay.run(FLAGS, stop, request.Objects())
    if FLAGS.schedule == 'find_batch_size':
        return find_batch_size.run(FLAGS, stop, request.Objects())
    if FLAGS.schedule == 'verify':
        return verify.to_text(verify.run(FLAGS, stop))
    return request.launch(FLAGS, stop)


def main(argv: list[str]) -> int:
    """Runs a command line and returns the exit code: 0 on success, 1 on failure, 2 for wrong usage."""
    return command.execute(argv, define(), help_text, check_command, run, run_quickly)
