"""Several targets in tables and TFRecord files: what they are taken for, their labels, and wrong ones."""

import csv

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from estimator_trainer.common.errors import RunError, UsageError
from estimator_trainer.common.own_data.schema import names_in
from estimator_trainer.common.records import records
from estimator_trainer.common.targets import keys_of, label_names_of, targets_of
from estimator_trainer.datasets import table, tfrecord
from estimator_trainer.hparams import build
from estimator_trainer.hparams.merge import apply
from tests.datasets.own_data import Prepared, make_schema

ROWS = [(i, i % 2, int(i % 5 > 2), 'abc'[i % 3], i / 4) for i in range(40)]


@pytest.fixture
def prepared(tmp_path):
    """Returns a function from hyper-parameters to the dataset of a table."""

    def prepare(*hparams, rows=ROWS, header=('x', 'odd', 'high', 'kind', 'price €')):
        with open(tmp_path / 'a.csv', 'w', newline='', encoding='utf-8') as file:
            csv.writer(file).writerows([header, *rows])
        return Prepared(table, tmp_path / 'data', f'table_file={tmp_path}/a.csv', 'eval_share=0', *hparams)

    return prepare


def refused(prepared, *hparams, **options):
    with pytest.raises((UsageError, RunError)) as error:
        prepared(*hparams, **options)
    assert '\n' not in str(error.value)
    return str(error.value)


def test_targets_that_are_all_0_or_1_are_labels_in_the_order_given(prepared, tmp_path):
    found = prepared('target=[high,odd]')
    assert found.metadata['task'] == 'multilabel' and label_names_of(found.metadata) == ['high', 'odd']
    features, labels = found.read('train')
    np.testing.assert_array_equal(labels['label'], [[high, odd] for _, odd, high, _, _ in ROWS])
    assert [*labels] == ['label'] and features['numeric'].shape == (40, 2)  # x and the price.
    rows = [(x, bool(odd), str(bool(high)).upper(), *others) for x, odd, high, *others in ROWS]
    np.testing.assert_array_equal(prepared('target=[high,odd]', rows=rows).read('train')[1]['label'], labels['label'])
    (tmp_path / 'new.csv').write_text('x,odd,high,kind,price €\n1,1,2,a,3\n2,0,1,b,4\n')
    (_, again), errors = found.read_labeled(tmp_path / 'new.csv')
    assert again['label'].tolist() == [[1, 0]] and "line 2: column high: '2' is not 0 or 1" in next(iter(errors.values()))


def test_other_targets_are_classes_and_numbers_with_a_key_each(prepared, tmp_path):
    found = prepared('target=[kind,price €,odd]')
    kind, price, odd = targets_of(found.metadata)
    assert found.metadata['task'] == 'several'
    assert (kind.key, kind.class_names, kind.num_classes) == ('kind', ['a', 'b', 'c'], 3)
    assert (price.key, price.name, price.task, odd.task) == ('price', 'price €', 'regression', 'classification')
    assert price.mean == pytest.approx(np.mean([row[4] for row in ROWS])) and odd.class_names == ['0', '1']
    labels = found.read('train')[1]
    np.testing.assert_array_equal(labels['label_kind'], [i % 3 for i in range(40)])
    np.testing.assert_allclose(labels['label_price'], [row[4] for row in ROWS])
    given = make_schema(tmp_path, task={'odd': 'regression'}, target=['odd', 'kind'])
    assert [target.task for target in targets_of(prepared(given).metadata)] == ['regression', 'classification']
    again = found.prepared_with(found.metadata)  # As a resumed run reads them.
    assert again.metadata == found.metadata


def test_one_target_in_a_list_is_a_single_target(prepared, tmp_path):
    alone = prepared('target=kind')
    for text in ('target=[kind]', 'target=["kind"]'):
        found = prepared(text)
        assert found.metadata == alone.metadata and [*found.read('train')[1]] == ['label']
    assert len({path.name.rpartition('-')[0] for path in (tmp_path / 'data').iterdir()}) == 1  # But for the time of the file.


