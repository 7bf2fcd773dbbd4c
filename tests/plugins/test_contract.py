"""What a user's module returns wrongly is a line that names the function, what came and what is wanted."""

import re

import pytest
import tensorflow.compat.v1 as tf

from common.data import records
from common.errors import UsageError
from common.plugins import dataset_contract
from hparams.build import HParams
from tools.soak import wrong_modules

pytestmark = pytest.mark.slow

PARAMS = """
def get_params():
    return VALUE
"""
READ = """
def read(split, data_dir, params):
    VALUE
"""
PARSE = """
def parse(mode, params, record):
    return VALUE
"""
PARSE_BATCH = """
def parse_batch(mode, params, record):
    return VALUE
"""
MODEL = """
def model(features, labels, mode, params, good=model):
    predictions, loss = good(features, labels, mode, params)
    return VALUE
"""
METRICS = """
def eval_metrics(features, labels, predictions, params):
    return VALUE
"""
KERAS_METRIC = """
def eval_metrics(features, labels, predictions, params):
    metric = tf.keras.metrics.Mean()
    metric(labels['label'])
    return VALUE
"""
DENSE = """
def model(features, labels, mode, params, good=model):
    x = features['x']
    x = tf.sparse.to_dense(x) if isinstance(x, tf.SparseTensor) else x
    return good({'x': tf.reshape(x, [-1, 3])}, labels, mode, params)
"""
NARROW = DENSE.replace('3', '1')
NAMES = 'the name of a hyper-parameter must be a Python identifier, and neither metadata nor that of a method of dict'
VALUES = 'integers must be between -2147483647 and 2147483647, floats finite, and strings valid Unicode'
LOSS = 'model() must return a loss of shape [batch] and type float32, one for each example, not'
PAIRS = 'eval_metrics() must return pairs (value, update_op) of tensors, as tf.metrics makes them:'
NO_DICT = 'must be a tensor, not a dict: give each of its items a name beside'
SPARSE = 'must be a tensor, not a SparseTensor: tf.sparse.to_dense(it) makes one'
WRONG = [  # The source of the function, VALUE in it, and the message after the flag.
    (PARAMS, 'None', 'get_params() must return a dict, not None'),
    (PARAMS, '[1, 2]', 'get_params() must return a dict, not a list of 2'),
    (PARAMS, '(i for i in "ab")', 'get_params() must return a dict, not a generator'),
    (PARAMS, '{1: 2}', f'get_params() gives 1=2: {NAMES}'),
    (PARAMS, '{"a b": 2}', f"get_params() gives 'a b'=2: {NAMES}"),
    (PARAMS, '{"items": 2}', f"get_params() gives 'items'=2: {NAMES}"),
    (PARAMS, '{"a": 10**400}', f'get_params() gives a=1{"0" * 99}...: {VALUES}'),
    (PARAMS, '{"learning_rate": 10**5000}', f'get_params() gives learning_rate=an int: {VALUES}'),
    (PARAMS, '{"a": float("nan")}', f'get_params() gives a=nan: {VALUES}'),
    (PARAMS, '{"a": ["\\ud800"]}', rf"get_params() gives a=['\ud800']: {VALUES}"),
    (PARAMS.replace('()', '(name)'), '{}', 'get_params() must be a function of ()'),
    ('def model(features, labels, params): VALUE', '3', 'model() must be a function of (features, labels, mode, params)'),
    (MODEL, 'None', 'model() must return a pair (predictions, loss), not None'),
    (MODEL, 'predictions', 'model() must return a pair (predictions, loss), not a dict'),
    (MODEL, 'predictions, loss, 3', 'model() must return a pair (predictions, loss), not a tuple of 3'),
    (MODEL, 'params["nix"]', '{}--model=MODULE and --dataset=MODULE define no hyper-parameter nix'),
    (MODEL, 'None, loss', 'model() must return predictions as a dict, not None'),
    (MODEL, 'predictions["class"], loss', 'model() must return predictions as a dict, not a tensor of int64 (4,)'),
    (MODEL, '{}, loss', 'model() must return predictions, not an empty dict'),
    (
        MODEL,
        '{"a": np.zeros(4)}, loss',
        'model(): the prediction a must be a tensor, not a NumPy array of float64 (4,): tf.convert_to_tensor(it) makes one',
    ),
    (MODEL, '{"a": predictions}, loss', f'model(): the prediction a {NO_DICT} a'),
    (MODEL, '{"a": tf.sparse.from_dense(predictions["class"])}, loss', f'model(): the prediction a {SPARSE}'),
    (
        MODEL,
        '{"a": tf.ragged.constant([[1], [2, 3]])}, loss',
        'model(): the prediction a must be a tensor, not a RaggedTensor: its method to_tensor() makes one',
    ),
    (MODEL, '{5: predictions["class"]}, loss', 'model() must return predictions under names that are printable text, not 5'),
    (MODEL, 'predictions, tf.cast(loss, tf.float64)', f'{LOSS} a tensor of float64 (4,): tf.cast(loss, tf.float32)'),
    (MODEL, 'predictions, tf.cast(loss, tf.float16)', f'{LOSS} a tensor of float16 (4,): tf.cast(loss, tf.float32)'),
    (MODEL, 'predictions, tf.cast(loss, tf.int32)', f'{LOSS} a tensor of int32 (4,)'),
    (MODEL, 'predictions, tf.as_string(loss)', f'{LOSS} a tensor of string (4,)'),
    (MODEL, 'predictions, 0.5', f'{LOSS} a float'),
    (MODEL, 'predictions, np.zeros(4)', f'{LOSS} a NumPy array of float64 (4,)'),
    (MODEL, 'predictions, tf.reduce_mean(loss)', f'{LOSS} a tensor of float32 ()'),
    (METRICS, 'None', 'eval_metrics() must return metrics as a dict, not None'),
    (METRICS, '[tf.metrics.mean(1.0)]', 'eval_metrics() must return metrics as a dict, not a list of 1'),
    (METRICS, '{"a": (1.0, 2.0)}', f'{PAIRS} a is (1.0, 2.0)'),
    (METRICS, '{"a": 1.0}', f'{PAIRS} a is 1.0'),
    (METRICS, '{1: tf.metrics.mean(1.0)}', 'eval_metrics() must return metrics under names that are printable text, not 1'),
    (METRICS, '{"loss": tf.metrics.mean(1.0)}', 'eval_metrics() must not name a metric loss: the framework uses that name'),
    (
        KERAS_METRIC,
        '{"a": (metric.result(), metric.updates[0])}',
        'eval_metrics() makes the variable metrics/total, which nothing initializes, as tf.keras.metrics do: use tf.metrics',
    ),
    (READ, 'return None', 'read() must return a tf.data.Dataset, not None'),
    (READ, 'return [1, 2]', 'read() must return a tf.data.Dataset, not a list of 2'),
    (PARSE, 'None', 'parse() must return a pair (features, labels), not None'),
    (PARSE, 'record["x"]', 'parse() must return a pair (features, labels), not a tensor of float32 (3,)'),
    (PARSE, 'record["x"], record["label"]', 'parse() must return features as a dict, not a tensor of float32 (3,)'),
    (PARSE, '{1: record["x"]}, LABEL', 'parse() must return features under names that are printable text, not 1'),
    (PARSE, '{"x": None}, LABEL', 'parse(): the feature x must be a tensor, not None'),
    (PARSE, '{"x": {"y": record["x"]}}, LABEL', f'parse(): the feature x {NO_DICT} x'),
    (
        PARSE,
        '{"x": record["x"]}, None',
        'parse() must return labels in training and evaluation, not None: an empty dict if there are none',
    ),
    (PARSE + DENSE, '{"x": tf.sparse.from_dense(record["x"])}, LABEL', f'parse(): the feature x {SPARSE}'),
    (PARSE_BATCH, '{"x": record["x"], "n": 3}, LABEL', 'parse_batch(): the feature n must be of shape [batch, ...], not ()'),
    (
        PARSE,
        '{"x": record["x"], "example_id": record["x"]}, LABEL',
        'parse(): the feature example_id must be a string or an integer of shape [], not a tensor of float32 (3,)',
    ),
    (
        'def metadata(data_dir, params): return VALUE',
        '{"class_names": ["a", "b"], "num_classes": 3}',
        'metadata(): num_classes is 3, but there are 2 class_names',
    ),
    (PARSE, 'params.nix', '{}--model=MODULE and --dataset=MODULE define no hyper-parameter nix'),
]


