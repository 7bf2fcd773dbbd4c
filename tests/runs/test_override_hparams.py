"""--override_hparams: a training goes on with other values, without losing its place in the data."""

import json
import types

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from common.runs import api
from tests.shared import SMALL, read_weights
from tools.soak.ledger import read_ledger

pytestmark = pytest.mark.slow

LEDGER = ('--model=tools.soak.ledger', '--dataset=tools.soak.ledger', '--schedule=train')
ROWS = 50  # Examples of an epoch.


@pytest.fixture
def train(run, tmp_path, monkeypatch):
    """Trains in a directory: train('name', 6, flag, ...) -> log."""

    def call(name, steps, *flags, code=0):
        monkeypatch.setenv('LEDGER', str(tmp_path / f'{name}.ledger'))
        found, _, log = run(*LEDGER, f'--train_steps={steps}', *flags, output_dir=tmp_path / name)
        assert found == code, log
        return log

    return call


def ids(tmp_path, name):
    """Returns the numbers of the examples in the order in which they were trained on."""
    return [i for _, ids_of_step, _ in read_ledger(tmp_path / f'{name}.ledger') for i in ids_of_step]


def saved(tmp_path, name):
    return json.loads((tmp_path / name / 'hparams.json').read_text())


@pytest.mark.parametrize('flags', [(), ('--hparams=shuffle_buffer=20',)], ids=['in memory', 'in windows'])
def test_with_another_batch_size_the_epoch_goes_on_where_it_was(train, tmp_path, flags):
    train('whole', 30, *flags)
    train('found', 6, *flags)
    train('found', 12, *flags, '--override_hparams=batch_size=10')
    train('found', 14, *flags, '--override_hparams=batch_size=4')
    expected = ids(tmp_path, 'whole')
    assert ids(tmp_path, 'found') == expected[: 6 * 6 + 6 * 10 + 2 * 4] and sorted(expected[:ROWS]) == list(range(ROWS))
    assert saved(tmp_path, 'found')['override_history'] == [
        {'global_step': 6, 'hparams': {'batch_size': [6, 10]}},
        {'global_step': 12, 'hparams': {'batch_size': [10, 4]}},
    ]
    log = train('found', 15, f'--hparams_set={tmp_path}/found/hparams.json')
    assert ids(tmp_path, 'found') == expected[: 6 * 6 + 6 * 10 + 3 * 4]
    assert 'From step 6 on: batch_size is 10; it was 6.' in log and 'epoch 2.16' in log  # (36 + 60 + 12) / 50