def test_wrong_targets_are_refused_in_a_line(prepared, tmp_path, caplog):
    assert '--hparams=target: odd is named twice' in refused(prepared, 'target=[odd,odd]')
    assert 'has no column hihg, did you mean high' in refused(prepared, 'target=[odd,hihg]')
    also = make_schema(tmp_path, columns={'odd': 'numeric'})
    assert 'odd is a target, and' in refused(prepared, 'target=[odd,high]', also)
    both = make_schema(tmp_path, target=['odd', 'high'])
    assert 'names another target, odd, high' in refused(prepared, 'target=[odd,kind]', both)
    assert 'target, id must be different' in refused(prepared, 'target=[odd,kind]', make_schema(tmp_path, id='kind'))
    for wrong, message in (({'target': []}, 'target must be a string, or a list'), ({'task': {'odd': 'x'}}, 'task is x, but')):
        assert message in refused(prepared, make_schema(tmp_path, **wrong))
    rows = [*ROWS, (1, 0, 2, 'a', 1)]
    multilabel = make_schema(tmp_path, task='multilabel')
    message = 'the target high has the values 0, 1, 2, but those of a multilabel task must be 0 and 1'
    assert message in refused(prepared, 'target=[odd,high]', multilabel, rows=rows)
    assert prepared('target=[odd,high]', rows=rows).metadata['task'] == 'several'
    assert 'high has the values 0, 1, 2, so the targets are no labels' in caplog.text
    rows = [*ROWS, (1, 0, '', 'a', 1)]
    assert 'line 42: column high: the target is missing' in refused(prepared, 'target=[odd,high]', rows=rows)


def test_a_list_is_text_or_a_list_and_names_may_have_commas():
    assert names_in('[a, b c]') == names_in('["a","b c"]') == ['a', 'b c'] and names_in('') == names_in('[]') == []
    assert names_in('a,b') == ['a,b'] and names_in('[a]', ['[a]']) == ['[a]']
    for names, text in ((['a', 'b c'], '[a,b c]'), (['a,b', 'ä'], '["a,b", "ä"]')):
        assert apply({'target': ''}, '', {'target': names})['target'] == text and names_in(text) == names
    with pytest.raises(UsageError, match='table_file='):
        apply({'table_file': ''}, '', {'table_file': ['a']})


def test_keys_are_distinct_and_suit_names_of_variables():
    assert keys_of(['a b', 'a_b', 'Größe (m)', '€']) == ['a_b', 'a_b_2', 'Gr_e_m', 'target']
    assert keys_of(['x', 'name_x', 'macro_x', 'x_name']) == ['x', 'name_x_2', 'macro_x_2', 'x_name']  # class_name_x, f1_macro_x
    assert keys_of(['name_x', 'x']) == ['name_x', 'x_2']


def test_records_may_have_several_labels(tmp_path):
    rows = [{'x': float(i), 'odd': i % 2, 'high': int(i > 2), 'y': i / 3} for i in range(8)]
    for split in ('train', 'eval'):
        with tf.io.TFRecordWriter(str(tmp_path / f'{split}.tfrecord')) as file:
            for row in rows:
                file.write(records.encode(row))
    found = Prepared(tfrecord, tmp_path / 'data', f'tfrecord_dir={tmp_path}', 'target=[odd,high]')
    assert found.metadata['task'] == 'multilabel'
    labels = [label['label'].tolist() for _, label in found.read('eval')]
    assert labels == [[i % 2, int(i > 2)] for i in range(8)]
    given = make_schema(tmp_path, label=['y', 'odd'])
    found = Prepared(tfrecord, tmp_path / 'data', f'tfrecord_dir={tmp_path}', given)
    _, label = found.read('eval')[1]
    assert {name: value.item() for name, value in label.items()} == {'label_y': pytest.approx(1 / 3), 'label_odd': 1}
    with pytest.raises(UsageError, match='has no feature hihg, did you mean high'):
        Prepared(tfrecord, tmp_path / 'data', f'tfrecord_dir={tmp_path}', 'target=[odd,hihg]')


def test_data_of_one_target_has_the_metadata_that_it_had(prepared):
    found = prepared('target=price €')
    assert found.metadata.keys() == {'task', 'target_mean', 'target_std', 'columns', 'vocabulary_sizes'}
    assert isinstance(found.params, build.HParams)


def test_a_label_applies_however_true_is_written(prepared):
    written = ['True'] * 80 + ['False'] * 20 + ['true'] * 5 + ['false'] * 25  # The commonest are True and false.
    found = prepared('target=[a,b]', rows=[(i, a, i % 2) for i, a in enumerate(written)], header=('x', 'a', 'b'))
    assert found.metadata['task'] == 'multilabel'
    assert found.metadata['targets'][0]['class_names'] == ['false', 'True']
    assert found.read('train')[1]['label'][:, 0].tolist() == [1] * 80 + [0] * 20 + [1] * 5 + [0] * 25
