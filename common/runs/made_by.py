"""What a run is made by, as one dict, and how two such dicts differ, in words."""

from collections.abc import Mapping
import hashlib
import os
from typing import Any

import tensorflow.compat.v1 as tf

from estimator_trainer.common import processor
from estimator_trainer.common.inference.model_card import versions
from estimator_trainer.common.options.entry import Trait
from estimator_trainer.common.options.table import names_with
from estimator_trainer.common.plugins import code
from estimator_trainer.common.runs import saved_dataset
from estimator_trainer.common.runs.experiment import Experiment
from estimator_trainer.common.storage import provenance
from estimator_trainer.hparams import comparison

_BLOCK = 1 << 22  # Bytes.
_THREADS = ('inter_op_threads', 'intra_op_threads')
_LENGTH = ('train_steps', 'num_epochs', 'min_steps')  # Of a run, which may be prolonged.


def of(experiment: Experiment) -> dict[str, Any]:
    """Returns what an experiment's training is made by, as values of JSON.

    Returns:
      hparams: {name: value}. flags: those that a run keeps, and those of threads, with the towers and threads that were chosen.
      data: the SHA-256 of the training records' files, see Shards; None if the dataset reads others. code: see `code.digests`.
      versions: {package: version}. processor, cores and gpus: of this process. tasks: number of training processes.
    """
    source, options = experiment.source, experiment.options
    return {
        'hparams': dict(source.params),
        'flags': {name: getattr(options, name) for name in (*names_with(Trait.KEPT), *_THREADS)},
        'data': saved_dataset.facts(source)['the checksum of the training data'] or None,
        'code': code.digests([experiment.model, source.module]),
        'versions': versions(),
        'processor': processor.name(),
        'cores': processor.num_cores(),
        'gpus': [device.name for device in tf.config.list_physical_devices('GPU')],
        'tasks': experiment.task.count,
    }


def warm_start_of(path: str) -> str:
    """Returns the digest of what a warm start reads: of a checkpoint's tensors, or of the bytes of a file or a folder's."""
    if tf.io.gfile.exists(f'{path}.index'):
        return provenance.tensors_digest(path)
    found = hashlib.sha256()
    folders = tf.io.gfile.walk(path) if tf.io.gfile.isdir(path) else [('', (), [path])]
    for file in sorted(os.path.join(folder, name) for folder, _, names in folders for name in names):
        with tf.io.gfile.GFile(file, 'rb') as content:
            while block := content.read(_BLOCK):
                found.update(block)
    return found.hexdigest()


def differences(then: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Returns the differences between two results of `of` that may change a training, each in words; [] if there are none."""
    found = [comparison.differences(then['hparams'], now['hparams'], _LENGTH)]
    names = {*names_with(Trait.CHANGES_RESULT), *_THREADS}
    flags = [{f'--{name}': values['flags'].get(name) for name in sorted(names)} for values in (then, now)]
    found.append(comparison.differences(*flags))
    found += _of_code(then['code'], now['code'])
    if then['data'] != now['data']:
        found.append('the training data differs')
    packages = [values['versions'] for values in (then, now)]
    found.append(comparison.differences(*packages))
    for name, text in (('processor', 'the processor'), ('cores', 'the number of cores'), ('gpus', 'the GPUs')):
        found.append(comparison.differences({text: then[name]}, {text: now[name]}))
    found.append(comparison.differences({'the number of tasks': then['tasks']}, {'the number of tasks': now['tasks']}))
    return [text for text in found if text]


def _of_code(then, now):
    kinds: dict[str, list[str]] = {'changed': [], 'is gone': [], 'is new': []}
    for name in sorted({*then, *now}):
        if name not in now or name not in then:
            kinds['is new' if name in now else 'is gone'].append(name)
        elif then[name] != now[name]:
            kinds['changed'].append(name)
    texts = {'changed': 'the code of {} has changed', 'is gone': '{} is no longer imported', 'is new': '{} was not imported'}
    return [texts[kind].format(', '.join(names)) for kind, names in kinds.items() if names] + [
        f'the code of {name} is in no file, and cannot be compared' for name, digest in now.items() if digest is None
    ]
