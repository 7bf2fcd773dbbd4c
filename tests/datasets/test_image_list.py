"""Pictures that a table names: conversion, features, wrong rows; and a model of their labels, from training to its report."""

import json
import unicodedata

import numpy as np
from PIL import ExifTags, Image
import pytest

from benchmarks.digit_list import write
from estimator_trainer.common.commands import api
from estimator_trainer.common.errors import RunError, UsageError
from estimator_trainer.common.formats import images
from estimator_trainer.common.inference import rows
from estimator_trainer.datasets import image_list
from tests.datasets.own_data import Prepared, make_schema, picture, predicted, prepare_raw


def make(tmp_path, rows, header='file,size,even,odd', *hparams):
    """Writes pictures of increasing brightness and a table, and prepares it; a row's first cell names its picture."""
    (tmp_path / 'list').mkdir(exist_ok=True)
    for i in range(8):
        Image.new('L', (8, 6), 30 * i).save(tmp_path / 'list' / f'{i}.png')
    lines = [header, *(','.join(map(str, row)) for row in rows)]
    (tmp_path / 'list' / 'a.csv').write_text('\n'.join(lines) + '\n')
    return Prepared(image_list, tmp_path / 'data', *own(tmp_path), *hparams)


def own(tmp_path):
    return f'table_file={tmp_path}/list/a.csv', 'image_size=4', 'num_channels=1', 'eval_share=0', 'target=[even,odd]'


ROWS = [(f'{i}.png', i * 10, int(i % 2 == 0), i % 2) for i in range(8)]


def test_pictures_are_features_beside_columns_and_labels(tmp_path):
    found = make(tmp_path, ROWS)
    assert [column['kind'] for column in found.metadata['columns']] == ['image', 'numeric', 'target', 'target']
    examples = found.read('train')
    for i, (features, labels) in enumerate(examples):
        np.testing.assert_allclose(features['image'], np.full([4, 4, 1], 30 * i / 255), rtol=1e-5)
        assert features['example_id'] == f'{i}.png'.encode() and labels['label'].tolist() == [1 - i % 2, i % 2]
    raw = prepare_raw(image_list, found.params, {'file': [picture(value=90, size=(8, 6))], 'size': [30.0]})
    np.testing.assert_allclose(raw['image'][0], examples[3][0]['image'], rtol=1e-5)
    np.testing.assert_allclose(raw['numeric'][0], examples[3][0]['numeric'], rtol=1e-5)
    before = {path.name for path in (tmp_path / 'data').iterdir()}
    Image.new('L', (9, 9), 7).save(tmp_path / 'list' / '0.png')
    found.prepared_with({})
    assert before < {path.name for path in (tmp_path / 'data').iterdir()}  # Converted anew.


def test_a_few_dark_pictures_of_16_bits_are_named_and_that_there_are_more(tmp_path, caplog):
    found = make(tmp_path, ROWS)
    assert '16 bits' not in caplog.text
    for i in range(7):
        Image.fromarray(np.full([6, 8], 200, np.uint16)).save(tmp_path / 'list' / f'{i}.png')
    found.prepared_with({})
    assert caplog.text.count('.png has 16 bits, but no value above 200 of 65535') == 5
    more = f'{tmp_path}/list/a.csv: has more pictures of 16 bits with small values only, which are not listed.'
    assert caplog.messages.count(more) == 1


def test_the_content_of_a_picture_file_is_decoded_by_pillow_once(tmp_path, monkeypatch):
    found, decode, decoded = make(tmp_path, ROWS), images.decode, []
    monkeypatch.setattr(images, 'decode', lambda *args: decoded.append(args) or decode(*args))
    content, readers = picture(), image_list.cell_readers(found.params)
    rows.make_batch({'file': [content], 'size': [0]}, image_list.raw_specs(found.params), readers)
    assert [args[0] for args in decoded] == [content]


