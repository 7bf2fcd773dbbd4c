"""--schedule=suspects: the scores of a real run, what it writes, and training without what it lists."""

import types

import numpy as np
import pytest

from estimator_trainer.common.cluster.training_task import Rehearsal
from estimator_trainer.common.commands import api
from estimator_trainer.common.options.table import Options
from estimator_trainer.common.pipeline.data_source import DataSource
from estimator_trainer.common.runs import suspects
from estimator_trainer.common.runs.estimators import make_estimators
from estimator_trainer.common.training import margins
from estimator_trainer.common.training.training import Training
from estimator_trainer.hparams import build
from tests.shared import refused, rows, without_log

MLP = ('--model=mlp', '--dataset=mnist')


@pytest.fixture(scope='module')
def still(data_dir, tmp_path_factory):
    """A run whose weights stay as they began, so that the margins of each epoch are those of its predictions."""
    hparams = {'learning_rate': 0.0, 'drop_rate': 0.0, 'hidden_units': [8], 'batch_size': 100}
    path = str(tmp_path_factory.mktemp('still') / 'run')
    options = {'train_steps': 130, 'steps_per_loop': 7, 'save_checkpoints_steps': 50, 'schedule': 'train', 'data_dir': data_dir}
    return api.train('mlp', 'mnist', path, hparams=hparams, record_margins=True, **options)


def test_the_score_is_the_mean_margin_of_the_very_example(still):
    found = still.suspects(top=6000)
    predictions = still.predict_split('train')
    assert len(found) == len({one['example'] for one in found}) == 6000
    assert [one['score'] for one in found] == sorted(one['score'] for one in found)
    for one in found[::500]:
        of_one = predictions[one['example']]
        logs = np.log(of_one['probabilities'])
        label = of_one['label']
        assert (int(one['label']), int(one['predicted'])) == (label, of_one['class'])
        np.testing.assert_allclose(one['score'], logs[label] - np.delete(logs, label).max(), rtol=2e-3, atol=2e-3)
    page = open(f'{still.output_dir}/suspects.html').read()
    assert '6,000 of 6,000 training examples' in page and page.count('data:image/png') == 100
    assert {one['example'] for one in still.suspects()} == {one['example'] for one in found if one['score'] < 0}


def test_a_training_leaves_out_what_is_listed_and_refuses_to_go_on_if_the_list_changes(still, run, tmp_path):
    path = tmp_path / 'some.csv'
    listed = sorted(still.suspects(top=3), key=lambda one: one['example'])
    path.write_text('example,label,corrected\n' + ''.join(f'{one["example"]},{one["label"]},\n' for one in listed))
    flags = [*MLP, f'--exclude={path}', '--record_margins', '--hparams=batch_size=100,hidden_units=[8]', '--schedule=train']
    code, _, err = run(*flags, '--train_steps=60')
    assert code == 0 and 'of 6000 training records, 3 are left out, and 0 have corrected labels' in err
    code, result, err = run('--schedule=suspects', '--top=6000')
    assert code == 0, err
    found = {int(row['example']) for row in rows(result['suspects'])}
    assert found == {*range(6000)} - {one['example'] for one in listed}
    path.write_text(path.read_text() + f'{min(found)},{rows(result["suspects"])[0]["label"]},\n')
    code, _, err = run('--train_steps=70')
    assert code == 1 and 'the file of exclude differs' in without_log(err)[0]


def test_a_run_without_margins_is_refused(trained_run, run):
    trained_run('alexnet')
    code, _, err = run('--schedule=suspects')
    assert code == 2 and 'has no margins: train with --record_margins from the beginning, or with --folds' in err


@pytest.mark.parametrize(
    'metadata, task, reason',
    [
        ({'task': 'segmentation'}, '', 'masks are predicted'),
        ({'task': 'tagging'}, '', 'tags are predicted'),
        ({'task': 'forecast'}, '', 'values are forecast'),
        ({'targets': [{'key': 'a'}, {'key': 'b'}]}, '', 'there are several targets'),
        ({}, 'regression', 'the target is a number'),
    ],
)
def test_what_has_no_suspects_is_not_advised_to_record_margins(metadata, task, reason):
    params = build.HParams({'task': task, 'mixup_alpha': 0.0}, metadata)
    estimator = types.SimpleNamespace(model_dir='/nowhere')
    experiment = types.SimpleNamespace(source=types.SimpleNamespace(params=params), estimator=estimator)
    expected = f'--schedule=suspects ranks examples of one class each, but {reason}'
    assert refused(suspects.suspects, experiment) == refused(suspects.of_folds, [experiment], '/nowhere') == expected
    message = refused(margins.check_params, params, '/nowhere')
    assert message == f'--record_margins is for one class of each example, but {reason}: omit it'


@pytest.mark.parametrize(
    'model, dataset, count, reason',
    [
        ({'model': len}, {'input_fn': len}, 1, '--dataset=d, which makes its own batches'),
        ({'model_fn': len}, {}, 1, '--model=m, which makes its own training step'),
        ({'model': len}, {}, 2, 'parameter servers, with which the order of the examples depends on time'),
    ],
)
def test_margins_whose_examples_are_unknown_are_refused(model, dataset, count, reason):
    source = DataSource(types.SimpleNamespace(**dataset), '', build.make_hparams('m', {}, 'd', {}))
    training = Training(Options(record_margins=True), 1, task=Rehearsal(count, 1))
    message = refused(make_estimators, types.SimpleNamespace(**model), source, [], training, None)
    assert message == f'--record_margins excludes {reason}: omit it'
