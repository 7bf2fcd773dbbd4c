"""The output of a replay: JSON lines, a page, contact sheets, and summaries for TensorBoard."""

from collections.abc import Mapping, Sequence
import itertools
import os
from typing import Any, NamedTuple

import numpy as np
import tensorflow.compat.v1 as tf

from estimator_trainer.common.errors import and_more
from estimator_trainer.common.files import append, atomic_path, dumps, names_in, write
from estimator_trainer.common.inference.contact_sheet import ContactSheet
from estimator_trainer.common.replay.examples import Example, captioned, has_picture, to_json
from estimator_trainer.common.replay.inspection import Inspected
from estimator_trainer.common.replay.recorded_losses import Comparison
from estimator_trainer.common.report import page
from estimator_trainer.common.report.charts import Series, plot
from estimator_trainer.common.report.mistakes import to_data_uri
from estimator_trainer.common.targets import class_names_of, label_names_of

_SHOWN = 50  # Examples on the page.
_COLUMNS = 12
_EVENTS = '.replay'  # How the names of files for TensorBoard end.
_NAMED = 5  # Examples of a sentence.


class Replayed(NamedTuple):
    """A step that was computed again: its loss as trained, what was seen of it, and its examples."""

    step: int
    loss: float
    inspected: Inspected
    examples: Sequence[Example]


class Replay(NamedTuple):
    """Steps of a run that were computed again.

    Attributes:
      output_dir, model, dataset: of the run.
      start: the step of the checkpoint from which they were.
      losses: {step: loss} of all steps since.
      comparison: with the losses that the run has logged.
      differences: what made the run and does not make these steps, in words.
      metadata: of the dataset.
      num_steps: how many steps were asked for.
      worst: of these, that with the first NaN or infinity, or else with the largest loss.
    """

    output_dir: str
    model: str
    dataset: str
    start: int
    losses: Mapping[int, float]
    comparison: Comparison
    differences: Sequence[str]
    metadata: Mapping[str, Any]
    num_steps: int
    worst: Replayed


class Steps:
    """The steps that were asked for, as they come: of all but the worst, only their lines in a file and their norms are kept.

    Attributes:
      worst: see Replay; None before the first step.
      path: of the file, which is none yet.
      norms: [(step, {tag: norm})], for TensorBoard.
    """

    def __init__(self, path: str):
        self.path = path
        self.norms: list[tuple[int, dict[str, float]]] = []
        self.worst: Replayed | None = None

    def add(self, step: Replayed, metadata: Mapping[str, Any]) -> None:
        """Adds the next step, of a dataset with this metadata."""
        append(self.path, ''.join(f'{dumps(line)}\n' for line in _lines_of(step, metadata)).encode())
        self.norms.append((step.step, _norms(step.inspected)))
        if not self.worst or not _is_broken(self.worst) and (_is_broken(step) or step.loss > self.worst.loss):
            self.worst = step


def _is_broken(step):
    return bool(step.inspected.origin) and not step.inspected.is_skipped or not np.isfinite(step.loss)


def save(replay: Replay, steps: Steps, directory: str) -> dict[str, str]:
    """Writes all into an existing directory; returns paths: {'lines', 'page', 'pictures'}, the latter two if there are some."""
    paths = {'lines': os.path.join(directory, 'replay.jsonl')}
    with atomic_path(paths['lines']) as part, tf.io.gfile.GFile(part, 'w') as file, open(steps.path, encoding='utf-8') as lines:
        for line in itertools.chain((f'{dumps(line)}\n' for line in _lines_of_losses(replay)), lines):
            file.write(line)
    if all(has_picture(one) for one in replay.worst.examples) and replay.worst.examples:
        paths['pictures'] = os.path.join(directory, f'step-{replay.worst.step}.png')
        _draw(replay, paths['pictures'])
    if page.is_installed():
        paths['page'] = os.path.join(directory, 'replay.html')
        write(paths['page'], page.render(_parts(replay), 'replay.html.jinja'))
    else:
        tf.logging.info('No replay.html: it %s.', page.NEEDS)
    _write_events(replay, steps, directory)
    return paths


def _lines_of_losses(replay):
    compared = replay.comparison.steps
    for step, loss in replay.losses.items():
        logged = {'logged': compared[step][0]} if step in compared else {}
        yield {'kind': 'loss', 'step': step, 'loss': float(loss), **logged}


def _lines_of(one, metadata):
    """Yields the lines of a step, its examples, variables and layers."""
    found, step = one.inspected, {'step': one.step}
    origin = found.origin and found.origin._asdict()
    blamed = {'culprits': culprits_of(one), 'are_all_culprits': found.culprits and found.culprits.are_all}
    scale = {} if found.loss_scale is None else {'loss_scale': found.loss_scale, 'is_skipped': found.is_skipped}
    losses = {'loss': one.loss, 'loss_as_inspected': found.losses[0]}
    yield {'kind': 'step', **step, **losses, 'not_finite': origin, **blamed, **scale}
    for example in one.examples:
        yield {'kind': 'example', **step, **to_json(example, metadata)}
    for name, update in found.updates.items():
        gradient = found.gradients.get(name)
        yield {
            'kind': 'variable',
            **step,
            'name': name,
            'gradient': gradient and gradient._asdict(),
            'update': update._asdict(),
        }
    for layer in found.layers:
        yield {'kind': 'layer', **step, 'name': layer.name, 'op': layer.type, 'output': layer.measure._asdict()}


def culprits_of(step: Replayed) -> list[str]:
    """Returns the places of the examples by which a step is not finite."""
    return [example.where for example in step.examples if example.is_culprit]


