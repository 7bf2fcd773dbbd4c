"""An exported model, of a run or of any other program, as a server has it."""

from collections.abc import Callable
from concurrent.futures import Future
import contextlib
import os
import re
import threading
from typing import Any, NamedTuple

import numpy as np
import tensorflow.compat.v1 as tf

from estimator_trainer.common.errors import RunError, first_line, show
from estimator_trainer.common.files import names_in, read_json, stamp
from estimator_trainer.common.formats.encoded import PICTURE
from estimator_trainer.common.inference.requests import SIGNATURE, make_example
from estimator_trainer.common.inference.rows import make_batch
from estimator_trainer.common.inference.session_calls import Call, make_call
from estimator_trainer.common.paths import is_remote
from estimator_trainer.common.serving.batching import Arrays, Batcher
from estimator_trainer.common.serving.form import form_of
from estimator_trainer.common.serving.rest import Inputs, Request, Signature
from estimator_trainer.common.serving.served import MAX_EXAMPLES, Replaced, check_pixels, is_per_example
from estimator_trainer.common.storage import export_versions

FORM = 'form.json'  # In assets.extra.
_FILES, _FOLDERS = {'saved_model.pb', 'saved_model.pbtxt'}, ('variables', 'assets', 'assets.extra')  # Of a SavedModel.


class _Loaded(NamedTuple):
    """A SavedModel in memory: signatures {name: Signature}, and a function of the arrays of each one's inputs.

    Its files are {path: stamp}, as they were before it was loaded.
    """

    path: str
    files: dict[str, Any]
    version: int
    signatures: dict[str, Signature]
    calls: dict[str, Call]
    form: dict[str, Any]


class ExportedModel:
    """A SavedModel that answers requests.

    Args:
      path: of the SavedModel, or of a directory of versions, of which the highest is loaded.
      on_batch: see Batcher.

    Attributes:
      name: that of the run's model, or of the directory.
      signatures, form, step, unit: see ServedModel; the step is the version, or 0.

    Raises:
      RunError: the SavedModel cannot be loaded.
    """

    unit = 'version'

    def __init__(self, path: str, on_batch: Callable[[int], Any]):
        self._path, self._on_batch, self._problem = path, on_batch, ''
        self._refused: Any = None  # The files of a version that could not be loaded.
        found = _find(path)
        self._loaded = _load(found, _files(found))
        self.name = self._loaded.form['model']
        self._batchers = _batchers(self._loaded, on_batch)
        self._submitting = threading.Lock()  # So that no Batcher closes before it gets a request.

    signatures = property(lambda self: self._loaded.signatures)
    form = property(lambda self: self._loaded.form)
    step = property(lambda self: self._loaded.version)

    def to_batch(self, request: Request) -> Arrays:
        """Returns the arrays of a request; raises ValueError if it does not fit the model, Replaced if it did before."""
        loaded = self._loaded
        if request.signature not in loaded.signatures:
            raise Replaced(loaded.version)
        inputs = loaded.signatures[request.signature].inputs
        if request.columns.keys() != inputs.specs.keys():
            raise Replaced(loaded.version)
        check_pixels(request.columns, inputs.pictures)
        _refuse_decimal_commas(request.columns, loaded.form)
        try:
            batch, _ = make_batch(request.columns, inputs.specs)
        except OverflowError as error:
            raise ValueError(f'a number is too large: {error}') from None
        return batch

    def submit(self, signature: str, batch: Arrays) -> 'Future[Arrays]':
        """Returns the future of the predictions of a batch; it, or this function, raises Replaced if they fit no longer."""
        with self._submitting:
            if signature not in self._batchers:
                raise Replaced(self._loaded.version)
            return self._batchers[signature].submit(batch)

    def has_step(self, step: int) -> bool:
        """Whether a version is loaded."""
        return self.step == step

    def warm_up(self) -> None:
        """Predicts an example with the default signature: the first prediction optimizes the graph, which is slow."""
        _warm_up(self._loaded)

    def reload(self) -> None:
        """Loads the highest version, if it is another; predictions go on meanwhile. A warning says if it cannot be loaded.

        It is loaded again, or tried again, when its files have changed, as those of a version that is being copied do.
        """
        files = None
        try:
            path = _find(self._path)
            if path == self._loaded.path and is_remote(path):  # Each look would be a request per file.
                return
            files = _files(path)
            if files in (self._loaded.files, self._refused):
                return
            loaded = _load(path, files)
            _warm_up(loaded)
        except RunError as error:
            if str(error) != self._problem:
                tf.logging.warning('Version %d stays: %s', self.step, error)
            self._problem, self._refused = str(error), files
            return
        former, self._problem = self._batchers, ''
        with self._submitting:
            self._loaded, self._batchers = loaded, _batchers(loaded, self._on_batch)
        tf.logging.info('Version %d is loaded.', loaded.version)
        for batcher in former.values():
            batcher.close()

    def close(self) -> None:
        """Waits for the requests in progress."""
        for batcher in self._batchers.values():
            batcher.close()


