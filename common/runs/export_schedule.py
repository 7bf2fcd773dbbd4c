"""The schedule that exports a trained model; see common/runs/schedules.py."""

from collections.abc import Iterator, Mapping, Sequence
import contextlib
import functools
import itertools
import os
from typing import Any

import tensorflow.compat.v1 as tf

from estimator_trainer.common import assets, import_names
from estimator_trainer.common.console import quiet
from estimator_trainer.common.errors import RunError, UsageError, first_line, listed
from estimator_trainer.common.export import comparison, inputs, onnx_file, saved_model, tflite_file
from estimator_trainer.common.export.diagnosis import first_difference
from estimator_trainer.common.export.network import freeze
from estimator_trainer.common.files import sha256_of, write
from estimator_trainer.common.inference import serving
from estimator_trainer.common.inference.hub_header import task_of
from estimator_trainer.common.inference.model_card import card_files, make_card
from estimator_trainer.common.inference.prediction import read_labels
from estimator_trainer.common.inference.predictor import Predictor
from estimator_trainer.common.locks import taking_turns
from estimator_trainer.common.runs import chosen_checkpoint, saved_dataset, saved_flags
from estimator_trainer.common.runs.decision import decided
from estimator_trainer.common.runs.experiment import Experiment
from estimator_trainer.common.serving.served import form_of_export
from estimator_trainer.common.storage import checkpoints, export_versions, provenance
from estimator_trainer.common.storage.export_versions import SAVED_MODEL
from estimator_trainer.common.storage.restore import CheckpointGone
from estimator_trainer.common.targets import are_several, is_multilabel, label_names_of

_FILES: Mapping[str, Any] = {'onnx': onnx_file, 'tflite': tflite_file}
_CALIBRATED = 512  # Examples that tell the ranges of activations.
_MAX_LISTED = 5  # Names in a message.
_DIAGNOSED = 32  # Examples with which the op is looked for that makes a difference.


def export(experiment: Experiment) -> dict[str, Any]:
    """Writes the formats of --format under output_dir/export: a SavedModel to VERSION, model.onnx to VERSION-onnx.

    A SavedModel has the signatures of common/inference/serving.py, and its directory assets.extra a model card, class names, an
    example request and a warmup request; other formats have the card as README.md. Each is loaded again and compared with the
    checkpoint; all of them are published, or none.
    """
    output_dir, options = experiment.output_dir, experiment.options
    formats = [*dict.fromkeys(options.format)]
    for name in formats:
        _check_installed(name)
    return chosen_checkpoint.use(output_dir, options.checkpoint, functools.partial(_export, experiment, formats))


def _check_installed(name):
    packages = _FILES[name].PACKAGES if name in _FILES else ()
    missing = [package for package in packages if not import_names.exists(package)]
    if missing:
        names = ' and '.join(package.replace('_', '-') for package in missing)
        raise UsageError(f"--format={name} needs {names}: pip install 'estimator-trainer[{name}]'")


def _export(experiment, formats, checkpoint):
    experiment = decided(experiment, checkpoint)
    directory = os.path.join(experiment.output_dir, 'export')
    made: dict[str, str] = {}
    compared: dict[str, Any] = {}
    with exporting(directory) as parent:
        for name in formats:
            make = functools.partial(_make_file, name) if name in _FILES else make_saved_model
            made[name], compared[name] = make(experiment, checkpoint, os.path.join(parent, name))
        paths = export_versions.publish(made, directory)
    found = {}
    for name, path in paths.items():
        key, shown = (name, os.path.join(path, f'model.{name}')) if name in _FILES else ('export', path)
        found[key] = shown
    compared = {name: facts for name, facts in compared.items() if not isinstance(facts, str)}
    return {'global_step': checkpoints.global_step(checkpoint), **found, **({'compared': compared} if compared else {})}


@contextlib.contextmanager
def exporting(directory: str) -> Iterator[str]:
    """Yields a temporary directory below that of exports, which no other export of this machine uses."""
    with taking_turns(directory) as is_alone:
        if is_alone:
            serving.remove_leftovers(directory)
        # The Estimator names a version by the clock, which may have gone back.
        parent = os.path.join(directory, f'temp-{export_versions.next_version(directory)}')
        try:
            yield parent
        finally:
            if tf.io.gfile.exists(parent):
                tf.io.gfile.rmtree(parent)


