"""Files shipped with an exported model: model card, class names, example requests."""

from collections.abc import Iterator, Mapping, Sequence
import contextlib
import importlib.metadata
import os
import platform
import re
import tempfile
from typing import Any

import tensorflow.compat.v1 as tf

from estimator_trainer.common.errors import listed
from estimator_trainer.common.files import dumps, write, write_json
from estimator_trainer.common.inference.hub_header import make_header
from estimator_trainer.common.inference.requests import write_requests
from estimator_trainer.common.storage.metrics import read_evaluations
from estimator_trainer.hparams.build import HParams
from estimator_trainer.hparams.defaults import DEFAULTS

_PACKAGES = ('estimator-trainer', 'tensorflow-estimator', 'numpy')
_MAX_CLASSES = 100
_PROVENANCE = {'run': 'Run', 'checkpoint': 'Checkpoint', 'last_line': 'Last line of provenance.jsonl'}  # SHA-256 digests.


def make_card(output_dir: str, step: int, params: Mapping[str, Any], data_sha256: str | None) -> dict[str, Any]:
    """Returns the model card of a checkpoint.

    Args:
      step: the checkpoint's global step.
      data_sha256: of the training data, if known.

    Returns:
      {'global_step', 'hparams', 'metrics': {split: {metric: number}}, 'data_sha256', 'versions': {package: version}}. The
      metrics are those of this step in metrics.csv.
    """
    found = next((result for result in read_evaluations(output_dir) if result['global_step'] == step), {})
    metrics = {
        split: {name: float(value) for name, value in values.items() if isinstance(value, (int, float))}
        for split, values in found.items()
        if split != 'global_step'
    }
    return {
        'global_step': step,
        'hparams': dict(params),
        'metrics': metrics,
        'data_sha256': data_sha256,
        'versions': versions(),
    }


def versions() -> dict[str, str]:
    """Returns {package: version}, of Python, too."""
    found = {'python': platform.python_version(), 'tensorflow': tf.__version__}
    for package in _PACKAGES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):  # A checkout need not be installed.
            found[package] = importlib.metadata.version(package)
    return found


@contextlib.contextmanager
def card_files(
    card: Mapping[str, Any],
    class_names: list[str] | None,
    name: str,
    inputs: Mapping[str, tf.TensorSpec] | None = None,
    form: Mapping[str, Any] | None = None,
) -> Iterator[dict[str, str]]:
    """Yields {name beside an exported model: path} of temporary files.

    They are model_card.json, the same in Markdown, with the header of `make_header`; class_names.txt, one per line, and
    form.json, what the page of a server asks for, if known; and the files of `write_requests`, if there are inputs.

    Args:
      card: of `make_card`, with 'format' and 'task', as for `make_header`, and the optional items of `to_markdown`.
      name: that of the card in Markdown.
      inputs: of the default signature.
    """
    with tempfile.TemporaryDirectory() as directory:
        assets = {file: os.path.join(directory, file) for file in ('model_card.json', name)}
        write_json(assets['model_card.json'], card)
        write(assets[name], make_header(card) + to_markdown(card, class_names or []))
        if form:
            assets['form.json'] = os.path.join(directory, 'form.json')
            write_json(assets['form.json'], form)
        if class_names:
            assets['class_names.txt'] = os.path.join(directory, 'class_names.txt')
            write(assets['class_names.txt'], ''.join(f'{" ".join(name.splitlines())}\n' for name in class_names))
        yield {**assets, **(write_requests(directory, inputs) if inputs else {})}