def _refuse_decimal_commas(columns, form):
    """Raises ValueError for a text in a column whose files have decimal commas: 1.234 is 1234 there."""
    for field in form['fields']:
        for value in columns.get(field['name'], ()) if 'decimal' in field else ():
            if isinstance(value, str) and value.strip().lower() not in ('', 'nan'):
                raise ValueError(
                    f'the input {field["name"]}: {show(value)} is a text, and files have decimal commas there: send a number'
                )


def _find(path):
    try:
        found = export_versions.find(path)
    except (OSError, tf.errors.OpError) as error:
        raise RunError(f'{path}: {first_line(error)}') from None
    if not found:
        raise RunError(f'{path} has no SavedModel')
    return found


def _files(path):
    """Returns the states of the files of a SavedModel, {path: stamp}; None for a broken link. Its directory may have others."""
    try:
        folders = [path, *(os.path.join(path, name) for name in _FOLDERS)]
        found = [os.path.join(folder, name) for folder in folders if tf.io.gfile.isdir(folder) for name in names_in(folder)]
        return {file: _stamp(file) for file in found if os.path.dirname(file) != path or os.path.basename(file) in _FILES}
    except (OSError, tf.errors.OpError) as error:
        raise RunError(f'{path}: {first_line(error)}') from None


def _stamp(path):
    try:
        return stamp(path)
    except (FileNotFoundError, tf.errors.NotFoundError):
        return None


def _load(path, files):
    with tf.Graph().as_default() as graph, contextlib.ExitStack() as failing:
        session = tf.Session(graph=graph, config=tf.ConfigProto(allow_soft_placement=True))
        failing.callback(session.close)
        try:
            definitions = tf.saved_model.loader.load(session, [tf.saved_model.tag_constants.SERVING], path).signature_def
        except (RuntimeError, ValueError, OSError, tf.errors.OpError) as error:
            raise RunError(f'{path} cannot be loaded: {first_line(error)}') from None
        form = _read_form(path)
        usable = {name: definition for name, definition in sorted(definitions.items()) if _is_usable(path, name, definition)}
        if not usable:
            raise RunError(f'{path} has no signature with dense inputs [batch, ...] and outputs')
        signatures = {name: _signature(name, definition, form) for name, definition in usable.items()}
        calls = {}
        for name, definition in usable.items():
            # Of their own, as outputs may be the same tensor, or an input.
            fetches = {
                key: tf.identity(graph.get_tensor_by_name(info.name)) for key, info in sorted(definition.outputs.items())
            }
            feeds = [graph.get_tensor_by_name(definition.inputs[key].name) for key in signatures[name].inputs.specs]
            calls[name] = make_call(session, fetches, feeds)
        failing.pop_all()
    version = os.path.basename(os.path.normpath(path))
    number = int(version) if re.fullmatch(r'[0-9]{1,18}', version) else 0
    return _Loaded(path, files, number, signatures, calls, form or _form(path, signatures))


