"""--schedule=verify proves how a run was made: what was edited, replaced or trained otherwise is named."""

import contextlib
import hashlib
import json
import shutil
import sys
import types

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from estimator_trainer.common.commands import api, verify
from estimator_trainer.common.files import sha256_of
from estimator_trainer.common.replay import proof
from estimator_trainer.common.storage import provenance
from estimator_trainer.datasets import mnist
from tests.shared import failed, refused

MODULE = """
import numpy as np
import tensorflow.compat.v1 as tf

from . import sizes


def get_params():
    return {'batch_size': 4, 'eval_batch_size': 4, 'learning_rate': 0.1, 'own_random': False}


def prepare(data_dir, params):
    pass


def read(split, data_dir, params):
    return tf.data.Dataset.from_tensor_slices({'x': np.eye(12, 3, dtype=np.float32), 'y': np.arange(12, dtype=np.float32)})


def parse(mode, params, record):
    return {'x': record['x']}, {'y': record['y']}


def model(features, labels, mode, params):
    y = sizes.SCALE * tf.layers.dense(features['x'], 1)[:, 0]
    if params.own_random and mode == tf.estimator.ModeKeys.TRAIN:
        y += tf.random.uniform(tf.shape(y))
    return {'y': y}, None if labels is None else tf.square(y - labels['y'])
"""


@pytest.fixture(scope='module')
def _project(tmp_path_factory):
    """A folder with a module of its own, and a run of it: 8 steps, then with another learning rate to 12."""
    folder = tmp_path_factory.mktemp('project')
    package = folder / 'proven'
    package.mkdir()
    (package / 'module.py').write_text(MODULE)
    (package / 'sizes.py').write_text('SCALE = 1.0\n')
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(folder))
        output = str(folder / 'output')
        options = {'save_checkpoints_steps': 4, 'keep_checkpoint_max': 3, 'data_dir': str(folder / 'data'), 'eval_steps': 1}
        api.train('proven.module', 'proven.module', output, train_steps=8, **options)
        options['override_hparams'] = {'learning_rate': 0.05}
        api.train('proven.module', 'proven.module', output, train_steps=12, **options)
        api.load(output).export()
        yield folder
        for name in [name for name in sys.modules if name.startswith('proven')]:
            del sys.modules[name]


@pytest.fixture
def output(_project, tmp_path):
    """A copy of the run."""
    return shutil.copytree(_project / 'output', tmp_path / 'copy')


def _verify(output, *arguments, **options):
    return api.load(str(output)).verify(*arguments, **options)


def _edit_weight(path):
    """Adds 0.5 to a weight of a checkpoint."""
    reader = tf.train.load_checkpoint(path)
    with tf.Graph().as_default(), tf.Session() as session:
        variables = []
        for name, dtype in reader.get_variable_to_dtype_map().items():
            value = reader.get_tensor(name) + (0.5 if name == 'dense/bias' else 0)
            variables.append(tf.get_variable(name, initializer=tf.constant(value, dtype), use_resource=False))
        session.run(tf.global_variables_initializer())
        tf.train.Saver(variables).save(session, path, write_meta_graph=False, write_state=False)


def _forge(output, edit):
    """Edits the lines of provenance.jsonl, and makes a new chain of them, as who controls all files can."""
    entries = [edit(entry) for entry in provenance.read(str(output))]
    (output / 'provenance.jsonl').unlink()
    names: dict[str, str] = {}
    for entry in entries:
        old = entry.pop('digest')
        entry['made_by'] = names.get(entry['made_by'], '') if isinstance(entry['made_by'], str) else entry['made_by']
        names[old] = provenance.append(str(output), entry)['digest']


