"""provenance.jsonl: a chain of digests in which nothing can be put in, taken out or changed unnoticed."""

import hashlib
import json

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from estimator_trainer.common.storage import provenance
from tests.shared import failed


def _chain(path, steps=(0, 10, 20)):
    provenance.append(str(path), {'kind': 'start', 'step': 0, 'made_by': {'hparams': {'rate': 0.1}}})
    for step in steps:
        provenance.append(str(path), {'kind': 'checkpoint', 'step': step, 'tensors': f't{step}', 'made_by': 'x'})
    return path / 'provenance.jsonl'


def test_a_line_has_the_sha256_of_itself_and_of_the_line_before(tmp_path):
    lines = [json.loads(line) for line in _chain(tmp_path).read_text().splitlines()]
    before = '0' * 64
    for line in lines:
        digest = line.pop('digest')
        assert line['previous'] == before
        before = hashlib.sha256(json.dumps(line, sort_keys=True, separators=(',', ':')).encode()).hexdigest()
        assert digest == before
    assert [line['kind'] for line in lines] == ['start', *['checkpoint'] * 3]
    assert [line['step'] for line in provenance.read(str(tmp_path))] == [0, 0, 10, 20]


@pytest.mark.parametrize(
    'edit, message',
    [
        (lambda lines: [lines[0], lines[1].replace('"t0"', '"u0"'), *lines[2:]], 'line 2 was changed'),
        (lambda lines: [*lines[:-1], lines[-1].replace('t20', 't21')], 'line 4 was changed'),
        (lambda lines: [lines[0], lines[1].replace(':', ': ', 1), *lines[2:]], 'line 2 was changed'),
        (lambda lines: [lines[0], *lines[2:]], 'line 2 does not follow line 1'),
        (lambda lines: lines[1:], 'the first line was taken out'),
        (lambda lines: [*lines[:2], lines[1], *lines[2:]], 'line 3 does not follow line 2'),
        (lambda lines: [lines[0], lines[2], lines[1], lines[3]], 'line 2 does not follow line 1'),
        (lambda lines: [*lines[:3], 'no JSON', lines[3]], 'line 4 was changed'),
        (lambda lines: [*lines[:3], '[1]', lines[3]], 'line 4 was changed'),
    ],
)
def test_what_was_changed_put_in_or_taken_out_is_named(tmp_path, edit, message):
    path = _chain(tmp_path)
    path.write_text('\n'.join(edit(path.read_text().splitlines())) + '\n')
    assert f'{path}: {message}' in failed(provenance.read, str(tmp_path))


def test_each_changed_byte_is_noticed_but_for_the_last_which_ends_the_last_line(tmp_path):
    content = (path := _chain(tmp_path, [0])).read_bytes()
    for place in range(len(content) - 1):
        path.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
        assert str(path) in failed(provenance.read, str(tmp_path))
    path.write_bytes(content.replace(b'\n', b'\r\n'))
    assert 'line 1 was changed' in failed(provenance.read, str(tmp_path))


def test_a_line_with_a_valid_digest_put_in_is_named(tmp_path):
    path = _chain(tmp_path)
    lines = path.read_text().splitlines()
    entry = {**json.loads(lines[2]), 'tensors': 'forged'}
    entry['digest'] = provenance.digest_of(entry)
    path.write_text('\n'.join([*lines[:2], provenance.canonical(entry), lines[3]]) + '\n')
    assert 'line 4 does not follow line 3' in failed(provenance.read, str(tmp_path))


def test_a_cut_last_line_is_none_and_the_next_takes_its_place(tmp_path):
    path = _chain(tmp_path)
    whole = path.read_bytes()
    path.write_bytes(whole[:-30])
    assert len(provenance.read(str(tmp_path))) == 3
    provenance.append(str(tmp_path), {'kind': 'checkpoint', 'step': 20, 'tensors': 't20', 'made_by': 'x'})
    assert [line['step'] for line in provenance.read(str(tmp_path))] == [0, 0, 10, 20]


def test_the_record_leaves_out_what_going_back_and_starting_over_left_behind(tmp_path):
    _chain(tmp_path)
    add = lambda **entry: provenance.append(str(tmp_path), entry)  # noqa: E731
    add(kind='resume', step=10, tensors='t10', made_by={'b': 1})
    record = provenance.record_of(provenance.read(str(tmp_path)))
    assert sorted(record.checkpoints) == [0, 10] and record.left == {20}
    assert provenance.made_by(record, 5) == {'hparams': {'rate': 0.1}} and provenance.made_by(record, 10) == {'b': 1}
    add(kind='resume', step=0, tensors='t0', made_by={'b': 1})  # As the checkpoint of step 10 is damaged.
    record = provenance.record_of(provenance.read(str(tmp_path)))
    assert sorted(record.checkpoints) == [0] and record.left == {10, 20}
    add(kind='checkpoint', step=10, tensors='t10', made_by='x')
    assert provenance.record_of(provenance.read(str(tmp_path))).left == {20}
    last = add(kind='start', step=0, made_by={'c': 1})
    record = provenance.record_of(provenance.read(str(tmp_path)))
    assert (
        record.checkpoints == {}
        and not record.left
        and provenance.made_by(record, 10) == {'c': 1}
        and record.last == last['digest']
    )
    assert provenance.read(str(tmp_path / 'none')) == [] and provenance.record_of([]).starts == []


def test_the_digest_of_a_checkpoint_is_that_of_its_tensors(tmp_path):
    arrays = {
        'b/w': np.float32([[1, 2], [3, 4]]),
        'a': np.int64(7),
        'c': np.array([b'x', b'yz'], object),
        'd': np.zeros([0, 3], np.float64),
        'e': np.array([True, False]),
    }
    with tf.Graph().as_default(), tf.Session() as session:
        variables = [tf.get_variable(name, initializer=tf.constant(value), dtype=None) for name, value in arrays.items()]
        session.run(tf.global_variables_initializer())
        path = tf.train.Saver(variables).save(session, str(tmp_path / 'model.ckpt'))
    content = b'["a","int64",[]]\n' + np.int64(7).tobytes()
    content += b'["b/w","float32",[2,2]]\n' + np.float32([1, 2, 3, 4]).tobytes()
    content += b'["c","string",[2]]\n1\nx2\nyz' + b'["d","float64",[0,3]]\n' + b'["e","bool",[2]]\n\x01\x00'
    assert provenance.tensors_digest(path) == hashlib.sha256(content).hexdigest()
    assert 'a file of it is missing' in failed(provenance.tensors_digest, str(tmp_path / 'none'))
