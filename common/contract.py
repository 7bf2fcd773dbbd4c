"""What the functions of model and dataset modules take and return: what README.md asks of them is checked here."""

import collections.abc
import inspect
import math

import numpy as np
import tensorflow as tf2
import tensorflow.compat.v1 as tf

from common.errors import RunError, UsageError
from common.traceback_filter import in_a_line
from hparams.defaults import MAXIMUM

PREDICT = tf.estimator.ModeKeys.PREDICT
_ARGUMENTS = {
    'model': {
        'get_params': '',
        'model': 'features, labels, mode, params',
        'eval_metrics': 'features, labels, predictions, params',
    },
    'dataset': {
        'get_params': '',
        'prepare': 'data_dir, params',
        'read': 'split, data_dir, params',
        'parse': 'mode, params, record',
        'parse_batch': 'mode, params, records',
        'image_features': 'params, images',
    },
}
_OPTIONAL = ('eval_metrics', 'parse', 'parse_batch', 'image_features')
_DENSE = (tf.Tensor, tf2.Variable)
_COMPOSITE = (tf.SparseTensor, tf.RaggedTensor)
_RESERVED = ('loss', 'global_step', 'split')


def check_module(kind, name, module):
    """Raises UsageError if a module lacks functions, or has some that take other arguments.

    Args:
      kind: 'model' or 'dataset'.
      name: str, as the flag has it.
      module: the module.
    """
    functions = {function: getattr(module, function, None) for function in _ARGUMENTS[kind]}
    missing = [function for function, value in functions.items() if function not in _OPTIONAL and not callable(value)]
    if kind == 'dataset' and not (functions['parse'] or functions['parse_batch']):
        missing.append('parse')
    if missing:
        raise UsageError(f'--{kind}={name}: {module.__name__} must define {", ".join(missing)}; see README.md')
    for function, value in functions.items():
        if value is not None and not _takes(value, _ARGUMENTS[kind][function].split(', ')):
            raise UsageError(f'--{kind}={name}: {function}() must be a function of ({_ARGUMENTS[kind][function]})')


def _takes(function, names):
    if not callable(function):
        return False
    try:
        inspect.signature(function).bind(*filter(None, names))
    except TypeError:
        return False
    except ValueError:  # Some that are not written in Python do not say what they take.
        pass
    return True


def check_params(source, values):
    """Checks that what get_params() returned has names and values that --hparams and JSON can express.

    Args:
      source: str, the flag that names the module.
      values: what it returned.

    Raises:
      UsageError: it is no dict, or a name or a value is none that a hyper-parameter can have.
    """
    source = f'{source}: get_params()'
    if not isinstance(values, collections.abc.Mapping):
        raise UsageError(f'{source} must return a dict, not {_say(values)}')
    for key, value in values.items():
        if not isinstance(key, str) or not key.isidentifier() or hasattr(collections.abc.Mapping, key):
            raise UsageError(f'{source} gives {_show(key)}={_show(value)}: the name of a hyper-parameter must be a str of '
                             'letters, digits and _, and none of the methods of a dict')
        items = value if isinstance(value, (list, tuple)) else [value]
        if any(type(item) not in (bool, int, float, str) or type(item) is not type(items[0]) for item in items):
            raise UsageError(f'{source} gives {key}={_show(value)}, but a hyper-parameter is true or false, a whole number, a '
                             'number, text, or a list of one of these')
        if not all(map(_is_in_range, items)):
            raise UsageError(f'{source} gives {key}={_show(value)}: whole numbers must be from -{MAXIMUM} to {MAXIMUM}, '
                             'numbers finite, and text must be Unicode')


def _is_in_range(item):
    if isinstance(item, str):
        return not any('\ud800' <= character <= '\udfff' for character in item)
    return math.isfinite(item) if isinstance(item, float) else abs(item) <= MAXIMUM


def read(dataset, split, data_dir, params):
    """Returns what a dataset module reads, a tf.data.Dataset.

    Raises:
      UsageError: there is no such split, or it is something else.
      RunError: it cannot be read.
    """
    try:
        records = dataset.read(split, data_dir, params)
    except KeyError as error:
        if error.args != (split,):
            raise
        raise UsageError(f'--dataset={params.dataset}: there is no split {split}') from None
    except (OSError, tf.errors.OpError) as error:
        raise RunError(f'--dataset={params.dataset}: read(): the split {split} in {data_dir} cannot be read: '
                       f'{in_a_line(error)}') from None
    if not isinstance(records, tf2.data.Dataset):
        raise UsageError(f'--dataset={params.dataset}: read() must return a tf.data.Dataset, not {_say(records)}')
    return records