def blamed_text(step: Replayed) -> str:
    """Returns because of which examples a step is not finite, in a sentence; '' if it is finite."""
    found = step.inspected.culprits
    if not step.inspected.origin:
        return ''
    if not found:
        return 'No example was found without which it would be finite.'
    culprits = [one for one in step.examples if one.is_culprit]
    them = 'them' if len(culprits) > 1 else 'it'
    rest = f'without {them}, the step is finite' if found.are_all else 'there are others, for which time ran out'
    return f'It is not finite because of {_named(culprits)}; {rest}.'


def odd_text(step: Replayed) -> str:
    """Returns which examples have odd values, in a sentence; '' if none do, or they are named as culprits."""
    odd = [one for one in step.examples if one.odd and not one.is_culprit]
    return f'Unlike the other examples: {_named(odd)}.' if odd else ''


def _named(examples):
    return and_more([one.where + (f' ({one.odd})' if one.odd else '') for one in examples], _NAMED)


def skipped_text(step: Replayed) -> str:
    """Returns that a step was skipped, in a sentence; '' if it was not."""
    if not step.inspected.is_skipped:
        return ''
    scale = step.inspected.loss_scale
    return (
        f'The step was skipped, as usual with float16: gradients overflow at the loss scale {scale:g}, which then was halved.'
    )


def _draw(replay, path):
    names = class_names_of(replay.metadata)
    sheet = ContactSheet(path, names.get(''), label_names_of(replay.metadata))
    for example in replay.worst.examples:
        sheet.add(captioned(example))
    sheet.save()


def _parts(replay):
    """Returns the variables of the page."""
    worst = replay.worst
    shown = worst.examples[:_SHOWN]
    columns = [*dict.fromkeys(name for one in shown for name in one.cells)]
    steps = np.array([*replay.losses], float)
    losses = np.array([float(loss) for loss in replay.losses.values()])
    text = f'The loss of steps {int(steps[0])} to {int(steps[-1])}.'
    curve = plot('loss', text, [Series('loss', steps, losses, 'both' if len(steps) < 50 else 'line')], 'step', '')
    return {
        'replay': replay,
        'worst': worst,
        'compared': compared_text(replay),
        'blamed': blamed_text(worst),
        'odd': odd_text(worst),
        'skipped': skipped_text(worst),
        'inspected': inspected_text(worst),
        'has_odd': any(one.odd for one in shown),
        'curves': [curve] if len(steps) > 1 and np.isfinite(losses).any() else [],
        'examples': [
            (one, _said(one, replay.metadata), to_data_uri(one.prediction.image) if has_picture(one) else '') for one in shown
        ],
        'columns': columns[:_COLUMNS],
        'variables': [(name, worst.inspected.gradients.get(name), update) for name, update in worst.inspected.updates.items()],
    }


def _said(example, metadata):
    """Returns label and prediction of an example as texts."""
    found = to_json(example, metadata)
    texts = []
    for others in (('label_name', 'label'), ('class_name', 'predicted', 'class', 'value')):
        value = next((found[other] for other in others if found.get(other) is not None), '')
        texts.append(', '.join(map(str, value)) if isinstance(value, list) else str(value))
    return texts


def inspected_text(step: Replayed) -> str:
    """Says by how much the loss of a step differs when looked at, as with random ops that have a state; '' if it is equal."""
    difference = abs(step.inspected.losses[0] - step.loss)
    return f'The loss of the step differs by {difference:.4g} when it is inspected.' if difference > 0 else ''


def compared_text(replay: Replay) -> str:
    """Returns how the losses compare with the logged ones, in a sentence."""
    found = replay.comparison
    if not found.steps:
        return 'The run has logged no losses of these steps to compare with.'
    if found.differing is None:
        known = sorted(found.steps)
        several = f'{len(known)} losses that it has logged, of steps {known[0]} to {known[-1]}, are'
        what = several if known[1:] else f'loss that it has logged, of step {known[0]}, is'
        return f'The same as in the run, to the bit: the {what} equal.'
    logged, now = found.steps[found.differing]
    why = '; '.join(replay.differences) or 'nothing that is recorded: a random op may have a state of its own'
    return (
        f'Not the same as in the run: the loss of step {found.differing} was {logged:.9g}, and now is {now:.9g}; the largest '
        f'difference is {found.largest:.3g}. What differs: {why}.'
    )


def _norms(found):
    values = {f'replay/gradient_norm/{name}': gradient.norm for name, gradient in found.gradients.items()}
    values |= {f'replay/update_norm/{name}': update.norm for name, update in found.updates.items()}
    return values | {f'replay/layer_norm/{layer.name}': layer.measure.norm for layer in found.layers}


def _write_events(replay, steps, directory):
    """Writes the losses, and of the steps asked for the norms of gradients, updates and layers, for TensorBoard.

    They take the place of those of an earlier replay, with which TensorBoard would mix them.
    """
    for name in names_in(directory):
        if name.startswith('events.') and name.endswith(_EVENTS):
            tf.io.gfile.remove(os.path.join(directory, name))
    with tf.Graph().as_default():
        writer = tf.summary.FileWriter(directory, filename_suffix=_EVENTS)
    for step, loss in replay.losses.items():
        writer.add_summary(_summary({'loss': float(loss)}), step)
    for step, norms in steps.norms:
        writer.add_summary(_summary(norms), step)
    writer.close()


def _summary(values):
    return tf.Summary(value=[tf.Summary.Value(tag=tag, simple_value=value) for tag, value in values.items()])