def make_saved_model(experiment: Experiment, checkpoint: str, parent: str) -> tuple[str, Any]:
    """Writes a SavedModel below a directory; returns its path and how it compares."""
    estimator, source = experiment.estimator, experiment.source
    serving_input_fn = serving.make_serving_input_fn(source)
    serving.check_exportable(estimator, serving_input_fn, checkpoint)
    try:
        with assets.written():
            path = estimator.export_saved_model(parent, serving_input_fn, checkpoint_path=checkpoint).decode()
    except (tf.errors.NotFoundError, ValueError):
        if tf.io.gfile.exists(f'{checkpoint}.index'):
            raise
        raise CheckpointGone(checkpoint) from None
    outputs: list[str] = []
    if hasattr(source.module, 'serving_input_receiver_fn'):
        compared: Any = 'not compared: the dataset has its own serving_input_receiver_fn'
    else:
        signature, given = inputs.of_saved_model(source, _split(experiment))
        with saved_model.opened(path, signature) as after:
            outputs = after.outputs
            flags = f'--format={SAVED_MODEL}'
            compared, excess = _compare(experiment, checkpoint, flags, given, after)
        if excess:
            raise RunError(f'{flags}: {excess}: the model depends on more than its inputs and the checkpoint')
    facts = {'format': SAVED_MODEL, 'comparison': _card_of(compared), **_provenance(experiment, checkpoint, path)}
    add_card(experiment, checkpoint, path, facts, outputs)
    return path, _card_of(compared)


def add_card(experiment: Experiment, checkpoint: str, path: str, facts: Mapping[str, Any], outputs: Sequence[str] = ()) -> None:
    """Writes the model card of a SavedModel and the files beside it to its assets.extra.

    Args:
      facts: for the card, in addition to those of the run.
      outputs: the names of the outputs of numbers, as far as they are known.
    """
    source, specs = experiment.source, serving.request_specs(experiment.source)
    if names := saved_model.refused(specs):
        tf.logging.warning(
            'tf.saved_model.load of recent TensorFlow makes Python names of inputs, which fails for %s: rename these, or '
            'load the export by TensorFlow Serving, --schedule=serve or tf.compat.v1.saved_model.load.',
            listed(names, _MAX_LISTED),
        )
    form = form_of_export(source) if specs else None
    facts = {**facts, 'task': task_of(source, outputs)}
    _add_card(experiment, checkpoint, os.path.join(path, 'assets.extra'), 'model_card.md', facts, specs, form)


def _make_file(name, experiment, checkpoint, directory):
    """Writes an ONNX or TFLite file to a new directory; returns its path and how it compares."""
    source, quantize, module, split = experiment.source, experiment.options.quantize, _FILES[name], _split(experiment)
    given = inputs.of_numbers(source, split)
    with quiet():
        network = freeze(experiment.estimator, given.signature, checkpoint)
    train_split = source.params.train_split
    batches = [*comparison.limited(given.batches(train_split), _CALIBRATED)] if quantize == 'int8' else []
    content = module.convert(network, quantize, batches)
    flags = f'--format={name}' + (f' --quantize={quantize}' if quantize else '')
    compared, excess = _compare(experiment, checkpoint, flags, given, module.opened(content), quantize)
    if excess:
        batch = next(comparison.limited(given.batches(split), _DIAGNOSED))
        limit = comparison.TOLERANCES[quantize]
        op = first_difference(network, batch, module.traced(content, network, batch), limit)
        place = f'the values of {op} are the first to differ by more than {limit} of their largest' if op else 'no op was found'
        cure = {None: 'choose another format', 'float16': 'omit --quantize', 'int8': 'use --quantize=float16, or omit it'}[
            quantize
        ]
        raise RunError(f'{flags}: {excess}; {place}: {cure}')
    tf.io.gfile.makedirs(directory)
    write(os.path.join(directory, f'model.{name}'), content)
    facts = {
        'format': name,
        'quantize': quantize,
        'task': task_of(source, network.outputs),
        'inputs': _ports(network.inputs),
        'outputs': _ports(network.outputs),
        **({} if given.is_raw else {'preparation': _preparation(source)}),
        'example': module.example(network, f'model.{name}'),
        'comparison': _card_of(compared),
        **_provenance(experiment, checkpoint, directory),
    }
    _add_card(experiment, checkpoint, directory, 'README.md', facts)
    return directory, _card_of(compared)