def to_markdown(card: Mapping[str, Any], class_names: Sequence[str]) -> str:
    """Returns a model card as Markdown, with the hyper-parameters that differ from the framework's defaults.

    Optional items of the card are 'quantize', a choice of --quantize; 'decision_threshold', the least probability with which
    class 1 is predicted; 'inputs' and 'outputs', {name: {'dtype', 'shape'}}; 'preparation', as of `input_parts` of a dataset
    module, if the inputs are prepared; 'example', lines of Python; 'comparison', {name: value}, or a text that says why
    there is none; 'targets', of a dataset with several; and 'provenance', digests: see common/storage/provenance.py.
    """
    hparams, metrics = card['hparams'], card['metrics']
    chosen = {name: value for name, value in hparams.items() if name not in DEFAULTS or HParams(DEFAULTS)[name] != value}
    names = sorted({name for values in metrics.values() for name in values})
    numbers = [(name, *(f'{values[name]:.6g}' if name in values else '' for values in metrics.values())) for name in names]
    shown = listed(class_names, _MAX_CLASSES)
    facts = {
        'Global step': card['global_step'],
        **({f'{len(class_names)} classes': shown} if class_names else {}),
        **{f'target {target["name"]}': _target_text(target) for target in card.get('targets', ())},
        **({'Quantization': card['quantize']} if card.get('quantize') else {}),
        **({'Decision threshold': f'{card["decision_threshold"]:.6g}'} if card.get('decision_threshold') else {}),
        'SHA-256 of the training data': card['data_sha256'] or 'unknown',
        **{text: card['provenance'][key] for key, text in _PROVENANCE.items() if 'provenance' in card},
    }
    parts = [
        f'# {_cell(hparams["model"])}, trained on {_cell(hparams["dataset"])}',
        _table(('', ''), facts.items()),
        '## Metrics',
        _table(('metric', *metrics), numbers) if metrics else 'None: this step was not evaluated.',
        *_about_file(card),
        '## Hyper-parameters',
        "Those that differ from the framework's defaults; model_card.json has all.",
        _table(('name', 'value'), chosen.items()),
        '## Versions',
        _table(('package', 'version'), card['versions'].items()),
    ]
    return '\n\n'.join(parts) + '\n'


def _target_text(target):
    """Returns what one of several targets is, and which outputs are its."""
    if 'key' not in target:
        return 'a label: its place in probabilities and predicted'
    names = target.get('class_names')
    is_what = f'{len(names)} classes: {listed(names, _MAX_CLASSES)}' if names else 'a number'
    return f'{is_what}; the outputs that end with _{target["key"]}'


def _about_file(card):
    """Returns the paragraphs about the exported file itself, as far as the card has such items."""
    parts = []
    if comparison := card.get('comparison'):
        is_known = isinstance(comparison, Mapping)
        parts += ['## Compared with the checkpoint', _table(('', ''), comparison.items()) if is_known else _cell(comparison)]
    if 'inputs' in card:
        rows = [
            (kind, name, spec['dtype'], spec['shape'])
            for kind, key in (('input', 'inputs'), ('output', 'outputs'))
            for name, spec in card[key].items()
        ]
        parts += ['## Inputs and outputs', _table(('', 'name', 'type', 'shape'), rows)]
    if 'preparation' in card:
        parts += ['Inputs are as the model takes them from its dataset: numbers, prepared as in training.']
        places = [
            (name, part.get('place', i), _preparation(part))
            for name, found in card['preparation'].items()
            for i, part in enumerate(found)
        ]
        parts += [_table(('input', 'place', 'is'), places)] if places else []
    if 'example' in card:
        parts += ['## Use', f'```python\n{card["example"]}\n```']
    return parts


def _preparation(part):
    """Returns a part of `own_data.preparation.input_parts` in words."""
    name = part['name']
    if 'vocabulary' in part:
        first = part.get('first', 1)
        ids = [f'{i} {value}' for i, value in enumerate(part['vocabulary'], first)]
        return f'{name}: {listed(ids, _MAX_CLASSES)}; {first - 1} for others'
    if 'mean' not in part:
        return f'1 if {name} is missing, else 0' if part.get('indicator') else name
    is_prepared = (part['mean'], part['std']) == (0, 1)
    return f'{name}, 0 if missing' if is_prepared else f'({name} - {part["mean"]:.9g}) / {part["std"]:.9g}, 0 if missing'


def _table(titles, rows):
    lines = [titles, ['---'] * len(titles), *rows]
    return '\n'.join(f'| {" | ".join(map(_cell, line))} |' for line in lines)


def _cell(value):
    """Returns a value as text escaped for Markdown and HTML."""
    text = value if isinstance(value, str) else dumps(value)
    return re.sub(r'([\\`*_\[\]<>|&])', r'\\\1', ' '.join(text.split()))