def test_what_was_trained_as_recorded_is_equal_from_the_initialization_on_across_a_resume(output):
    found = _verify(output, 'all')
    lines = [json.loads(line) for line in (output / 'provenance.jsonl').read_text().splitlines()]
    assert [(line['kind'], line['step']) for line in lines] == [
        *[('start', 0), ('checkpoint', 0), ('checkpoint', 4), ('checkpoint', 8)],
        *[('resume', 8), ('checkpoint', 12)],
    ]
    assert lines[4]['overridden'] == ['learning_rate'] and lines[5]['made_by'] == lines[4]['digest']
    assert {'proven.module', 'proven.sizes', 'estimator_trainer'} <= lines[0]['made_by']['code'].keys()
    assert [line['made_by']['hparams']['learning_rate'] for line in (lines[0], lines[4])] == [0.1, 0.05]
    assert (found['run'], found['last_line'], found['lines']) == (lines[0]['digest'], lines[-1]['digest'], 6)
    assert found['checkpoints'] == [4, 8, 12]
    assert found['intervals'] == [
        {'steps': steps, 'text': 'equal', 'largest_difference': 0.0} for steps in ([0, 4], [4, 8], [8, 12])
    ]


def test_only_steps_with_parameter_servers_are_not_computed_again(output, tmp_path, caplog):
    flags = json.loads((output / 'flags.json').read_text())
    (output / 'flags.json').write_text(json.dumps({**flags, 'asynchronous': 8}))
    assert [interval['steps'] for interval in _verify(output, 'all')['intervals']] == [[0, 4], [4, 8]]
    message = 'The steps after 8 are not trained again: since step 8 they had parameter servers, which keep no order.'
    assert message in caplog.text
    run = api.load(str(output))
    assert run.replay(8, str(tmp_path / 'replay'))['step'] == 8
    message = 'after step 8 it was trained with parameter servers, which keep no order of the updates'
    assert message in refused(run.replay, 9, str(tmp_path / 'replay'))
    (output / 'flags.json').write_text(json.dumps({**flags, 'asynchronous': 3}))
    assert message.replace('8', '3') in refused(_verify, output)


def test_the_command_prints_what_is_proven_and_writes_nothing(run, output, data_dir):
    before = {path: path.read_bytes() for path in output.rglob('*') if path.is_file()}
    code, text, _ = run('--schedule=verify', '--intervals=1', output_dir=output)
    lines = text.splitlines()
    assert code == 0 and lines[1] == 'checkpoints 4, 8, 12: as recorded'
    assert lines[2:] in [[f'steps {steps}: equal'] for steps in ('0-4', '4-8', '8-12')]
    assert {path: path.read_bytes() for path in output.rglob('*') if path.is_file()} == before


def test_an_edited_weight_is_noticed_even_if_the_chain_is_made_anew(output):
    path = str(output / 'model.ckpt-8')
    _edit_weight(path)
    assert f'{path}: is not the checkpoint that was recorded' in failed(_verify, output)
    digest = provenance.tensors_digest(path)
    _forge(output, lambda entry: {**entry, 'tensors': digest} if entry['step'] == 8 else entry)
    message = failed(_verify, output, 'all')
    assert message.startswith(f'{path}: differs from what training steps 4-8 again gives: dense/bias by 0.5: nothing'), message[
        -400:
    ]


@pytest.mark.parametrize(
    'spoil, error, message',
    [
        (lambda output: (output / 'provenance.jsonl').unlink(), refused, 'is missing: the run is of an older version'),
        (
            lambda output: (output / 'provenance.jsonl').write_text((output / 'provenance.jsonl').read_text()[1:]),
            failed,
            'line 1 was changed',
        ),
        (
            lambda output: _cut(output / 'provenance.jsonl'),
            failed,
            'model.ckpt-12: has no line in',
        ),
        (lambda output: shutil.rmtree(output), refused, 'contains no checkpoint'),
    ],
)
def test_what_cannot_be_verified_is_refused_in_a_line(output, spoil, error, message):
    found = api.load(str(output))
    spoil(output)
    assert message in error(found.verify)