@tf.autograph.experimental.do_not_convert
def check_parsed(function, parsed, mode, params):
    """Returns the features and labels that a dataset module has made of records, as tensors; labels are None in PREDICT.

    Args:
      function: 'parse' or 'parse_batch'.
      parsed: what it returned.
      mode: tf.estimator.ModeKeys.
      params: HParams.

    Raises:
      UsageError: it is no pair of dicts of tensors.
    """
    source = f'--dataset={params.dataset}: {function}()'
    features, labels = _pair(source, '(features, labels)', parsed)
    min_rank = int(function == 'parse_batch')
    features = _tensors(source, 'feature', features, mode, min_rank)
    if mode == PREDICT:
        return features, None
    if labels is None:
        raise UsageError(f'{source} must return labels in training and evaluation, not None: an empty dict where there are '
                         'none')
    labels = _tensors(source, 'label', labels, mode, min_rank)
    return _of_one_batch(source, features, labels) if function == 'parse_batch' else (features, labels)


def _of_one_batch(source, features, labels):
    """Returns the features and labels, which are checked to be of as many examples, if need be when they are computed."""
    dense = [value for value in [*features.values(), *labels.values()] if isinstance(value, _DENSE) and value.shape.rank]
    sizes = [value.shape[0] for value in dense]
    if None not in sizes and len(set(sizes)) > 1:
        raise UsageError(f'{source} must return features and labels of one batch, not of {", ".join(map(str, sizes))} examples')
    if None not in sizes or len(sizes) < 2:
        return features, labels
    counts = tf.stack([tf.shape(value)[0] for value in dense])
    text = f'{source} must return features and labels of one batch'
    with tf.control_dependencies([tf.debugging.Assert(tf.reduce_all(tf.equal(counts, counts[0])), [text])]):
        return tf.nest.map_structure(tf.identity, (features, labels), expand_composites=True)


def _tensors(source, kind, values, mode, min_rank):
    """Returns a dict of what can be made tensors as tensors."""
    _check_dict(source, f'{kind}s', values)
    tensors = {}
    for name, value in values.items():
        if isinstance(value, _COMPOSITE) and mode != PREDICT:
            tensors[name] = value  # A model may take them, but who asks it gives arrays.
            continue
        try:
            tensors[name] = tf.convert_to_tensor(value)
        except (TypeError, ValueError, AttributeError):
            raise _no_tensor(source, kind, name, value) from None
        rank = tensors[name].shape.rank
        if rank is None and mode == PREDICT:
            raise _no_rank(source, kind, name)
        if rank is not None and rank < min_rank:
            raise UsageError(f'{source}: the {kind} {name} must be of shape [batch, ...], not {tensors[name].shape}')
    return tensors


def check_divisible(features, labels, params):
    """Raises UsageError if towers cannot each have a share of the features and labels."""
    source = f'--dataset={params.dataset} with towers'
    for kind, values in (('feature', features), ('label', labels)):
        for name, value in values.items():
            if not isinstance(value, _DENSE):
                raise _no_tensor(source, kind, name, value)
            if value.shape.rank is None:
                raise _no_rank(source, kind, name)


def call_model(model, features, labels, mode, params):
    """Returns the predictions of a model module, and its loss, which is None where there are no labels.

    Raises:
      UsageError: they are not a dict of tensors [batch, ...] and a float32 tensor [batch].
    """
    source = f'--model={params.model}: model()'
    predictions, loss = _pair(source, '(predictions, loss)', model.model(features, labels, mode, params))
    _check_dict(source, 'predictions', predictions)
    if not predictions:
        raise UsageError(f'{source} must return predictions, not an empty dict')
    for name, value in predictions.items():
        if not isinstance(value, _DENSE):
            raise _no_tensor(source, 'prediction', name, value)
    batch = tf.TensorShape([None]) if labels is None else _check_loss(source, loss)
    for name, value in predictions.items():
        if not value.shape[:1].is_compatible_with(batch):
            size = batch.num_elements()
            raise UsageError(f'{source}: the prediction {name} must be of shape [batch, ...], '
                             f'{f"with a batch of {size}, " if size else ""}not {value.shape}')
    return dict(predictions), None if labels is None else loss


