"""Requests and responses of TensorFlow Serving's REST API as values of Python; see docs/serving.md."""

import base64
import binascii
from collections.abc import Collection, Mapping, Sequence
import dataclasses
import difflib
import itertools
import json
from typing import Any, NamedTuple

import numpy as np
import tensorflow.compat.v1 as tf
from tensorflow.core.framework import types_pb2

from estimator_trainer.common import json_text, tags
from estimator_trainer.common.errors import describe, listed, show
from estimator_trainer.common.inference.arrays import joined, to_array, without_padding, wrong
from estimator_trainer.common.unicode_forms import under_names_of

constants = tf.saved_model.signature_constants
_LISTED = 20  # Names in a message.
_MAX_DEPTH = 64  # Of NumPy's arrays.
_SIGNATURE_NAME = 'signature_name'
_MAX_KEY, _CLOSE = 20, 0.85  # The length, and the likeness to another, of a key that may be misspelt.


@dataclasses.dataclass(frozen=True)
class Inputs:
    """What requests contain.

    Attributes:
      specs: {name: tf.TensorSpec [batch, ...]}.
      pictures: the names of those that are pictures: encoded files or arrays.
      ignored: further names that a request may have, such as that of the label.
    """

    specs: Mapping[str, tf.TensorSpec]
    pictures: Collection[str] = ()
    ignored: Collection[str] = ()


class Signature(NamedTuple):
    """A function of a model: its inputs, its outputs {name: tf.TensorSpec}, and the name of the method that it is for."""

    inputs: Inputs
    outputs: Mapping[str, tf.TensorSpec]
    method: str = constants.PREDICT_METHOD_NAME


Signatures = Mapping[str, Signature]


@dataclasses.dataclass(frozen=True)
class Request:
    """Examples for a signature.

    columns is {name: a value per example}; by_row is whether the answer has a prediction per example; parts are, if the
    examples are variants of the first one, what each of the others lacks of it, and then the parts that none lacks.
    """

    signature: str
    columns: dict[str, Any]
    by_row: bool
    parts: Sequence[str] = ()


def read_request(body: bytes, signatures: Signatures) -> Request:
    """Returns the examples of a request's body; raises ValueError, with what was expected and what came, if it is wrong."""
    content = loads(body)
    check_keys(content, ('instances', 'inputs'))
    keys = [key for key in ('instances', 'inputs') if isinstance(content, dict) and key in content]
    if len(keys) != 1:
        raise ValueError(f'the request must be an object with "instances" or "inputs", not {came(content)}')
    name = signature_of(content, signatures)
    inputs, by_row = signatures[name].inputs, keys == ['instances']
    columns = _of_rows(content['instances'], inputs) if by_row else _of_columns(content['inputs'], inputs)
    if b'true' in body or b'false' in body:
        _refuse_booleans(columns, inputs)
    return Request(name, {name: _decoded(name, values, inputs) for name, values in columns.items()}, by_row)


def loads(body: bytes) -> Any:
    """Returns the JSON of a request; raises ValueError if it is none."""
    try:
        return json_text.loads(body.decode())
    except json_text.Misread as error:
        raise ValueError(f'the request: {error}') from None
    except ValueError as error:
        raise ValueError(f'the request is not JSON: {error}') from None


def check_keys(content: Any, known: Collection[str]) -> None:
    """Raises ValueError if a key of a request seems to be a misspelt one. TensorFlow Serving ignores all that it does not know.

    Args:
      known: those that such requests have, besides the name of the signature.
    """
    found = content if isinstance(content, dict) else {}
    names = [name for name in (_SIGNATURE_NAME, *known) if name not in found]
    for key in itertools.islice((key for key in found if key not in known and len(key) <= _MAX_KEY), _LISTED):
        if meant := difflib.get_close_matches(key, names, 1, _CLOSE):
            raise ValueError(f'the request has the unknown key {show(key)}, did you mean {meant[0]}?')


def came(content: Any) -> str:
    """Returns what a request is, for a message about what it should be."""
    return f'the keys {", ".join(map(show, content)) or "none"}' if isinstance(content, dict) else describe(content)