def _cut(path):
    path.write_text(''.join(path.read_text().splitlines(keepends=True)[:-1]))


def test_a_changed_module_is_named(output, _project, monkeypatch):
    path = _project / 'proven' / 'sizes.py'
    content = path.read_text()
    try:
        path.write_text('SCALE = 1.0  # A comment.\n')
        assert 'equal, although the code of proven.sizes has changed' in _verify(output, 1)['intervals'][0]['text']
        monkeypatch.setattr(sys.modules['proven.sizes'], 'SCALE', 2.0)
        message = failed(_verify, output)
        assert 'since this was trained, the code of proven.sizes has changed' in message and 'and 3 more' in message
    finally:
        path.write_text(content)


def test_only_rounding_gets_a_tolerance(output):
    def of_another_processor(entry):
        if isinstance(entry['made_by'], dict):
            entry['made_by']['processor'] = 'another'
        return entry

    _forge(output, of_another_processor)
    assert 'equal, although the processor was "another"' in _verify(output, 1)['intervals'][0]['text']
    then, now = (
        {'hparams': {}, 'flags': {}, 'data': None, 'code': {}, 'versions': {}, 'cores': 2, 'gpus': [], 'tasks': 1} for _ in 'ab'
    )
    then['processor'], now['processor'] = 'A', 'B'
    differing = [proof.Difference('w', 0.003, 0.0009), proof.Difference('b', 0.5, 0.0001)]
    text, largest = verify._judge('model.ckpt-4', (0, 4), differing, [(then, now)])
    assert text.startswith('equal within 0.001 of the largest value of each variable, not to the bit (w by 0.003, b by 0.5): ')
    assert text.endswith('the processor was "A", now it is "B"') and largest == 0.5
    differing[0] = proof.Difference('w', 0.004, 0.0011)
    message = (
        'model.ckpt-4: differs from what training steps 0-4 again gives: w by 0.004, b by 0.5: since this was trained, the'
    )
    assert message in failed(verify._judge, 'model.ckpt-4', (0, 4), differing, [(then, now)])
    differing = [proof.Difference('w', 1e-9, 1e-9)]
    assert 'the code of own has changed' in failed(
        verify._judge, 'c', (0, 4), differing, [({**then, 'code': {'own': 'x'}}, {**now, 'code': {'own': 'y'}})]
    )


def test_a_model_with_random_numbers_of_its_own_differs_and_a_warning_names_its_op(_project, tmp_path, caplog):
    output, own = str(tmp_path / 'run'), 'proven.module'
    options = {'save_checkpoints_steps': 4, 'data_dir': str(tmp_path / 'data'), 'schedule': 'train'}
    run = api.train(own, own, output, hparams={'own_random': True}, train_steps=8, **options)
    caplog.clear()
    assert 'unless the model draws its own random numbers' in failed(run.verify)
    assert 'draws other numbers after a restart' in caplog.text


def test_a_checkpoint_without_its_line_gets_it_at_the_resume_with_a_mark(output):
    path = output / 'provenance.jsonl'
    lines = path.read_text().splitlines(keepends=True)
    path.write_text(''.join(lines[:-1]) + lines[-1][:40])
    api.train('proven.module', 'proven.module', str(output), train_steps=14, data_dir=str(output.parent / 'data'))
    found = [json.loads(line) for line in path.read_text().splitlines()]
    assert found[5]['completed'] and found[5]['tensors'] == json.loads(lines[-1])['tensors']
    assert [(line['kind'], line['step']) for line in found[5:]] == [('checkpoint', 12), ('resume', 12), ('checkpoint', 14)]
    assert _verify(output)['checkpoints'] == [8, 12, 14]