def test_a_program_and_a_server_give_pictures_of_any_kind_as_files_have_them(tmp_path):
    pixels = np.random.RandomState(0).randint(0, 256, [6, 8, 3], np.uint8)
    turned, cmyk = Image.Exif(), Image.fromarray(pixels).convert('CMYK')
    turned[ExifTags.Base.Orientation] = 6
    Image.fromarray(pixels).save(tmp_path / '0.jpg', exif=turned)
    cmyk.save(tmp_path / '1.jpg')
    Image.fromarray(pixels).quantize(4).save(tmp_path / '2.png', transparency=0)
    Image.fromarray(pixels).save(tmp_path / '3.tif')
    names = sorted(path.name for path in tmp_path.iterdir())

    found = make(tmp_path, [(f'../{name}', i, i % 2, i // 2) for i, name in enumerate(names)])
    specs, readers = image_list.raw_specs(found.params), image_list.cell_readers(found.params)
    for forms in ([*map(str, map(tmp_path.joinpath, names))], [(tmp_path / name).read_bytes() for name in names]):
        batch, _ = rows.make_batch({'file': forms, 'size': [0, 1, 2, 3]}, specs, readers)
        made = prepare_raw(image_list, found.params, batch)['image']
        np.testing.assert_allclose(made, [features['image'] for features, _ in found.read('train')], atol=1e-6)
    with pytest.raises(ValueError, match='the input file: picture 0 is not an image'):
        rows.make_batch({'file': [b'text'], 'size': [0]}, specs, readers)


def test_a_wrong_picture_is_named_with_its_row_and_may_be_skipped(tmp_path):
    place = f'{tmp_path}/list/a.csv: line 10: column file: '
    for cell, message in (
        ('none.png', f'{tmp_path}/list/none.png cannot be read: No such file or directory: correct it, or skip such rows'),
        ('a.csv', f'{tmp_path}/list/a.csv is not an image of a kind that Pillow reads'),
        ('""', 'the path of the picture is missing'),
    ):
        with pytest.raises(RunError) as error:
            make(tmp_path, [*ROWS, (cell, 1, 0, 1)])
        assert str(error.value).startswith(place + message) and '\n' not in str(error.value)
    found = make(tmp_path, [*ROWS, ('none.png', 1, 0, 1)], 'file,size,even,odd', 'max_bad_share=0.2')
    assert len(found.read('train')) == 8
    features, errors = found.predict(tmp_path / 'list' / 'a.csv')
    assert len(features) == 8 and [*errors] == [10]
    with pytest.raises(RunError, match='1.png: the model also needs the columns size: give a table'):
        list(image_list.read_input(f'{tmp_path}/list/1.png', found.params))


def test_the_column_of_paths_is_found_or_given(tmp_path):
    for header, hparams, message in (
        ('file,size,even,odd', ['image_column=fil'], 'image_column: .*a.csv has no column fil; its columns are: file, size'),
        ('even,size,file,odd', [], 'the column even, of the paths of pictures, is also the target'),
    ):
        with pytest.raises(UsageError, match=message):
            make(tmp_path, ROWS, header, *hparams)
    with pytest.raises(UsageError, match='image_column=COLUMN is required: .*no column has paths of pictures in the first row'):
        make(tmp_path, [(i, i, i % 2, 1 - i % 2) for i in range(8)])
    twice = [(path, path, *others) for path, _, *others in ROWS]
    with pytest.raises(UsageError, match='file and size have paths of pictures'):
        make(tmp_path, twice)
    inside = [(f'list/{path}', *others) for path, *others in ROWS]
    header = unicodedata.normalize('NFD', 'gerät,size,even,odd')  # As macOS writes accents.
    found = make(tmp_path, inside, header, f'image_dir={tmp_path}', 'image_column=gerät')
    assert found.read('train')[1][0]['example_id'] == b'list/1.png'
    with pytest.raises(UsageError, match='table_file=PATH is required'):
        Prepared(image_list, tmp_path / 'data')


def test_a_directory_that_was_given_before_is_not_that_of_other_tables(tmp_path):
    given = make(tmp_path, ROWS, 'file,size,even,odd', f'image_dir={tmp_path}/list')
    found = Prepared(image_list, tmp_path / 'data', *own(tmp_path))
    assert [one.metadata['columns'][0]['directory'] for one in (given, found)] == [f'{tmp_path}/list', '']
    (tmp_path / 'new').mkdir()
    (tmp_path / 'new' / 'b.csv').write_text('file,size\n1.png,10\n')
    Image.new('L', (8, 6), 255).save(tmp_path / 'new' / '1.png')
    for one, value in ((given, 30 / 255), (found, 1)):
        ((features,), _) = one.predict(tmp_path / 'new' / 'b.csv')
        np.testing.assert_allclose(features['image'], np.full([4, 4, 1], value), rtol=1e-5)


def test_labels_of_digits_are_learned_and_go_from_predictions_to_report_and_export(run, tmp_path):
    write(str(tmp_path / 'digits'), 600)
    schema = make_schema(tmp_path, columns={'digit': 'ignore', 'ink': 'ignore'})
    hparams = (
        f'table_file={tmp_path}/digits,target=[even,large,loop],{schema},image_size=28,num_channels=1,filters=[8,16],'
        'dense_units=32,augment_shift=0,num_epochs=6,min_steps=0,eval_batch_size=100'
    )
    flags = ('--model=alexnet', '--dataset=image_list', f'--data_dir={tmp_path}/data')
    code, result, _ = run(*flags, f'--hparams={hparams}', '--best_metric=f1_macro:max')
    metrics = result['eval']
    assert code == 0 and metrics['f1_macro'] > 0.8 and metrics['exact_match'] <= metrics['accuracy']
    assert run(*flags, '--schedule=predict')[0] == 0
    lines = predicted(tmp_path / 'output')
    truth, found = ([{*line[name]} for line in lines] for name in ('label', 'predicted'))
    assert {name for line in lines for name in line['probabilities']} == {'even', 'large', 'loop'}
    names = 'even', 'large', 'loop'
    right = [sum(name in a and name in b for a, b in zip(truth, found)) for name in names]
    total = [sum(name in labels for labels in [*truth, *found]) for name in names]
    evaluated = run(*flags, '--schedule=evaluate', f'--input={tmp_path}/digits/eval.csv')[1]['input']
    assert evaluated['f1_macro'] == pytest.approx(np.mean(2 * np.divide(right, total)), abs=1e-5)
    assert evaluated['exact_match'] == pytest.approx(np.mean([a == b for a, b in zip(truth, found)]), abs=1e-5)
    assert run(*flags, '--schedule=export')[0] == 0
    (export,) = (tmp_path / 'output' / 'export').iterdir()
    card, form = (json.loads((export / 'assets.extra' / name).read_text()) for name in ('model_card.json', 'form.json'))
    assert card['targets'] == [{'name': name} for name in ('even', 'large', 'loop')] and form['task'] == 'multilabel'
    one = api.load(tmp_path / 'output').predict(f'{tmp_path}/digits/eval/00000.png')
    assert one['predicted'].tolist() == [int(name in lines[0]['predicted']) for name in ('even', 'large', 'loop')]
    assert run(*flags, '--schedule=report')[0] == 0
    page = (tmp_path / 'output' / 'report.html').read_text()
    assert all(f'<h3>{name}</h3>' in page for name in ('even', 'large', 'loop')) and 'for a single target only' in page
    assert run(*flags, '--schedule=predict', f'--visualize={tmp_path}/sheet.png')[0] == 0
