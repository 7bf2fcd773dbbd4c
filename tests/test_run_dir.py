"""An output_dir is claimed, or refused with its name."""

import json

import pytest
import tensorflow.compat.v1 as tf

from common import files, run_dir
from common.errors import UsageError


def test_claim_makes_the_directory_and_leaves_nothing_in_it(tmp_path):
    run_dir.claim(str(tmp_path / 'a' / 'b'))
    assert list((tmp_path / 'a' / 'b').iterdir()) == []


def test_claim_refuses_a_file(tmp_path):
    (tmp_path / 'file').write_text('x')
    for path in (tmp_path / 'file', tmp_path / 'file' / 'below'):
        with pytest.raises(UsageError, match=f'--output_dir={path}: cannot be written'):
            run_dir.claim(str(path))


def test_a_directory_without_a_checkpoint_is_named(tmp_path):
    with pytest.raises(UsageError, match=f'--output_dir={tmp_path}: no checkpoint there'):
        run_dir.require_checkpoint(str(tmp_path))
    with tf.Graph().as_default(), tf.Session() as session:
        tf.get_variable('w', initializer=1.0)
        session.run(tf.global_variables_initializer())
        tf.train.Saver().save(session, str(tmp_path / 'model.ckpt'), global_step=3)
    run_dir.require_checkpoint(str(tmp_path))


def test_results_replace_the_last_ones_whole(tmp_path):
    for step in (1, 2):
        run_dir.save_results(str(tmp_path), {'global_step': step})
    assert json.loads((tmp_path / 'results.json').read_text()) == {'global_step': 2}
    assert [path.name for path in tmp_path.iterdir()] == ['results.json']


def test_a_file_that_is_being_replaced_stays_until_the_new_one_is_whole(tmp_path):
    path = tmp_path / 'file'
    path.write_text('old')
    with pytest.raises(RuntimeError):
        with files.replacing(str(path)) as part:
            with open(part, 'w') as file:
                file.write('new')
            raise RuntimeError
    assert path.read_text() == 'old'
    assert [path.name for path in tmp_path.iterdir()] == ['file']