def test_an_export_names_its_step_and_an_edit_is_noticed(output, tmp_path):
    export = str(output / 'export')
    text = _verify(output, export=export)['text']
    assert 'comes from step 12 of the run' in text and f'its weights are those of {output}/model.ckpt-12' in text
    (version,) = [path for path in (output / 'export').iterdir() if path.name.isdecimal()]
    card = version / 'assets.extra' / 'model_card.json'
    quoted = json.loads(card.read_text())
    assert quoted['provenance']['run'] in (version / 'assets.extra' / 'model_card.md').read_text()

    def with_card(**changed):
        card.write_text(json.dumps({**quoted, **changed}))
        return failed(_verify, output, export=export)

    assert 'its model card was edited' in with_card(global_step=8)
    assert 'saved_model.pb: is not in the model card' in with_card(provenance={**quoted['provenance'], 'files': {}})
    assert 'does not come from the run' in with_card(provenance={**quoted['provenance'], 'last_line': 'f' * 64})
    (added := version / 'saved_model.pbtxt').touch()
    assert 'saved_model.pbtxt: is not in the model card' in with_card()
    added.unlink()
    _edit_weight(str(version / 'variables' / 'variables'))
    assert 'variables/variables.data-00000-of-00001: was edited' in with_card()
    files = {name: sha256_of(str(version / name)) for name in quoted['provenance']['files']}
    assert 'its weights differ from those of' in with_card(provenance={**quoted['provenance'], 'files': files})
    card.write_text('{}')
    assert 'does not name its run: an older version made the export, or its run' in refused(_verify, output, export=export)
    assert 'has no model_card.json' in refused(_verify, output, export=str(tmp_path / 'none'))


def test_swapped_data_is_named(run, trained_run, tmp_path, monkeypatch):
    read_idx = mnist.read_idx
    trained_run('alexnet')
    monkeypatch.setattr(mnist, 'read_idx', lambda name: read_idx(name)[:1000])
    mnist.prepare(str(tmp_path / 'other'), mnist.get_params())
    code, result, log = run('--schedule=verify', f'--data_dir={tmp_path / "other"}')
    message = f"the training data, in {tmp_path / 'other' / 'mnist'}, differs from the run's: restore it"
    assert (code, result) == (1, None) and message in log.splitlines()[-1]


def test_the_initialization_counts_if_the_weights_of_a_warm_start_are_the_same(tmp_path):
    path = tmp_path / 'weights.keras'
    path.write_bytes(b'weights')
    start = {'kind': 'start', 'step': 0, 'warm_start': {'from': str(path), 'sha256': hashlib.sha256(b'weights').hexdigest()}}
    record = provenance.Record([start], {}, '')
    assert verify._starts_again(record)
    path.write_bytes(b'others')
    assert not verify._starts_again(record)
    path.unlink()
    assert not verify._starts_again(record)
    assert verify._starts_again(provenance.Record([{'kind': 'start', 'step': 0}], {}, ''))
    assert not verify._starts_again(provenance.Record([{'kind': 'resume', 'step': 0}], {}, ''))


def test_intervals_are_chosen_among_all_and_begin_with_the_initialization():
    found = proof.intervals([4, 8, 12], from_start=True)
    assert found == [(0, 4), (4, 8), (8, 12)] and proof.intervals([4, 8], from_start=False) == [(4, 8)]
    assert proof.choose(found, None) == proof.choose(found, 3) == found
    assert {interval for _ in range(200) for interval in proof.choose(found, 1)} == {*found}


def _save(path, **values):
    with tf.Graph().as_default(), tf.Session() as session:
        variables = [tf.get_variable(key, initializer=value) for key, value in values.items()]
        session.run(tf.global_variables_initializer())
        return tf.train.Saver(variables).save(session, str(path))


