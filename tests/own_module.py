"""A user's own module, a model and a dataset in one file: valid, and with modifications."""

import contextlib
import importlib
import io
import itertools
import logging
import os
import sys
import tempfile

import tf_estimator  # noqa: F401 - before TensorFlow

from estimator_trainer.common.commands import trainer

# Without a mistake.
GOOD = """
import numpy as np
import tensorflow.compat.v1 as tf


def get_params():
    return {'batch_size': 4, 'eval_batch_size': 4}


def prepare(data_dir, params):
    pass


def read(split, data_dir, params):
    return tf.data.Dataset.from_tensor_slices({'x': np.eye(12, 3, dtype=np.float32), 'label': np.arange(12) % 2})


def parse(mode, params, record):
    return {'x': record['x']}, {'label': record['label']}


def model(features, labels, mode, params):
    logits = tf.layers.dense(features['x'], 2)
    predictions = {'class': tf.argmax(logits, 1), 'probabilities': tf.nn.softmax(logits)}
    if labels is None:
        return predictions, None
    return predictions, tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels['label'], logits=logits)


def eval_metrics(features, labels, predictions, params):
    return {'accuracy': tf.metrics.accuracy(labels['label'], predictions['class'])}


"""
LINES = GOOD.count('\n')
_numbers = itertools.count()  # AutoGraph confuses lines of modules with the same name.


def run(source, *flags):
    """Trains GOOD with a source added to it, by default in a dry run; returns (exit code, stderr but the log, the path)."""
    name = f'own_{next(_numbers)}'
    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, name, 'module.py')
        os.mkdir(os.path.dirname(path))
        with open(path, 'w', encoding='utf-8') as file:
            file.write(GOOD + source)
        sys.path.insert(0, directory)
        importlib.invalidate_caches()
        logging.disable(logging.WARNING)
        try:
            with contextlib.redirect_stderr(io.StringIO()) as err, contextlib.redirect_stdout(io.StringIO()):
                flags = [f'--model={name}.module', f'--dataset={name}.module', *(flags or ['--schedule=dry_run'])]
                flags += [f'--data_dir={directory}/data', f'--output_dir={directory}/output']
                code = trainer.main(['trainer.py', *flags])
        finally:
            logging.disable(logging.NOTSET)
            sys.path.remove(directory)
    return code, err.getvalue(), path


def imported(source, package, directory, monkeypatch):
    """Writes a source to PACKAGE/program.py in a directory, and returns the module, imported as PACKAGE.program."""
    (directory / package).mkdir()
    (directory / package / 'program.py').write_text(source)
    monkeypatch.syspath_prepend(directory)
    for name in (f'{package}.program', package):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return importlib.import_module(f'{package}.program')