def _provenance(experiment, checkpoint, directory):
    """Returns the item of a card that says of which run and checkpoint the files in a directory are."""
    quoted = provenance.quoted(experiment.output_dir, checkpoint)
    files = {name: sha256_of(os.path.join(directory, name)) for name in provenance.files_in(directory)}
    return {'provenance': {**quoted, 'files': files}} if quoted else {}


def _preparation(source):
    describe = getattr(source.module, 'input_parts', None)
    return describe(source.params) if describe else {}


def _split(experiment):
    """Returns the first split that the run has evaluated."""
    return (saved_flags.load(experiment.output_dir).get('eval_splits') or ['eval'])[0]


def _compare(experiment, checkpoint, flags, given, after, quantize=None):
    """Returns the Comparison of the predictions for a split with the checkpoint's, and what exceeds the tolerance.

    If they cannot be compared, returns why, and ''.
    """
    source, split = experiment.source, _split(experiment)
    try:
        predictor = _predictor(experiment, checkpoint, given, after)
        if isinstance(predictor, str):
            tf.logging.warning('%s: not compared with the checkpoint: %s.', flags, predictor)
            return f'not compared: {predictor}', ''
        labels = itertools.repeat(None) if source.has_input_fn() else read_labels(source, split)
        found = comparison.compare(split, predictor.predict_batch, after, given.batches(split), labels)
    except ValueError as error:
        raise RunError(f'{flags}: the exported model cannot be compared with the checkpoint: {error}') from None
    excess = found.excess(quantize)
    if not excess:
        name, difference = found.largest
        text = 'Compared with the checkpoint on %d examples of %s: %s differs by %.3g at most.'
        tf.logging.info(f'{flags}: {text}', found.examples, split, name, difference.largest)
    return found, excess


def _predictor(experiment, checkpoint, given, after):
    """Returns the Predictor of the checkpoint, with which an export is compared; or why it cannot be, str."""
    if given is None:
        return 'the records do not have the inputs of the default signature'
    split = _split(experiment)
    try:
        batch = next(given.batches(split))
    except Exception as error:  # Modules may raise any; StopIteration, if it is empty.
        return f'the split {split} cannot be read: {first_line(error) or "it is empty"}'
    specs, to_features = given.signature
    with quiet():
        estimator = _in_plain_sessions(experiment.estimator)
        predictor = Predictor(estimator, specs, checkpoint, to_features, answers_one=False)
    first, second = (predictor.predict_batch(batch) for _ in range(2))
    if any(value.dtype.kind == 'f' and comparison.difference(value, second[name]).any() for name, value in first.items()):
        return 'two predictions of the checkpoint for the same examples differ'
    if not comparison.compared(first, after(batch)):
        return 'no output of numbers has the name of a prediction'
    return predictor


def _in_plain_sessions(estimator):
    """Returns the Estimator without its session_config, so that --precision and --xla rewrite no more than in an export."""
    return tf.estimator.Estimator(estimator.model_fn, config=estimator.config.replace(session_config=None))


def _card_of(compared):
    return compared if isinstance(compared, str) else compared.to_json()


def _ports(ports):
    return {name: {'dtype': port.spec.dtype.name, 'shape': port.spec.shape.as_list()} for name, port in ports.items()}


def _add_card(experiment, checkpoint, directory, name, facts, specs=None, form=None):
    """Writes the model card and the files beside it to a directory of an export."""
    estimator, params = experiment.estimator, experiment.params
    saved = saved_dataset.load(estimator.model_dir)
    card = make_card(estimator.model_dir, checkpoints.global_step(checkpoint), params, saved.sha256 if saved else None)
    facts = {'decision_threshold': experiment.threshold, **facts}
    tf.io.gfile.makedirs(directory)
    with card_files(
        {**card, **facts, **_targets(params.metadata)}, params.metadata.get('class_names'), name, specs, form
    ) as files:
        for file, path in files.items():
            tf.io.gfile.copy(path, os.path.join(directory, file))


def _targets(metadata):
    """Returns the item of a card about several targets; {} of one."""
    if is_multilabel(metadata):
        return {'targets': [{'name': name} for name in label_names_of(metadata)]}
    return {'targets': metadata['targets']} if are_several(metadata) else {}
