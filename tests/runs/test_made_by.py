"""Differences between two runs, in words."""

import hashlib

from estimator_trainer.common.runs import made_by

THEN = {
    'hparams': {'learning_rate': 0.1, 'train_steps': 10},
    'flags': {'precision': 'float32', 'num_towers': 1, 'save_summary_steps': 100},
    'data': 'd',
    'code': {'own.model': '1', 'own.old': '2', 'estimator_trainer': '3'},
    'versions': {'tensorflow': '2.21.0'},
    'processor': 'A',
    'cores': 2,
    'onednn': True,
    'gpus': [],
    'tasks': 1,
}


def test_nothing_differs_in_the_same_training_of_another_length_with_other_logs():
    now = {**THEN, 'hparams': {'learning_rate': 0.1, 'train_steps': 20}, 'flags': {**THEN['flags'], 'save_summary_steps': 5}}
    assert made_by.differences(THEN, now) == []
    del now['onednn']  # A record of an older version.
    assert made_by.differences(now, THEN) == []


def test_each_difference_is_named():
    now = {
        'hparams': {'learning_rate': 0.2, 'train_steps': 10},
        'flags': {'precision': 'bfloat16', 'num_towers': 1, 'save_summary_steps': 100},
        'data': 'e',
        'code': {'own.model': '4', 'own.new': None, 'estimator_trainer': '3'},
        'versions': {'tensorflow': '2.15.1'},
        'processor': 'B',
        'cores': 4,
        'onednn': False,
        'gpus': ['/physical_device:GPU:0'],
        'tasks': 2,
    }
    assert made_by.differences(THEN, now) == [
        'learning_rate was 0.1, now it is 0.2',
        '--precision was "float32", now it is "bfloat16"',
        'the code of own.model has changed',
        'own.old is no longer imported',
        'own.new was not imported',
        'the code of own.new is in no file, and cannot be compared',
        'the training data differs',
        'tensorflow was "2.21.0", now it is "2.15.1"',
        'the processor was "A", now it is "B"',
        'the number of cores was 2, now it is 4',
        'the use of oneDNN was true, now it is false',
        'the list of GPUs was [], now it is ["/physical_device:GPU:0"]',
        'the number of tasks was 1, now it is 2',
    ]


def test_what_a_warm_start_reads_is_digested_as_tensors_or_as_bytes(tmp_path):
    (tmp_path / 'model').mkdir()
    for name, content in (('model/b', b'2'), ('model/a', b'1'), ('w.keras', b'3')):
        (tmp_path / name).write_bytes(content)
    one, two, three = (hashlib.sha256(content).hexdigest() for content in (b'1', b'2', b'3'))
    assert made_by.warm_start_of(str(tmp_path / 'w.keras')) == three
    files = f'{{"a":"{one}","b":"{two}"}}'
    assert made_by.warm_start_of(str(tmp_path / 'model')) == hashlib.sha256(files.encode()).hexdigest()