def source(function, value):
    return function.replace('VALUE', value).replace('LABEL', '{"label": record["label"]}')


@pytest.mark.parametrize('function, value, message', WRONG, ids=[f'{row[2].partition("(")[0]}-{row[1][:40]}' for row in WRONG])
def test_a_wrong_return_is_one_line_that_names_the_function(function, value, message):
    code, err, path = wrong_modules.run(source(function, value))
    name = re.search('wrong_[0-9]+', path)[0] + '.module'
    assert code == 2
    if message.startswith('{}'):
        assert err == 'trainer.py: ' + message.removeprefix('{}').replace('MODULE', name) + '\n'
    else:
        assert re.fullmatch(rf'trainer\.py: --(model|dataset)={name}: {re.escape(message)}\n', err), err


def test_the_readers_own_oserror_is_one_line_with_the_file_and_the_line():
    code, err, path = wrong_modules.run(READ.replace('VALUE', 'open("/nosuch/file")'))
    assert code == 1
    assert re.fullmatch(
        r'trainer\.py: --dataset=\S+: read\(\): the split train in \S+ cannot be read: FileNotFoundError: '
        rf"\[Errno 2\] No such file or directory: '/nosuch/file' \({path}, line \d+\)\n",
        err,
    )


@pytest.mark.parametrize('towers', [1, 2])
def test_sparse_features_and_unknown_shapes_are_for_models_that_take_them_but_no_towers(towers):
    parse = source(
        PARSE,
        '{"x": tf.sparse.from_dense(record["x"]), "y": tf.numpy_function(lambda x: x, [record["x"]], tf.float32)}, LABEL',
    )
    code, err, _ = wrong_modules.run(parse + DENSE, '--schedule=train', '--train_steps=1', f'--num_towers={towers}')
    assert code == (0 if towers == 1 else 2)
    assert towers == 1 or re.fullmatch(rf'trainer\.py: --dataset=\S+ with towers: the feature x {re.escape(SPARSE)}\n', err)