def signature_of(content: Mapping[str, Any], signatures: Signatures) -> str:
    """Returns the name of the signature that a request is for."""
    name = content.get(_SIGNATURE_NAME)
    name = constants.DEFAULT_SERVING_SIGNATURE_DEF_KEY if name in (None, '') else name
    if not isinstance(name, str) or name not in signatures:
        raise ValueError(f'there is no signature {show(name)}; there are: {", ".join(signatures)}')
    return name


def _of_rows(rows, inputs):
    if not isinstance(rows, list) or not rows:
        raise ValueError(f'"instances" must be a list of examples, not {"an empty one" if rows == [] else describe(rows)}')
    if len(inputs.specs) == 1 and not any(_is_named(row) for row in rows):
        return dict.fromkeys(inputs.specs, rows)
    known = {*inputs.specs, *inputs.ignored}
    rows = [under_names_of(row, known) if isinstance(row, dict) else row for row in rows]
    for number, row in enumerate(rows):
        _check_names(row, inputs, f'instance {number}')
    return {name: [row[name] for row in rows] for name in inputs.specs}


def _of_columns(columns, inputs):
    if len(inputs.specs) == 1 and not _is_named(columns):
        columns = dict.fromkeys(inputs.specs, columns)
    columns = under_names_of(columns, {*inputs.specs, *inputs.ignored}) if isinstance(columns, dict) else columns
    _check_names(columns, inputs, '"inputs"')
    for name in inputs.specs:
        if not isinstance(columns[name], list) or not columns[name]:
            came = 'an empty one' if columns[name] == [] else describe(columns[name])
            raise ValueError(f'the input {name} must be a list with a value for each example, not {came}')
    if len(sizes := {len(columns[name]) for name in inputs.specs}) > 1:
        raise ValueError(f'the inputs {listed(inputs.specs, _LISTED)} have batches of different sizes: {sorted(sizes)}')
    return {name: columns[name] for name in inputs.specs}


def _is_named(value):
    """Whether a value is an object of inputs by name, rather than bytes."""
    return isinstance(value, dict) and value.keys() != {'b64'}


def _check_names(found, inputs, what):
    names = listed(inputs.specs, _LISTED)
    if not isinstance(found, dict):
        raise ValueError(f'{what} must be an object with the inputs {names}, not {describe(found)}')
    missing = [name for name in inputs.specs if name not in found]
    unknown = [show(name) for name in found if name not in inputs.specs and name not in inputs.ignored]
    if missing or unknown:
        faults = [f'has no {listed(missing, _LISTED)}'] if missing else []
        faults += [f'has the unknown {listed(unknown, _LISTED)}'] if unknown else []
        raise ValueError(f'the inputs are {names}, but {what} {" and ".join(faults)}')


def _refuse_booleans(columns, inputs):
    """Raises ValueError if there is true or false in place of a number; NumPy would take them as 1 and 0."""
    for name, spec in inputs.specs.items():
        if (spec.dtype not in (tf.string, tf.bool) or name in inputs.pictures) and _has_boolean(columns[name]):
            raise wrong(name, spec, True)


def _has_boolean(values, depth=_MAX_DEPTH):
    lists = [value for value in values if isinstance(value, list)] if depth else []
    return bool in map(type, values) or any(_has_boolean(value, depth - 1) for value in lists)


def _decoded(name, values, inputs):
    """Returns a value per example: bytes, text, a number, None, or an array."""
    spec = inputs.specs[name]
    if name in inputs.pictures:
        return [_picture(name, number, value) for number, value in enumerate(values)]
    if spec.dtype == tf.string:
        values = [_with_bytes(name, value, spec.shape.rank or _MAX_DEPTH) for value in values]
    if spec.name == tags.TOKENS:
        values = [joined(value) for value in values]
    if spec.shape.rank == 1:
        nested = [value for value in values if isinstance(value, (list, dict))]
        if nested:
            raise wrong(name, spec, nested[0])
        return values
    try:
        array = to_array(values, spec.dtype)
    except ValueError:  # Lists of different lengths.
        raise ValueError(f'the input {name} must be {spec.dtype.name} {spec.shape}, not lists of different lengths') from None
    if not spec.shape.is_compatible_with(array.shape):
        raise wrong(name, spec, array)
    return array


def _with_bytes(name, value, rank):
    if isinstance(value, list) and rank > 1:
        return [_with_bytes(name, item, rank - 1) for item in value]
    return to_bytes(name, value) if isinstance(value, dict) else value