def _batchers(loaded, on_batch):
    return {name: _batcher(loaded, name, on_batch) for name in loaded.signatures}


def _batcher(loaded, name, on_batch):
    signature, call = loaded.signatures[name], loaded.calls[name]
    forms = {key: (spec.shape[1:], _numpy_type(spec.dtype)) for key, spec in signature.inputs.specs.items()}

    def fits(array, shape, dtype):
        return shape.is_compatible_with(array.shape[1:]) and (dtype is None or array.dtype == dtype)

    def predict(batch):
        if batch.keys() != forms.keys() or not all(fits(batch[key], *form) for key, form in forms.items()):
            raise Replaced(loaded.version)
        return call(*(batch[key] for key in forms))

    specs = [*signature.inputs.specs.values(), *signature.outputs.values()]
    return Batcher(predict, MAX_EXAMPLES if all(map(is_per_example, specs)) else 0, on_batch)


def _numpy_type(dtype):
    """Returns the type of the arrays of a request for inputs of a type; None where `cast` leaves that to TensorFlow."""
    found = np.dtype(dtype.as_numpy_dtype)
    return found if found.kind in 'biufO' else None


def _warm_up(loaded):
    try:
        loaded.calls[SIGNATURE](*make_example(loaded.signatures[SIGNATURE].inputs.specs).values())
    except Exception as error:  # There may be no such signature, or it may refuse an empty example.
        tf.logging.debug('No first prediction: %s', error)


def _is_usable(path, name, definition):
    """Whether a signature has inputs and outputs, and only dense ones with a batch dimension; a warning names another."""
    if name.startswith('__saved_model'):  # How the model is initialized.
        return False
    handles = tf.resource.as_datatype_enum, tf.variant.as_datatype_enum
    wrong = [key for key, info in definition.inputs.items() if not info.name or _spec(info).shape.rank == 0]
    wrong += [key for key, info in definition.inputs.items() if info.dtype in handles]
    wrong += [key for key, info in definition.outputs.items() if not info.name]
    faults = [f'{key} is no dense tensor [batch, ...]' for key in wrong]
    faults += [f'it has no {kind}' for kind in ('inputs', 'outputs') if not getattr(definition, kind)]
    if faults:
        tf.logging.warning('%s: the signature %s is left out: %s.', path, name, faults[0])
    return not faults


def _signature(name, definition, form):
    is_of_form = bool(form) and (form['signature'] or SIGNATURE) == name
    files = [field['name'] for field in form['fields'] if field['type'] == 'picture'] if is_of_form else []
    # Not those that are pixels, of a model without a signature of files.
    files = [key for key in files if key in definition.inputs and _spec(definition.inputs[key]).dtype == tf.string]
    specs = {key: _spec(info, PICTURE if key in files else None) for key, info in sorted(definition.inputs.items())}
    inputs = Inputs(specs, files, form['ignored'] if is_of_form else ())
    return Signature(inputs, {key: _spec(info) for key, info in sorted(definition.outputs.items())}, definition.method_name)


def _spec(info, name=None):
    return tf.TensorSpec(tf.TensorShape(info.tensor_shape), tf.as_dtype(info.dtype), name)


def _read_form(path):
    """Returns the form of an export of a run; None for others."""
    file = os.path.join(path, 'assets.extra', FORM)
    if not tf.io.gfile.exists(file):
        return None
    try:
        form = read_json(file)
    except ValueError as error:
        raise RunError(str(error)) from None
    if form.keys() - {'targets', 'task'} != form_of('', Inputs({}), {}).keys():
        raise RunError(f'{file} is not that of an export of this version of the trainer: export again')
    return form


def _form(path, signatures):
    """Returns a form without fields, for a model of which nothing is known, named by its directory."""
    folder, name = os.path.split(os.path.abspath(path))
    return form_of(os.path.basename(folder) if name.isdecimal() else name, Inputs({}), {})