def test_differences_are_sorted_by_their_part_of_the_largest_value(tmp_path):
    first = _save(tmp_path / 'first', a=np.float32([1, 2]), b=np.float32([100, 0]), c=np.int64(3), d=np.float32(1))
    second = _save(tmp_path / 'second', a=np.float32([1, 2.5]), b=np.float32([101, 0]), c=np.int64(3), e=np.float32(1))
    found = proof.compare(first, second)
    assert [item.name for item in found] == ['d', 'e', 'a', 'b']
    assert found[2].largest == 0.5 and found[2].relative == 0.25 and found[3].relative == pytest.approx(0.01)
    assert proof.describe(found) == 'd by inf, e by inf, a by 0.5 and 1 more'
    assert proof.compare(first, first) == [] and [item.name for item in proof.compare(first, second, only_first=True)][0] == 'd'


def test_a_checkpoint_that_a_training_saves_meanwhile_is_left_out(output):
    paths = proof.checkpoint_paths(str(output))
    entries = provenance.read(str(output))
    shutil.copy(output / 'model.ckpt-12.index', output / 'model.ckpt-16.index')
    provenance.append(str(output), {'kind': 'checkpoint', 'step': 16, 'tensors': 'x', 'made_by': entries[-1]['made_by']})
    record = provenance.record_of(provenance.read(str(output)))
    assert [*proof.kept(str(output), paths, record)] == [4, 8, 12]


def test_a_checkpoint_from_which_the_run_went_back_as_it_was_damaged_is_left_out(output, caplog):
    entries = provenance.read(str(output))
    (output / 'model.ckpt-12.index').write_bytes(b'')
    line = next(entry for entry in entries if entry['kind'] == 'checkpoint' and entry['step'] == 8)
    provenance.append(str(output), {'kind': 'resume', 'step': 8, 'tensors': line['tensors'], 'made_by': entries[0]['made_by']})
    record = provenance.record_of(provenance.read(str(output)))
    assert [*proof.kept(str(output), proof.checkpoint_paths(str(output)), record)] == [4, 8]
    assert 'model.ckpt-12: is not verified: the run has gone back to an earlier step since.' in caplog.text


def test_a_nan_and_another_integer_are_never_taken_for_a_rounded_sum(tmp_path):
    first = _save(
        tmp_path / 'first', a=np.float32([1, np.nan]), b=np.int64(10**6), c=np.float32(np.nan), d=np.float32([1e9, 0])
    )
    second = _save(
        tmp_path / 'second', a=np.float32([2, np.nan]), b=np.int64(10**6 + 1), c=np.float32(np.nan), d=np.float32([1e9, np.inf])
    )
    found = {item.name: (item.largest, item.relative) for item in proof.compare(first, second)}
    assert found == {'a': (np.inf, np.inf), 'b': (1, np.inf), 'd': (np.inf, np.inf)}


def test_an_input_that_goes_on_otherwise_is_named_and_one_without_state_is_said(tmp_path, monkeypatch, caplog):
    record = types.SimpleNamespace(checkpoints={4: {'input': 'digest'}, 8: {}})
    directories = [tmp_path / 'run', tmp_path / 'again']
    opened = contextlib.nullcontext(
        types.SimpleNamespace(train_input_fn=len, estimator=types.SimpleNamespace(config=tf.estimator.RunConfig()))
    )
    verified = types.SimpleNamespace(record=record, output_dir=str(directories[0]))
    again = types.SimpleNamespace(directory=str(directories[1]), opened=lambda: opened)
    verify._compare_input(verified, again, 8)
    assert not caplog.text
    verify._compare_input(verified, again, 4)
    assert 'Step 4: where the input goes on is not compared' in caplog.text
    for directory in directories:
        (directory / 'input_state').mkdir(parents=True)
        (directory / 'input_state/4.input.index').touch()
    monkeypatch.setattr(verify.input_state, 'are_equal', lambda *arguments: True)
    verify._compare_input(verified, again, 4)
    monkeypatch.setattr(verify.input_state, 'are_equal', lambda *arguments: False)
    message = failed(verify._compare_input, verified, again, 4)
    assert message.startswith(f'{directories[0]}/input_state/4.input: is not where the input comes to')
