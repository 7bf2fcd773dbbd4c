"""Everything that a run depends on, as one dict, and the differences between two such dicts, in words."""

from collections.abc import Mapping
import os
from typing import Any

import tensorflow.compat.v1 as tf
from tensorflow.python.util import _pywrap_util_port

from estimator_trainer.common import processor
from estimator_trainer.common.files import sha256_of
from estimator_trainer.common.inference.model_card import versions
from estimator_trainer.common.options.entry import Trait
from estimator_trainer.common.options.table import names_with
from estimator_trainer.common.plugins import code
from estimator_trainer.common.runs import saved_dataset
from estimator_trainer.common.runs.experiment import Experiment
from estimator_trainer.common.storage import provenance
from estimator_trainer.hparams import comparison

THREADS = ('inter_op_threads', 'intra_op_threads')
_TOWERS = ('num_towers', 'num_gpus', *THREADS)
_MACHINE = {
    'processor': 'the processor',
    'cores': 'the number of cores',
    'onednn': 'the use of oneDNN',
    'gpus': 'the list of GPUs',
    'tasks': 'the number of tasks',
}
LENGTH = ('train_steps', 'num_epochs', 'min_steps')  # Of a run, which may be prolonged.


def of(experiment: Experiment) -> dict[str, Any]:
    """Returns what an experiment's training is made by, as values of JSON.

    Returns:
      hparams: {name: value}. flags: those that a run keeps, and those of threads, with the towers and threads that were chosen.
      data: the SHA-256 of the training records' files, see Shards; None if the dataset reads others. code: see `code.digests`.
      versions: {package: version}. processor, cores and gpus: of this process. onednn: whether TensorFlow computes with it.
      tasks: number of training processes.
    """
    source, options = experiment.source, experiment.options
    return {
        'hparams': dict(source.params),
        'flags': {name: getattr(options, name) for name in (*names_with(Trait.KEPT), *THREADS)},
        'data': saved_dataset.facts(source)['the checksum of the training data'] or None,
        'code': code.digests([experiment.model, source.module]),
        'versions': versions(),
        'processor': processor.name(),
        'cores': processor.num_cores(),
        'onednn': _pywrap_util_port.IsMklEnabled(),
        'gpus': [device.name for device in tf.config.list_physical_devices('GPU')],
        'tasks': experiment.task.count,
    }


def warm_start_of(path: str) -> str:
    """Returns the digest of what a warm start reads: of a checkpoint's tensors, or of a file's or a folder's bytes."""
    if tf.io.gfile.exists(f'{path}.index'):
        return provenance.tensors_digest(path)
    if not tf.io.gfile.isdir(path):
        return sha256_of(path)
    names = provenance.files_in(path)
    return provenance.digest_of({name: sha256_of(os.path.join(path, name)) for name in names})


def differences(then: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Returns the differences between two results of `of` that may change a run, each in words; [] if there are none."""
    flags = [name for name in names_with(Trait.CHANGES_RESULT) if name not in _TOWERS]
    return [
        *_named(then['hparams'], now['hparams'], LENGTH),
        *_named(*(_flags(values, flags) for values in (then, now))),
        *_of_code(then['code'], now['code']),
        *(['the training data differs'] if then['data'] != now['data'] else []),
        *rounding(then, now),
    ]


def rounding(then: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Returns those of the `differences` by which only sums are rounded otherwise."""
    keys = [key for key in _MACHINE if key in then and key in now]  # Older records lack some.
    facts = [
        {**_flags(values, _TOWERS), **values['versions'], **{_MACHINE[key]: values[key] for key in keys}}
        for values in (then, now)
    ]
    return _named(*facts)


def _flags(values, names):
    found = {f'--{name}': values['flags'].get(name) for name in names}
    return {**found, '--num_towers': found['--num_towers'] or 1} if '--num_towers' in found else found


def _named(then, now, free=()):
    names = [name for name in {**then, **now} if name not in free]
    return [text for name in names if (text := comparison.differences(_item(then, name), _item(now, name)))]


def _item(values, name):
    return {name: values[name]} if name in values else {}


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