def test_a_tensor_of_unknown_shape_is_named_where_towers_would_split_it():
    with tf.Graph().as_default():
        unknown = tf.placeholder(tf.float32)
    with pytest.raises(UsageError, match='--dataset=d with towers: the label y has an unknown shape: give it one'):
        dataset_contract.check_divisible({}, {'y': unknown}, HParams({'dataset': 'd'}))


def test_a_hyperparameter_that_is_not_there_can_be_asked_for_as_of_a_dict():
    params = HParams({'model': 'm', 'dataset': 'd', 'units': 3})
    assert 'units' in params and 'unit' not in params
    assert params.get('unit') is None and params.get('unit', 4) == 4 and params.get('units') == 3
    with pytest.raises(KeyError):
        params['unit']
    for ask in (lambda: params['unit'], lambda: params.unit):
        with pytest.raises(UsageError) as error:
            ask()
        assert str(error.value) == '--model=m and --dataset=d define no hyper-parameter unit, did you mean units?'


COUNTED = """
CALLS = {'train': 0, 'eval': 0}


def read(split, data_dir, params, good=read):
    CALLS[split] += 1
    records = good(split, data_dir, params)
    return VALUE
"""
CLAIM = 'tf.data.experimental.assert_cardinality'


@pytest.mark.parametrize('cache', ['true', 'false'])
@pytest.mark.parametrize(
    'records_read, split, relation, count, expected',
    [
        (f'records.apply({CLAIM}(20))', 'train', 'only', 12, 20),
        (f'records.apply({CLAIM}(8))', 'train', 'at least', 9, 8),
        (f'records if split == "train" else records.apply({CLAIM}(20))', 'eval', 'only', 12, 20),
        (f'records if split == "train" else records.apply({CLAIM}(8))', 'eval', 'at least', 9, 8),
        ('records.take(12 if CALLS[split] == 1 else 7).filter(lambda record: True)', 'train', 'only', 7, 12),
        ('records.take(7 if CALLS[split] == 1 else 12).filter(lambda record: True)', 'train', 'at least', 8, 7),
    ],
    ids=['too many', 'too few', 'too many in evaluation', 'too few in evaluation', 'shrinks', 'grows'],
)
def test_another_number_of_records_than_counted_or_claimed_ends_the_run_with_both(
    cache, records_read, split, relation, count, expected
):
    code, err, _ = wrong_modules.run(COUNTED.replace('VALUE', records_read), '--train_steps=9', f'--hparams=cache={cache}')
    assert code == 1
    assert re.fullmatch(
        rf'trainer\.py: --dataset=\S+: read\(\): the split {split} has {relation} {count} records, but '
        rf'{expected} were counted, or claimed with assert_cardinality: each call must give the same number\n',
        err,
    )


def test_records_are_left_out_on_purpose_where_only_some_batches_are_trained_on():
    code, err, _ = wrong_modules.run('', '--train_steps=9', '--overfit_batches=1')
    assert (code, err) == (0, '')


@pytest.mark.parametrize('flags', [(), ('--steps_per_loop=3',)], ids=['', 'loops'])
def test_shapes_that_vary_unknown_to_tensorflow_are_reported_with_the_feature_and_the_cure(flags):
    parse = source(PARSE, '{"x": tf.numpy_function(lambda x, n: x[:1 + n], [record["x"], record["label"]], tf.float32)}, LABEL')
    code, err, _ = wrong_modules.run(parse + NARROW, '--train_steps=9', *flags)
    assert code == 1
    assert re.fullmatch(
        r'trainer\.py: --dataset=\S+: parse\(\): the feature x is of shape \[1\] in record 0 of the split train, '
        r'and \[2\] in record 1: give it a known number of dimensions, with tf\.ensure_shape, so that batches are padded\n',
        err,
    )


