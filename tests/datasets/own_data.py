"""Helpers shared by the tests of users' own datasets."""

import dataclasses
import functools
import io
import json

from PIL import Image
import tensorflow.compat.v1 as tf

from estimator_trainer.common.pipeline.data_source import DataSource
from estimator_trainer.common.pipeline.input import parser
from estimator_trainer.common.records.elements import elements
from estimator_trainer.hparams import build

EVAL, PREDICT = tf.estimator.ModeKeys.EVAL, tf.estimator.ModeKeys.PREDICT


class Prepared:
    """A dataset module with converted data, and its metadata in the hyper-parameters."""

    def __init__(self, module, data_dir, *hparams):
        params = build.make_hparams('m', {}, module.__name__, module.get_params(), text=','.join(hparams))
        module.prepare(str(data_dir), params)
        metadata = module.metadata(str(data_dir), params)
        self._set(DataSource(module, str(data_dir), build.HParams(params, metadata)))

    @classmethod
    def of(cls, source):
        """Returns that of a DataSource that is prepared."""
        found = cls.__new__(cls)
        found._set(source)
        return found

    def _set(self, source):
        self.module, self.params, self.metadata, self.source = source.module, source.params, source.params.metadata, source

    def read(self, split, mode=EVAL):
        return parse(self.module, self.params, lambda: self.source.read(split), mode)

    def places(self, split):
        return list(self.module.places(split, self.source.data_dir, self.params))

    def prepared_with(self, metadata):
        """Returns what a run with the metadata of a trained model prepares, of the files as they are now."""
        source = dataclasses.replace(self.source, params=build.HParams(self.params, metadata))
        source.prepare()
        return Prepared.of(source)

    def predict(self, path):
        """Returns the features of the rows of a file for --input, and the errors by their line or record."""
        return self._read(self.module.read_input, path, PREDICT)

    def read_labeled(self, path):
        """Returns (features, labels) of the rows of a file to evaluate, and the errors."""
        return self._read(self.module.read_labeled, path, EVAL)

    def _read(self, function, path, mode):
        rows = list(function(str(path), self.params))
        errors = {next(iter(fields.values())): str(record) for fields, record in rows if isinstance(record, Exception)}
        sound = [record for _, record in rows if not isinstance(record, Exception)]
        return parse(self.module, self.params, sound, mode), errors


def parse(module, params, records, mode=EVAL):
    """Returns (features, labels) of each record, or of all if batches are parsed; in PREDICT the features alone.

    The records are a list, or a function that returns a tf.data.Dataset.
    """
    source = DataSource(
        module, '', build.HParams({**params, 'dataset': '', 'group_by_length': hasattr(module, 'parse')}, params.metadata)
    )

    def parsed():
        found = records() if callable(records) else tf.data.Dataset.from_tensor_slices(records)
        found = found.batch(10**6) if source.parses_batches() else found
        return found.map(functools.partial(parser(source, mode), None))

    found = list(elements(parsed))
    return found[0] if source.parses_batches() else found


def prepare_raw(module, params, raw):
    """Returns the features, {name: array}, that `from_raw` makes of raw inputs, {name: list}, after checking their names."""
    specs = module.raw_specs(params)
    assert [*specs] == [*raw]
    with tf.Graph().as_default(), tf.Session() as session:
        inputs = {name: tf.placeholder(spec.dtype, spec.shape) for name, spec in specs.items()}
        features = module.from_raw(params, inputs)
        session.run(tf.tables_initializer())
        return session.run(features, {inputs[name]: value for name, value in raw.items()})


def picture(kind='png', mode='L', size=(4, 4), value=0):
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


def make_schema(tmp_path, **content):
    """Writes a schema file, and returns the hyper-parameter that names it."""
    (tmp_path / 'schema.json').write_text(json.dumps(content))
    return f'schema={tmp_path}/schema.json'


def serve(directory, signature, feeds):
    with tf.Graph().as_default(), tf.Session() as session:
        found = tf.saved_model.load(session, ['serve'], directory).signature_def[signature]
        output = found.outputs['class' if 'class' in found.outputs else 'value']
        return session.run(output.name, {found.inputs[name].name: value for name, value in feeds.items()}).tolist()


def predicted(directory):
    """Returns the contents of an output_dir's predictions.jsonl."""
    return [json.loads(line) for line in (directory / 'predictions.jsonl').read_text().splitlines()]