def test_epochs_end_after_as_many_examples(run, train, tmp_path):
    train('found', 5)
    code, result, _ = run(*LEDGER, '--num_epochs=2', '--override_hparams=batch_size=14', output_dir=tmp_path / 'found')
    assert (code, result) == (0, {'global_step': 5 + (2 * ROWS - 5 * 6) // 14})


def test_a_changed_rate_counts_from_its_step_on_and_resumes_exactly(train, tmp_path):
    override = '--override_hparams=learning_rate=0.001,weight_decay=0.1'
    flags = ('--save_summary_steps=1', '--save_checkpoints_steps=3')
    train('expected', 4, *flags)
    train('expected', 12, *flags, override)
    rates = {}
    for path in sorted((tmp_path / 'expected').glob('events*')):
        for event in tf.train.summary_iterator(str(path)):
            for value in event.summary.value:
                if value.tag == 'learning_rate':
                    rates[event.step] = value.simple_value
    np.testing.assert_allclose([rates[step] for step in range(1, 13)], [0.01] * 4 + [0.001] * 8)
    train('found', 4)
    train('found', 7, override)
    train('found', 12, override)
    expected, found = read_weights(tmp_path / 'expected'), read_weights(tmp_path / 'found')
    assert all((expected[name] == found[name]).all() for name in expected)
    changes = {'learning_rate': [0.01, 0.001], 'weight_decay': [0.0, 0.1]}
    assert saved(tmp_path, 'found')['override_history'] == [{'global_step': 4, 'hparams': changes}]
    assert saved(tmp_path, 'found')['learning_rate'] == 0.001


def test_without_the_flag_the_old_values_are_refused(train, tmp_path):
    train('found', 2)
    train('found', 3, '--override_hparams=learning_rate=0.001')
    log = train('found', 4, code=2)
    assert log.splitlines()[-1].endswith(
        f'learning_rate was 0.001, now it is 0.01: reuse the saved values, with --hparams_set={tmp_path}/found/hparams.json, '
        'or choose another --output_dir'
    )
    train('found', 4, '--override_hparams=learning_rate=0.01')
    assert [entry['global_step'] for entry in saved(tmp_path, 'found')['override_history']] == [2, 3]


def test_a_change_whose_checkpoint_is_lost_counts_from_the_one_before(train, tmp_path):
    train('whole', 20)
    train('found', 6, '--save_checkpoints_steps=4')
    train('found', 8, '--save_checkpoints_steps=4', '--override_hparams=batch_size=10')
    for step in (6, 8):
        (tmp_path / 'found' / f'model.ckpt-{step}.index').write_bytes(b'')
    (tmp_path / 'found.ledger').unlink()
    train('found', 8, '--save_checkpoints_steps=4', '--override_hparams=batch_size=10')
    assert saved(tmp_path, 'found')['override_history'] == [{'global_step': 4, 'hparams': {'batch_size': [6, 10]}}]
    assert ids(tmp_path, 'found') == ids(tmp_path, 'whole')[4 * 6 : 4 * 6 + 4 * 10]


@pytest.mark.parametrize(
    'flags, message',
    [
        (['--override_hparams=optimizer=sgd'], '--override_hparams: a training cannot resume with another optimizer; it can'),
        (['--override_hparams=rate=1'], '--override_hparams: unknown hyper-parameter rate'),
        (['--override_hparams=batch_size=x'], '--override_hparams: batch_size=x must be an integer'),
        (['--override_hparams=batch_size'], "--override_hparams: 'batch_size' is not of the form name=value"),
        (
            ['--override_hparams=batch_size=12', '--schedule=evaluate'],
            '--override_hparams requires --schedule=train_and_evaluate or train, not evaluate',
        ),
    ],
)
def test_what_a_restart_cannot_bear_is_one_line(train, tmp_path, flags, message):
    train('found', 2)
    before = (tmp_path / 'found' / 'hparams.json').read_bytes()
    assert train('found', 4, *flags, code=2).splitlines()[-1].startswith(f'trainer.py: {message}')
    assert (tmp_path / 'found' / 'hparams.json').read_bytes() == before


def test_another_batch_size_does_not_go_with_groups_by_length(tmp_path):
    def model(features, labels, mode, params):
        y = tf.get_variable('w', []) * tf.reduce_sum(features['x'], 1)
        return {'y': y}, tf.square(y - labels['y'])

    data = types.SimpleNamespace(
        get_params=lambda: {'group_by_length': True},
        prepare=lambda data_dir, params: None,
        read=lambda split, data_dir, params: tf.data.Dataset.range(1, 401),
        parse=lambda mode, params, i: ({'x': tf.ones([i % 4 + 1])}, {'y': 0.0}),
    )

    def train(steps, **options):
        hparams = {'batch_size': 2, 'learning_rate': 0.1}
        functions = types.SimpleNamespace(get_params=dict, model=model)
        api.train(functions, data, str(tmp_path), hparams=hparams, train_steps=steps, schedule='train', **options)

    train(1)
    with pytest.raises(api.UsageError, match='after which this training cannot go on with group_by_length'):
        train(2, override_hparams='batch_size=4')
    train(2, override_hparams='learning_rate=0.01')


@pytest.mark.parametrize('history', ['5', '[5]', '[{"global_step": "1", "hparams": {}}]', '[{"global_step": 1, "hparams": 2}]'])
def test_a_corrupt_history_is_one_line(train, tmp_path, history):
    train('found', 2)
    path = tmp_path / 'found' / 'hparams.json'
    path.write_text(f'{path.read_text().rstrip()[:-1]}, "override_history": {history}}}')
    assert f'{path}: override_history is corrupt' in train('found', 3, code=2).splitlines()[-1]


def test_a_model_says_what_else_may_change(run, tmp_path):
    assert run(*SMALL, '--schedule=train', '--train_steps=1')[0] == 0
    code, _, err = run(*SMALL, '--schedule=train', '--train_steps=2', '--override_hparams=drop_rate=0.25')
    assert code == 0 and saved(tmp_path, 'output')['drop_rate'] == 0.25, err
    code, _, err = run(*SMALL, '--schedule=train', '--train_steps=3', '--override_hparams=dense_units=8')
    assert code == 2 and 'a training cannot resume with another dense_units' in err


@pytest.mark.parametrize('steps', [4, 2], ids=['refused', 'nothing to train'])
def test_what_does_not_train_is_not_kept(train, tmp_path, steps):
    train('found', 2)
    before = (tmp_path / 'found' / 'hparams.json').read_bytes()
    towers = ['--num_towers=2'] if steps > 2 else []
    log = train('found', steps, '--override_hparams=batch_size=7', *towers, code=2 if towers else 0)
    assert (tmp_path / 'found' / 'hparams.json').read_bytes() == before
    if towers:
        assert log.splitlines()[-1] == (
            'trainer.py: batch_size=7 is not divisible by 2 towers: use --override_hparams=batch_size=6 or 8'
        )