def test_records_of_several_lengths_are_reported_where_batches_are_parsed():
    read = READ.replace('VALUE', 'return tf.data.Dataset.range(12).map(lambda i: {"x": tf.ones([i]), "label": i})')
    parse_batch = source(PARSE_BATCH, '{"x": record["x"][:, :3]}, LABEL')
    code, err, _ = wrong_modules.run(read + parse_batch + NARROW, '--train_steps=9')
    assert code == 1
    assert re.fullmatch(
        r'trainer\.py: --dataset=\S+: read\(\): the records of the split train differ in shape, and '
        r'parse_batch\(\) takes batches: pad them to one length, or parse them one by one, with parse\(\)\n',
        err,
    )


@pytest.mark.parametrize('flags', [(), ('--num_towers=2',), ('--steps_per_loop=3',)], ids=['', 'towers', 'loops'])
def test_features_and_labels_of_several_sizes_are_reported(flags):
    parse_batch = source(PARSE_BATCH, '{"x": tf.boolean_mask(record["x"], record["x"][:, 2] < 1)}, LABEL')
    code, err, _ = wrong_modules.run(parse_batch, '--train_steps=9', *flags)
    assert code == 1
    assert re.fullmatch(
        r'trainer\.py: record 2 of the split train: --dataset=\S+: parse_batch\(\) must return features and labels '
        r'of one batch\n',
        err,
    )


def test_features_and_labels_of_several_known_sizes_are_reported():
    code, err, _ = wrong_modules.run(source(PARSE_BATCH, '{"x": record["x"][:3]}, LABEL'))
    assert code == 2
    assert re.fullmatch(
        r'trainer\.py: --dataset=\S+: parse_batch\(\) must return features and labels of one batch, not of 3, 4 '
        r'examples\n',
        err,
    )


LABELS = PARSE.replace(
    'VALUE', '{"x": record["x"]}, {"other": 10, "label": record["label"] + (10 * tf.cast(record["x"][2] > 0, tf.int64))}'
)


@pytest.mark.parametrize('flags', [(), ('--num_towers=2',), ('--steps_per_loop=3',)], ids=['', 'towers', 'loops'])
def test_a_label_out_of_range_is_reported_with_its_example(flags):
    code, err, _ = wrong_modules.run(LABELS, '--train_steps=9', *flags)
    assert (code, err) == (1, 'trainer.py: record 2 of the split train: the label label is 10, but the model takes 0 to 1\n')


def test_a_label_out_of_range_in_evaluation_is_reported_with_its_example():
    code, err, _ = wrong_modules.run(LABELS.replace('+ (10', '+ (0 if mode == "train" else 10'), '--train_steps=9')
    assert (code, err) == (1, 'trainer.py: record 2 of the split eval: the label label is 10, but the model takes 0 to 1\n')


WRITTEN = """
from common.data import records


def prepare(data_dir, params):
    examples = [{'x': [i, 1.0, 2.0], 'label': 12 if i == 9 else i % 2} for i in range(12)]
    records.write(data_dir, {'train': examples, 'eval': examples[:3]})


def read(split, data_dir, params):
    return records.read(data_dir, split)


def parse_batch(mode, params, record):
    spec = {'x': tf.io.FixedLenFeature([3], tf.float32), 'label': tf.io.FixedLenFeature([], tf.int64)}
    example = tf.io.parse_example(record, spec)
    return {'x': example['x']}, {'label': example['label']}
"""


def test_a_label_out_of_range_in_a_file_is_reported_with_its_record_and_byte():
    code, err, path = wrong_modules.run(WRITTEN, '--train_steps=9')
    directory = path.partition('/wrong_')[0]
    at = 2 * (16 + len(records.encode({'x': [0.0, 1.0, 2.0], 'label': 1})))  # The 9th of 4 files is the 2nd of the second.
    assert (code, err) == (
        1,
        f'trainer.py: {directory}/data/train-00001-of-00004.tfrecord: record 2, at byte {at}: '
        'the label label is 12, but the model takes 0 to 1\n',
    )


@pytest.mark.parametrize('flags', [(), ('--num_towers=2',), ('--steps_per_loop=3',)], ids=['', 'towers', 'loops'])
def test_an_error_of_an_op_of_the_users_is_one_line_with_the_place(flags):
    parse = source(PARSE, '{"x": record["x"], "label": record["label"] + 2}, LABEL')
    model = MODEL.replace('VALUE', 'predictions, loss * tf.gather([1.0, 2.0], features["label"])')
    code, err, path = wrong_modules.run(parse + model, '--train_steps=9', *flags)
    assert code == 1
    assert re.fullmatch(rf'trainer\.py: indices\[\d\] = [23] is not in \[0, 2\) \({path}, line \d+\)\n', err)
