"""--schedule=replay: steps of a run, computed again and looked at."""

import os
from typing import Any

from absl import flags as absl_flags
import tensorflow.compat.v1 as tf

from estimator_trainer.common.cluster import tf_config
from estimator_trainer.common.commands import flags, request
from estimator_trainer.common.commands.rerun import Rerun, last_ordered, rerun
from estimator_trainer.common.errors import UsageError
from estimator_trainer.common.options.values import parse_step
from estimator_trainer.common.paths import real
from estimator_trainer.common.replay import recorded_losses, run_copy, written
from estimator_trainer.common.replay.examples import examples_of, to_json
from estimator_trainer.common.replay.written import Replay, Replayed
from estimator_trainer.common.runs.drawn import records_of_steps
from estimator_trainer.common.stop import StopOnSignal

_SHOWN = 5  # Examples in the result.
_FEW = 20  # Steps.


def run(FLAGS: absl_flags.FlagValues, stop: StopOnSignal, objects: request.Objects) -> dict[str, Any]:
    """Computes the steps of --step again, writes what is seen of them to --replay_dir, and returns it in short.

    Raises:
      UsageError: the run has not come to a step, has no checkpoint before it, or cannot be trained again.
      RunError: its data has changed, or is gone.
    """
    tf_config.refuse(os.environ, '--schedule=replay')
    output_dir = flags.output_dir(FLAGS)
    run_copy.require_checkpoint(output_dir)
    if not FLAGS.step:
        raise UsageError('--schedule=replay needs --step, such as --step=1234')
    first, last = parse_step(FLAGS.step)
    recorded_losses.check_reached(output_dir, FLAGS.step, last)
    directory = FLAGS.replay_dir or f'{output_dir.rstrip("/")}-replay'
    if real(directory) == real(output_dir):
        raise UsageError(f'--replay_dir={directory}: is the output_dir of the run, which is only read: choose another')
    data_dir = FLAGS.data_dir if FLAGS['data_dir'].present else None
    with rerun(output_dir, first, last, stop, data_dir, objects, records=True) as again:
        tf.io.gfile.makedirs(directory)  # Fails now rather than in the end.
        steps = written.Steps(os.path.join(again.directory, 'steps.jsonl'))
        found = _replay(again, steps, output_dir, first, last)
        return {**_result(found), **written.save(found, steps, directory)}


def _replay(again: Rerun, steps: written.Steps, output_dir, first, last):
    start, losses = again.step, again.losses
    facts: dict[str, Any] = {}
    span = f'step {last}' if last == start + 1 else f'the steps {start + 1} to {last}'
    tf.logging.info('Computing %s again, from the checkpoint of step %d.', span, start)

    def look(source, inspected):
        facts.update(model=source.params.model, dataset=source.params.dataset, metadata=source.params.metadata)
        for step, found in inspected:
            examples = examples_of(found, source, _numbers(source, output_dir, step))
            steps.add(Replayed(step, float(losses[step]), found, examples), source.params.metadata)

    is_finite = again.train(last, first, look)
    if not steps.worst:
        end = max(losses)
        raise UsageError(f'--step={first}: the loss, or a variable, is not finite after step {end}: look at it by --step={end}')
    following = recorded_losses.next_logged(output_dir, last)
    if is_finite and following and not recorded_losses.compare(output_dir, losses).steps:
        is_near = following - last <= max(last - start, _FEW)
        if is_near and following <= last_ordered(output_dir):  # There is no other evidence.
            again.train(following)
    comparison = recorded_losses.compare(output_dir, losses)
    is_same, differences = comparison.differing is None, again.differences
    if not is_same and not again.is_recorded:
        differences = [*differences, 'unknown, as provenance.jsonl is missing or broken']
    found = Replay(
        output_dir,
        start=start,
        losses=losses,
        comparison=comparison,
        differences=differences,
        num_steps=len(steps.norms),
        worst=steps.worst,
        **facts,
    )
    (tf.logging.info if is_same else tf.logging.warning)('%s', written.compared_text(found))
    if is_same and differences:
        tf.logging.warning('Unlike in the run: %s.', '; '.join(differences))
    return found


def _numbers(source, output_dir, step):
    """Returns the numbers of the records of a step; None if they are unknown."""
    try:
        (drawn,) = records_of_steps(source, output_dir, step - 1, step)
    except UsageError as error:
        tf.logging.info('%s', error)
        return None
    return drawn.numbers[0].tolist()


def _result(found):
    worst, comparison = found.worst, found.comparison
    origin = worst.inspected.origin
    for text in filter(None, (written.skipped_text(worst), written.blamed_text(worst), written.odd_text(worst))):
        tf.logging.info('Step %d: %s', worst.step, text)
    if text := written.inspected_text(worst):
        tf.logging.warning('Step %d: %s', worst.step, text)
    for one in worst.examples[:_SHOWN]:
        if one.loss is not None:  # Else they are in no order.
            tf.logging.info('Step %d: loss %.4g: %s', worst.step, one.loss, one.where)
    if left_out := sum(one.loss is not None and one.gradient_norm is None for one in worst.examples):
        tf.logging.warning('Step %d: the norms of %d gradients are unknown: NaN, or time ran out.', worst.step, left_out)
    if origin:
        tf.logging.info('Step %d: the first NaN or infinity arises in %s.', worst.step, origin)
    return {
        'step': worst.step,
        'loss': worst.loss,
        'from_step': found.start,
        'compared_losses': len(comparison.steps),
        'first_difference': comparison.differing,
        'largest_difference': comparison.largest,
        'not_finite': str(origin) if origin else None,
        'culprits': written.culprits_of(worst),
        'examples': [_short(to_json(one, found.metadata)) for one in worst.examples[:_SHOWN]],
    }


def _short(example):
    """Returns the items of an example that are single values."""
    return {name: value for name, value in example.items() if not isinstance(value, (list, dict))}
