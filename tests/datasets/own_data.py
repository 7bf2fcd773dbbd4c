"""What the tests of datasets of a user's own share."""

import functools
import io
import json

from PIL import Image
import tensorflow.compat.v1 as tf

from common.data.elements import elements
from common.data.source import DataSource
from hparams import build

EVAL, PREDICT = tf.estimator.ModeKeys.EVAL, tf.estimator.ModeKeys.PREDICT


class Prepared:
    """A dataset module that has converted its data, with its metadata in its hyper-parameters."""

    def __init__(self, module, data_dir, *hparams):
        params = build.make_hparams('m', {}, module.__name__, module.get_params(), text=','.join(hparams))
        module.prepare(str(data_dir), params)
        self.module = module
        self.metadata = module.metadata(str(data_dir), params)
        self.params = build.HParams(params, self.metadata)
        self.source = DataSource(module, str(data_dir), self.params)

    def read(self, split, mode=EVAL):
        """Returns what is parsed of a split: (features, labels) of each example, or of all if batches are parsed."""
        return self.parse(mode, lambda: self.source.read(split))

    def parse(self, mode, make_records):
        """Returns what is parsed of the records of a tf.data.Dataset, like `read`; in PREDICT the features."""
        is_batched = hasattr(self.module, 'parse_batch')
        parse = functools.partial(self.module.parse_batch if is_batched else self.module.parse, mode, self.params)

        def parsed():
            records = make_records().batch(10**6) if is_batched else make_records()
            return records.map(parse if mode != PREDICT else lambda record: parse(record)[0])

        found = list(elements(parsed))
        return found[0] if is_batched else found

    def predict(self, path):
        """Returns the features of the rows of a file for --input, and the errors by their line or record."""
        rows = list(self.module.read_input(str(path), self.params))
        errors = {next(iter(fields.values())): str(record) for fields, record in rows if isinstance(record, Exception)}
        sound = [record for _, record in rows if not isinstance(record, Exception)]
        return self.parse(PREDICT, lambda: tf.data.Dataset.from_tensor_slices(sound)), errors


def picture(kind='png', mode='L', size=(4, 4), value=0):
    """Returns an image file of one color."""
    content = io.BytesIO()
    Image.new(mode, size, value).save(content, kind)
    return content.getvalue()


def mixed(i):
    """Returns an example with a feature of each kind."""
    return {
        'x': float(i),
        'v': [1.0, float(i % 2)],
        'city': ('Rome', 'Oslo')[i % 2],
        'zip': i % 2,
        'review': f'a good film number {i}',
        'photo': picture(value=i),
        'label': i % 3,
    }


def schema(tmp_path, **content):
    """Writes a schema file, and returns the hyper-parameter that names it."""
    (tmp_path / 'schema.json').write_text(json.dumps(content))
    return f'schema={tmp_path}/schema.json'


def serve(directory, signature, feeds):
    """Returns the classes or values that an exported model predicts for {input: value}."""
    with tf.Graph().as_default(), tf.Session() as session:
        found = tf.saved_model.load(session, ['serve'], directory).signature_def[signature]
        output = found.outputs['class' if 'class' in found.outputs else 'value']
        return session.run(output.name, {found.inputs[name].name: value for name, value in feeds.items()}).tolist()
