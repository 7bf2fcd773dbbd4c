"""A tagger of sentences learns its example, resumes, predicts and reports, in one run."""

import numpy as np
import pytest

from benchmarks import tagged_sentences
from estimator_trainer.common.commands import api
from estimator_trainer.common.errors import UsageError
from tests.shared import assert_equal, copy_without, read_weights


@pytest.fixture(scope='module')
def data(tmp_path_factory):
    path = tmp_path_factory.mktemp('tagged')
    tagged_sentences.write(str(path / 'sentences'), 400)
    return path


def start(data, name, **options):
    hparams = {'tagged_file': str(data / 'sentences'), **options.pop('hparams', {})}
    paths = {'data_dir': str(data / 'data'), 'output_dir': str(data / name)}
    return api.train('text_tagger', 'tagged', hparams=hparams, **paths, **options)


@pytest.fixture(scope='module')
def run(data):
    return start(data, 'run', best_metric='span_f1:max', hparams={'num_epochs': 20})


def test_the_example_reaches_its_figure(run):
    assert run.metrics['best']['eval']['span_f1'] > 0.95 and run.metrics['eval']['token_accuracy'] > 0.98


def test_sentences_and_tokens_are_predicted_each_to_its_length(run, data):
    found = run.predict(['Talmon met Corgal in Dendorus.', 'It rains'])
    assert found['tokens'].tolist() == [['Talmon', 'met', 'Corgal', 'in', 'Dendorus', '.'], ['It', 'rains', *4 * ['']]]
    assert found['tags'][0].tolist() == ['B-PER', 'O', 'B-PER', 'O', 'B-LOC', 'O'] and found['tags'][1, 2:].tolist() == 4 * ['']
    of_tokens = run.predict([['Talmon', 'met', 'Corgal', 'in', 'Dendorus', '.'], ['It', 'rains']])
    assert of_tokens['tags'].tolist() == found['tags'].tolist()
    assert run.predict('It rains')['tags'].tolist() == found['tags'][1, :2].tolist()
    for wrong, message in (([['a', 3]], 'not 3'), ([['a', '']], "not ''")):
        with pytest.raises(ValueError, match=message):
            run.predict(wrong)
    (data / 'in.txt').write_text('Talmon met Corgal in Dendorus.\nIt rains\n')
    first, second = run.predict_files(str(data / 'in.txt'))
    assert [*map(len, (second['tokens'], second['tags'], second['probabilities']))] == [2, 2, 2]
    assert [*first['tags']] == found['tags'][0].tolist()


def test_predictions_of_a_split_have_labels_and_the_report_counts_tokens(run):
    found = run.predict_split()
    pairs = [pair for row in found for pair in zip(row['label'], row['tags'], strict=True)]
    accuracy = np.mean([label == tag for label, tag in pairs])
    assert run.metrics['best']['eval']['token_accuracy'] == pytest.approx(accuracy, abs=1e-5)
    pytest.importorskip('jinja2')
    with open(run.report(), encoding='utf-8') as file:
        page = ' '.join(file.read().split())
    assert f'all {len(pairs):,} tokens of the split eval' in page and 'sentences with the most wrong tags' in page
    assert f'of {len(pairs):,} tokens are predicted correctly' in page and '>tokens</th>' in page and '>examples<' not in page
    wrong = max(found, key=lambda row: sum(map(str.__ne__, row['label'], row['tags'])))
    assert f'line {wrong["line"]}' in page and ' '.join(wrong['tokens']).replace('"', '&#34;') in page
    with pytest.raises(UsageError, match='whole sentences: see the report'):
        run.mistakes()


def test_training_goes_on_as_if_it_had_not_stopped(data):
    hparams = {'rnn_units': 8, 'character_filters': 4, 'group_by_length': True}
    options = {'schedule': 'train', 'train_steps': 6, 'save_checkpoints_steps': 3}
    start(data, 'whole', hparams=hparams, **options)
    assert (copy_without(6, data / 'whole', data / 'resumed') / 'model.ckpt-3.index').exists()
    start(data, 'resumed', hparams=hparams, **options)
    assert_equal(read_weights(data / 'resumed'), read_weights(data / 'whole'))


def test_what_is_for_classes_of_examples_is_one_line(data):
    for hparams, message in (
        (
            {'class_weights': [1.0, 2.0]},
            'class_weights is for a class of each example, but (--)?dataset=tagged has tags',
        ),
        ({'oversample': True}, 'oversample=true is for a class of each example'),
        ({'label_smoothing': 0.1}, 'label_smoothing=0.1 needs examples of one class each'),
    ):
        with pytest.raises(UsageError, match=message):
            start(data, 'refused', hparams=hparams, train_steps=1)