def to_bytes(name: str, value: Mapping[str, Any]) -> bytes:
    """Returns the bytes of {"b64": "..."}; raises ValueError if it is something else."""
    if value.keys() != {'b64'} or not isinstance(value['b64'], str):
        raise ValueError(f'the input {name} must be text, or bytes as {{"b64": "..."}}, not {show(value)}')
    try:
        return base64.b64decode(value['b64'], validate=True)
    except (binascii.Error, ValueError) as error:
        raise ValueError(f'the input {name}: "b64" is not in base64: {error}') from None


def _picture(name, number, value):
    # A text would be the path of a file on this machine.
    if isinstance(value, dict):
        return to_bytes(name, value)
    if not isinstance(value, list):
        raise ValueError(
            f'the input {name}: picture {number} must be {{"b64": "..."}}, the file in base64, or lists of pixels, '
            f'not {describe(value)}'
        )
    try:
        return np.asarray(value)
    except ValueError:
        raise ValueError(f'the input {name}: picture {number} has rows of different lengths') from None


def write_response(predictions: Mapping[str, np.ndarray], by_row: bool) -> bytes:
    """Returns the body of the answer.

    Args:
      predictions: {name: array [batch, ...]}. A single one has no name in the answer.
    """
    if tags.are_predicted(predictions) and by_row:  # Sentences differ in length.
        rows = [without_padding(dict(zip(predictions, row))) for row in zip(*predictions.values())]
        return to_body({'predictions': [{name: to_values(value) for name, value in row.items()} for row in rows]})
    values = {name: to_values(array) for name, array in predictions.items()}
    if len(values) == 1:
        (result,) = values.values()
    else:
        result = [dict(zip(values, row)) for row in zip(*values.values())] if by_row else values
    return to_body({'predictions' if by_row else 'outputs': result})


def to_body(value: Any) -> bytes:
    """Returns JSON; NaN and infinities are written NaN, Infinity and -Infinity, as TensorFlow Serving does."""
    return json.dumps(value, ensure_ascii=False).encode()


def to_values(array: Any) -> Any:
    """Returns an array as nested lists of values of JSON."""
    array = np.asarray(array)
    if array.dtype.kind in 'OSU':
        return _map(_text, array.tolist())
    if array.dtype.kind == 'f' and array.dtype.itemsize < 8:  # As short as the float can be told from others.
        array = array.astype(np.float32).astype(str).astype(np.float64)
    return (array.astype(np.float32) if array.dtype.kind == 'V' else array).tolist()  # bfloat16.


def _map(function, value):
    return [_map(function, item) for item in value] if isinstance(value, list) else function(value)


def _text(value):
    if not isinstance(value, bytes):
        return str(value)
    try:
        return value.decode()
    except UnicodeDecodeError:
        return {'b64': base64.b64encode(value).decode()}


def status(step: int) -> dict[str, Any]:
    """Returns the status of a model whose only version is that of a step."""
    ok = {'error_code': 'OK', 'error_message': ''}
    return {'model_version_status': [{'version': str(step), 'state': 'AVAILABLE', 'status': ok}]}


def metadata(name: str, step: int, signatures: Signatures) -> dict[str, Any]:
    """Returns the metadata of a model: the dtypes and shapes of its inputs and outputs, for each signature."""
    described = {
        key: {
            'inputs': {name: _tensor_info(name, spec) for name, spec in signature.inputs.specs.items()},
            'outputs': {name: _tensor_info(name, spec) for name, spec in signature.outputs.items()},
            'method_name': signature.method,
        }
        for key, signature in signatures.items()
    }
    return {
        'model_spec': {'name': name, 'signature_name': '', 'version': str(step)},
        'metadata': {'signature_def': {'signature_def': described}},
    }


def _tensor_info(name, spec):
    known = spec.shape.rank is not None
    sizes: Sequence[int | None] = spec.shape.as_list() if known else []
    dims = [{'size': str(-1 if size is None else size), 'name': ''} for size in sizes]
    return {
        'dtype': types_pb2.DataType.Name(spec.dtype.as_datatype_enum),
        'tensor_shape': {'dim': dims, 'unknown_rank': not known},
        'name': name,
    }