def _check_loss(source, loss):
    """Returns the shape of a loss that is as it must be."""
    if not isinstance(loss, tf.Tensor) or loss.shape.rank != 1 or loss.dtype != tf.float32:
        is_cast = isinstance(loss, tf.Tensor) and loss.shape.rank == 1 and loss.dtype.is_floating
        raise UsageError(f'{source} must return a loss of shape [batch] and type float32, one for each example, not '
                         f'{_say(loss)}{": tf.cast(loss, tf.float32)" if is_cast else ""}')
    return loss.shape


def call_eval_metrics(model, features, labels, predictions, params):
    """Returns the metrics of a model module, {name: (value, update_op)}; an empty dict where it has none.

    Raises:
      UsageError: they are something else, or have a name that the framework needs itself.
    """
    if not hasattr(model, 'eval_metrics'):
        return {}
    source = f'--model={params.model}: eval_metrics()'
    created = []

    def create(next_creator, **kwargs):
        created.append(next_creator(**kwargs))
        return created[-1]

    with tf.variable_creator_scope(create):
        metrics = model.eval_metrics(features, labels, predictions, params)
    known = {variable.name for variable in (*tf.global_variables(), *tf.local_variables())}
    for variable in created:
        if variable.name not in known:
            raise UsageError(f'{source} makes the variable {variable.op.name}, which nothing initializes, as tf.keras.metrics do: '
                             'use tf.metrics')
    _check_dict(source, 'metrics', metrics)
    for name, metric in metrics.items():
        if not (isinstance(metric, tuple) and len(metric) == 2 and isinstance(metric[0], _DENSE)
                and isinstance(metric[1], (*_DENSE, tf.Operation))):
            raise UsageError(f'{source} must return pairs (value, update_op) of tensors, as tf.metrics makes them: {name} is '
                             f'{_show(metric)}')
        if name in _RESERVED:
            raise UsageError(f'{source} may not name a metric {name}, which the framework has itself')
    return dict(metrics)


def _pair(source, names, returned):
    if not isinstance(returned, (tuple, list)) or len(returned) != 2:
        raise UsageError(f'{source} must return a pair {names}, not {_say(returned)}')
    return returned


def _check_dict(source, what, values):
    if not isinstance(values, collections.abc.Mapping):
        raise UsageError(f'{source} must return {what} as a dict, not {_say(values)}')
    for name in values:
        if not isinstance(name, str) or not name.isprintable() or not name:
            raise UsageError(f'{source} must return {what} under names that are printable text, not {_show(name)}')


def _no_rank(source, kind, name):
    return UsageError(f'{source}: the {kind} {name} has an unknown shape: give it one, with tf.ensure_shape')


def _no_tensor(source, kind, name, value):
    cure = ''
    if isinstance(value, _COMPOSITE):
        cure = f': {"tf.sparse.to_dense(it)" if isinstance(value, tf.SparseTensor) else "its method to_tensor()"} makes one'
    elif isinstance(value, collections.abc.Mapping):
        cure = f': give each of its items a name beside {name}'
    elif value is not None and kind == 'prediction':
        cure = ': tf.convert_to_tensor(it) makes one'
    return UsageError(f'{source}: the {kind} {name} must be a tensor, not {_say(value)}{cure}')


def _say(value):
    """Says what a value is."""
    if value is None:
        return 'None'
    if isinstance(value, _DENSE):
        return f'a tensor of {value.dtype.base_dtype.name} {value.shape}'
    if isinstance(value, np.ndarray):
        return 'a NumPy array'
    name = type(value).__name__
    size = f' of {len(value)}' if isinstance(value, (tuple, list)) else ''
    return f'{"an" if name[0].lower() in "aeiou" else "a"} {name}{size}'


def _show(value):
    """Returns how Python shows a value, in a line of bounded length."""
    if isinstance(value, _DENSE):
        return _say(value)
    try:
        text = ascii(value) if isinstance(value, str) else repr(value)
    except Exception:  # Whole numbers of more than 4,300 digits, or a class's own.
        return _say(value)
    text = ' '.join(text.split())
    return text if len(text) <= 100 else f'{text[:100]}...'
