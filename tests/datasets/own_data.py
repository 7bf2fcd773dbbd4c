"""What the tests of datasets of a user's own share: their batches, and tiny models of them."""

import numpy as np
import tensorflow.compat.v1 as tf

from common.data.input_pipeline import make_input_fn
from common.data.source import DataSource
from hparams import build

ModeKeys = tf.estimator.ModeKeys


class Prepared:
    """A dataset module that has converted its data, with its metadata in its hyper-parameters."""

    def __init__(self, module, data_dir, text):
        params = build.make_hparams('m', {}, module.__name__, module.get_params(), text=f'{text},eval_batch_size=10000')
        module.prepare(str(data_dir), params)
        self.module = module
        self.metadata = module.metadata(str(data_dir), params)
        self.params = build.HParams(dict(params), self.metadata)
        self.source = DataSource(module, str(data_dir), self.params)

    def batch(self, split, mode=ModeKeys.EVAL):
        """Returns (features, labels) of a whole split; in PREDICT the features."""
        with tf.Graph().as_default(), tf.Session() as session:
            iterator = tf.data.make_initializable_iterator(make_input_fn(self.source, mode, split)())
            element = iterator.get_next()
            session.run([tf.tables_initializer(), iterator.initializer])
            return session.run(element)

    def examples(self, split, mode=ModeKeys.EVAL):
        """Returns a list of what `parse` makes of each record of a split."""
        return self.parsed(self.source.read, mode, split)

    def parsed(self, make_records, mode, *args):
        """Returns a list of what `parse` makes of each record that a function returns as a tf.data.Dataset."""
        with tf.Graph().as_default(), tf.Session() as session:
            kept = slice(None) if mode != ModeKeys.PREDICT else 0  # There are no labels.
            parsed = make_records(*args).map(lambda record: self.module.parse(mode, self.params, record)[kept])
            iterator = tf.data.make_initializable_iterator(parsed)
            element = iterator.get_next()
            session.run([tf.tables_initializer(), iterator.initializer])
            found = []
            try:
                while True:
                    found.append(session.run(element))
            except tf.errors.OutOfRangeError:
                return found

    def predict(self, path):
        """Returns the features of the rows of a file for --input, and the errors by their line or record."""
        rows = list(self.module.read_input(str(path), self.params))
        errors = {next(iter(fields.values())): str(record) for fields, record in rows if isinstance(record, Exception)}
        sound = [record for _, record in rows if not isinstance(record, Exception)]
        if hasattr(self.module, 'parse_batch'):
            with tf.Graph().as_default(), tf.Session() as session:
                features, _ = self.module.parse_batch(ModeKeys.PREDICT, self.params, tf.constant(sound))
                session.run(tf.tables_initializer())
                return session.run(features), errors
        make = lambda: tf.data.Dataset.from_tensor_slices(sound)  # noqa: E731
        return self.parsed(make, ModeKeys.PREDICT), errors


def column(features, name, i):
    return np.asarray(features[name])[:, i]
