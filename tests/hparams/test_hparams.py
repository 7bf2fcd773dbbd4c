"""Hyper-parameters: layers, types, sets, saving, comparison, changes on resuming, history."""

import copy
import json

import pytest

from estimator_trainer.common.errors import UsageError
from estimator_trainer.hparams import build, comparison, overrides
from estimator_trainer.hparams.defaults import DEFAULTS
from estimator_trainer.hparams.sets import set_path


def make(text='', model=None, dataset=None, set_name='', **flags):
    return build.make_hparams('m', model or {}, 'd', dataset or {}, set_name, text, **flags)


def write_set(tmp_path, values):
    path = tmp_path / 'set.json'
    path.write_text(json.dumps(values))
    return str(path)


def test_later_layers_of_hparams_win_and_their_epochs_over_steps(tmp_path):
    layers = dict(model={'train_steps': 1}, dataset={'train_steps': 2}, set_name=write_set(tmp_path, {'train_steps': 3}))
    found = [make(**dict([*layers.items()][:count])).train_steps for count in range(4)]
    assert found == [DEFAULTS['train_steps'], 1, 2, 3]
    assert make('train_steps=5', **layers, train_steps=None).train_steps == 5
    assert make('train_steps=5', **layers, train_steps=6).train_steps == 6
    model = {'train_steps': 100}
    assert make('num_epochs=2', model=model).train_steps == 0
    assert make('num_epochs=2,train_steps=7', model=model).train_steps == 7
    assert make(model=model, num_epochs=2.0).train_steps == 0
    assert make(model=model, num_epochs=2.0, train_steps=9).train_steps == 9
    least = write_set(tmp_path, {'num_epochs': 40, 'min_steps': 100})
    assert [make(text, set_name=least).min_steps for text in ('', 'num_epochs=2', 'num_epochs=2,min_steps=7')] == [100, 0, 7]


def test_the_values_of_a_run_come_before_the_set_that_is_given_and_in_place_of_the_default_one(tmp_path):
    saved = {'model': 'm', 'dataset': 'd', 'batch_size': 7, 'momentum': 0.5, 'train_steps': 4, 'num_epochs': 2.0, 'gone': 1}
    params = make('learning_rate=0.25', set_name=write_set(tmp_path, {'batch_size': 9}), saved=saved, num_epochs=3.0)
    assert (params.batch_size, params.momentum, params.learning_rate, params.train_steps) == (9, 0.5, 0.25, 0)
    assert make(saved=saved).train_steps == 4 and 'gone' not in make(saved=saved)
    run = build.make_hparams('alexnet', {}, 'mnist', {}, saved={'learning_rate': 0.125})
    assert run.learning_rate == 0.125 and run.batch_size == DEFAULTS['batch_size'] and build.find_set('alexnet', 'mnist', '')


def test_the_ways_to_go_on_with_other_values_are_told():
    saved, params = make(), make('learning_rate=0.5,class_weights={a:2}')
    omit = "omit what differs to go on with the run's own, or "
    ways = omit + 'change the run from here on, with --override_hparams={}, or start over'
    for names, values in ((['learning_rate'], 'learning_rate=0.5'), (['batch_size', 'seed'], '')):
        advice = overrides.advise((), saved, params, names)
        expected = ways.format(values) if values else f'{omit}start over'
        assert advice.startswith(expected) and advice.endswith(' with --overwrite, or choose another --output_dir')
    assert '--override_hparams=depth=2,' in overrides.advise(['depth'], {'depth': 1}, {'depth': 2}, ['depth'])
    assert '=names=[a,b], or' in overrides.advise(['names'], {'names': []}, {'names': ('a', 'b')}, ['names'])
    new = "omit what differs to go on with the run's own values, or the defaults of what is new, or start over"
    assert overrides.advise((), {}, {'depth': 2}, ['depth']).startswith(new)
    assert overrides.advise((), {'depth': 2}, {}, ['depth']).startswith('restore the code, or start over')


def test_text_of_hparams_is_read_as_the_type_of_the_default():
    model = {'an_int': 1, 'a_float': 1.0, 'a_bool': False, 'a_text': 'x', 'ints': [1], 'floats': [1.0], 'texts': ['x']}
    params = make('an_int=-3,a_float=2,a_bool=true,a_text=a b=c,ints=[1, 2,3],floats=[1,2.5e-3],texts=[a,b]', model=model)
    assert (params.an_int, params.a_float, params.a_bool, params.a_text) == (-3, 2.0, True, 'a b=c')
    assert type(params.a_float) is float
    assert (params.ints, params.floats, params.texts) == ((1, 2, 3), (1.0, 0.0025), ('a', 'b'))
    assert make('ints=[]', model=model).ints == ()
    assert make(model=model, dataset={'floats': [2]}).floats == (2,)
    assert make('augment_crop=1,augment_rotate=180,label_smoothing=0.9,warmup_fraction=1').augment_crop == 1
    assert make('texts=[a[12]:1,b[3,4]],an_int=5', model=model).texts == ('a[12]:1', 'b[3,4]')


WEIGHTS = [  # Text; the weights.
    ('class_weights={cat:2,dog:0.5}', {'cat': 2, 'dog': 0.5}),
    ('class_weights={"cat":2, "dog":0.5}', {'cat': 2, 'dog': 0.5}),
    ('class_weights={ a b : 2 }', {'a b': 2}),
    ('class_weights={a:b:2}', {'a:b': 2}),
    ('class_weights={"a,b}":2}', {'a,b}': 2}),
    ('class_weights={0:2,1:1}', {'0': 2, '1': 1}),
    ('class_weights=balanced', 'balanced'),
    ('class_weights={}', {}),
    ('class_weights=[1,2]', (1, 2)),
]


@pytest.mark.parametrize('text, weights', WEIGHTS)
def test_weights_of_classes_are_a_list_or_have_names(text, weights, tmp_path):
    params = make(f'{text},seed_of_data=3', dataset={'seed_of_data': 1})
    assert (params.class_weights, params.seed_of_data) == (weights, 3)
    build.save(params, str(tmp_path / 'hparams.json'))
    assert comparison.compare(params, str(tmp_path / 'hparams.json')).class_weights == weights
    assert make(set_name=write_set(tmp_path, {'class_weights': weights})).class_weights == weights
    assert build.add_overrides(make(), text)[0].class_weights == weights


def test_a_list_keeps_the_type_of_its_default_whatever_is_given_before(tmp_path):
    emptied = write_set(tmp_path, {'piecewise_boundaries': [], 'piecewise_factors': []})
    params = make('piecewise_boundaries=[100],piecewise_factors=[0.5]', None, None, emptied)
    assert (params.piecewise_boundaries, params.piecewise_factors) == ((100,), (0.5,))
    params = make(dataset={'rates': [0.5]}, given={'piecewise_factors': [1, 0.1], 'rates': [1, 2]})
    for name in ('piecewise_factors', 'rates'):
        assert [*map(type, params[name])] == [float] * 2
        assert build.add_overrides(params, f'{name}=[0.5,0.1]')[0][name] == (0.5, 0.1)


def test_a_large_integer_from_a_program_is_a_number_where_numbers_need_not_be_whole():
    assert make(dataset={'scale': 1.0}, given={'scale': 3 * 10**9}).scale == 3e9
    with pytest.raises(UsageError, match='^--hparams: scale=.* must be between -3.4e[+]38 and 3.4e[+]38$'):
        make(dataset={'scale': 1.0}, given={'scale': 10**39})


def test_braces_in_other_values_are_text():
    params = make('path=a{b,number=3,texts=[a{2}:x,b]', dataset={'path': '', 'number': 1, 'texts': ['x']})
    assert (params.path, params.number, params.texts) == ('a{b', 3, ('a{2}:x', 'b'))


def test_a_tilde_in_a_path_is_the_home_directory_in_all_layers_and_in_saved_ones(tmp_path, monkeypatch):
    monkeypatch.setenv('HOME', '/home/me')
    dataset = dict.fromkeys(['csv_file', 'image_dir', 'schema', 'my_path', 'tilde'], '')
    params = make('schema=~/s.json,tilde=~/x', {'raw_dir': '~'}, dataset, write_set(tmp_path, {'csv_file': '~/a.csv'}))
    assert (params.csv_file, params.schema, params.raw_dir) == ('/home/me/a.csv', '/home/me/s.json', '/home/me')
    assert (params.tilde, params.image_dir) == ('~/x', '')
    assert make('image_dir=gs://b/~', dataset=dataset).image_dir == 'gs://b/~'
    assert make(dataset=dataset, given={'my_path': '~/x'}).my_path == '/home/me/x'
    build.save({**params, 'csv_file': '~/a.csv'}, str(tmp_path / 'hparams.json'))  # As older versions did.
    assert comparison.compare(params, str(tmp_path / 'hparams.json')).csv_file == '/home/me/a.csv'


def test_a_set_may_begin_with_the_mark_of_an_editor(tmp_path):
    (tmp_path / 'set.json').write_bytes(b'\xef\xbb\xbf{"batch_size": 7}')
    assert make(set_name=str(tmp_path / 'set.json')).batch_size == 7


MUST_BE = [
    ('batch_size=1_0', 'an integer'),
    ('batch_size=0', 'at least 1'),
    ('batch_size=2147483648', 'between -2147483647 and 2147483647'),
]
MUST_BE += [('learning_rate=nan', 'a number'), ('learning_rate=-1.0', 'at least 0'), ('cache=1', 'true or false')]
MUST_BE += [(f'{name}=1.0', 'less than 1') for name in ('ema_decay', 'adam_beta1', 'adam_beta2', 'label_smoothing')]
MUST_BE += [(f'{name}=1.5', 'at most 1') for name in ('warmup_fraction', 'initial_lr_factor', 'augment_crop', 'augment_color')]
MUST_BE += [(f'{name}=0.0', 'more than 0') for name in ('adagrad_initial_accumulator', 'augment_crop')]
MUST_BE += [
    (f'class_weights={text}', 'a list such as [1.0], or {name: number}, or balanced')
    for text in ('{cat}', '{cat:x}', '{cat:1,cat:2}', '{:1}')
]
MUST_BE += [
    ('class_weights={cat:-1.0}', 'at least 0'),
    ('class_weights=cat', 'a list such as [1.0], or {name: number}, or balanced'),
]
MUST_BE += [('augment_rotate=181.0', 'at most 180'), ('learning_rate=1e+39', 'between -3.4e+38 and 3.4e+38')]
MUST_BE += [('adam_beta2=0.99999999', 'less than 1')]
MUST_BE += [(text, 'a list such as [1]') for text in ('filters=3', 'filters=[1,x]')]
MISTAKES = [
    ('batch_sise=1', 'unknown hyper-parameter batch_sise, did you mean batch_size?'),
    ('=3', "'=3' is not of the form name=value"),
    ('batch_size=1,x', "'x' is not of the form name=value: a value with a comma can be given in a JSON file, with --"),
    ('batch_size=1,batch_size=2', 'batch_size is given twice'),
    ('learning_rate=1e-400', 'learning_rate: 1e-400 would become 0'),
    ('gradient_clip_norm=1e-46', 'gradient_clip_norm=1e-46 would be 0 in float32'),
    ('seed=3', 'seed has its own flag, --seed'),
    ('piecewise_factors=[0.5,-1]', 'piecewise_factors=[0.5, -1.0] must be at least 0'),
]


@pytest.mark.parametrize('text, message', [*((text, f'{text} must be {what}') for text, what in MUST_BE), *MISTAKES])
def test_a_mistake_in_hparams_is_named_with_its_key(text, message):
    with pytest.raises(UsageError) as error:
        make(text, model={'filters': [1]})
    found = str(error.value)
    assert message in found and found.startswith(('--hparams: ', 'learning_rate: ')) and '\n' not in found


MISTAKES_IN_SETS = {
    '{"batch_sise": 1}': 'did you mean batch_size?',
    '{"batch_size": "64"}': 'batch_size=64 must be an integer',
    '{"seed": -5}': 'seed=-5 must be at least 0',
    '{"seed": 5, "cache": true, "seed": 6}': "set.json: 'seed' is given twice",
    '{"batch_size": true}': 'batch_size=True must be an integer',
    '{"learning_rate": 1e-400}': 'set.json: 1e-400 would become 0',
    '{"learning_rate": null}': 'learning_rate=None must be a number',
    '{"learning_rate": 1%s}' % ('0' * 400): 'must be a number',
    '{"model": "other"}': 'is for --model=other, not m',
    '\udce4': 'is not JSON',
    '[]': 'must contain one JSON object',
}


@pytest.mark.parametrize('content', MISTAKES_IN_SETS)
def test_a_mistake_in_a_set_is_named_with_its_file(tmp_path, content):
    path = tmp_path / 'set.json'
    path.write_bytes(content.encode(errors='surrogateescape'))
    with pytest.raises(UsageError) as error:
        make(set_name=str(path))
    assert MISTAKES_IN_SETS[content] in str(error.value) and str(path) in str(error.value)


@pytest.mark.parametrize('value', [None, ((1, 2), (3, 4)), [1, 'x'], {'a': 1}, 1j])
def test_a_module_with_odd_defaults_is_named(value):
    with pytest.raises(UsageError, match=r'--dataset=d: get_params\(\) gives odd='):
        make(dataset={'odd': value})
    with pytest.raises(UsageError, match='--model=m: batch_size=.* must be an integer'):
        make(model={'batch_size': 'many'})


def test_the_set_of_model_and_dataset_is_the_default_and_a_missing_one_lists_all():
    with pytest.raises(UsageError, match='--hparams_set=nosuch: no file .*; the sets are: .*alexnet_mnist'):
        make(set_name='nosuch')
    params = build.make_hparams('alexnet', {}, 'mnist', {})
    with open(set_path('alexnet_mnist')) as file:
        assert params.learning_rate == json.load(file)['learning_rate'] != DEFAULTS['learning_rate']


def test_metadata_sets_hyper_parameters_that_have_no_value_yet():
    params = make(dataset={'num_classes': 0, 'names': ['']}, text='names=[]')
    found = build.add_metadata(params, {'num_classes': 2, 'names': ['a', 'b'], 'class_names': ['x', 'y']})
    assert (found.num_classes, found.names, found.metadata['class_names']) == (2, ('a', 'b'), ['x', 'y'])
    assert build.add_metadata(found, {'num_classes': 2, 'names': ['a', 'b']}) == found
    of_program = build.HParams({**make(), 'missing': [-999, 'x']})
    assert build.add_metadata(of_program, {'missing': [-999, 'x']}).missing == (-999, 'x')
    with pytest.raises(UsageError, match='--dataset=d: the data has num_classes=2, not 3: omit num_classes'):
        build.add_metadata(make('num_classes=3', dataset={'num_classes': 0}), {'num_classes': 2})
    with pytest.raises(UsageError, match='has task=tagging, not classification: omit task, or choose a --model for it'):
        build.add_metadata(make(dataset={'task': 'classification'}), {'task': 'tagging'})


def test_params_are_read_only_and_by_attribute_or_key():
    params = make()
    assert params['batch_size'] == params.batch_size and dict(params)['model'] == 'm' and copy.deepcopy(params) == params
    with pytest.raises(AttributeError):
        params.batch_size = 1
    for read_only in (params, DEFAULTS):
        with pytest.raises(TypeError):
            read_only['batch_size'] = 1


def test_saved_hparams_are_a_set_that_gives_equal_ones(tmp_path):
    path = str(tmp_path / 'hparams.json')
    with pytest.raises(UsageError, match='hparams.json: cannot be read.*; choose another --output_dir'):
        comparison.compare(make(), path)
    model = {'filters': [1, 2], 'name': 'x'}
    params = make('filters=[3],learning_rate=0.1,name=y', model=model, seed=5)
    build.save(params, path)
    assert make(set_name=path, model=model) == params
    comparison.compare(params, path)


def test_compare_names_each_differing_key_except_the_length_of_the_run(tmp_path):
    path = str(tmp_path / 'hparams.json')
    build.save(make(model={'filters': [1, 2], 'old': 1}), path)
    with pytest.raises(UsageError) as error:
        comparison.compare(make('learning_rate=0.5', model={'filters': [1], 'new': 'x'}), path)
    changes = ['filters was [1, 2], now it is [1]', 'learning_rate was 0.001, now it is 0.5']
    for part in (*changes, 'old was 1, now it is absent', 'new was absent, now it is "x"'):
        assert part in str(error.value)
    assert 'batch_size' not in str(error.value)
    build.save(make(), path)
    comparison.compare(make('train_steps=5,num_epochs=7,min_steps=9'), path)
    assert comparison.compare(make('batch_size=5'), path, free=['batch_size']) == make()
    build.save({key: value for key, value in make().items() if key != 'ema_decay'}, path)  # As of an older version.
    comparison.compare(make(), path)
    comparison.compare(make(model={'decimal': '', 'missing': []}), path)  # Of a dataset that gained them.
    with pytest.raises(UsageError, match='decimal was "", now it is "comma"'):
        comparison.compare(make(model={'decimal': 'comma'}), path)
    with pytest.raises(UsageError, match='ema_decay was .*, now it is 0.5'):
        comparison.compare(make('ema_decay=0.5'), path)


def test_what_changed_code_has_gained_or_lost_does_not_differ_unless_it_is_given(tmp_path):
    path = str(tmp_path / 'hparams.json')
    saved = make(model={'filters': 1, 'old': 1})
    build.save(saved, path)
    params = make(model={'filters': 1, 'new': 'x', 'decimal': ''})
    assert comparison.of_changed_code(saved, params, []) == ({'new': 'x'}, {'old': 1})
    assert comparison.of_changed_code(saved, params, ['new']) == ({}, {'old': 1})
    comparison.compare(params, path, given=[])
    for other, given, message in (
        (make('new=y', model={'filters': 1, 'new': 'x'}), ['new'], 'new was absent, now it is "y"'),
        (make(model={'filters': 2, 'new': 'x'}), [], 'filters was 1, now it is 2: '),
        (build.make_hparams('other', {'filters': 1, 'new': 'x'}, 'd', {}), [], 'model was "m", now it is "other": '),
    ):
        with pytest.raises(UsageError) as error:
            comparison.compare(other, path, given=given)
        assert f'hparams.json: {message}' in str(error.value)
    older = {'low_factor': 0.1, **{name: make()[name] for name in ('model', 'dataset', 'seed')}}
    assert comparison.of_changed_code(older, make(), []) == ({}, {})


def test_files_of_older_runs_load_under_the_current_names(tmp_path):
    path = tmp_path / 'hparams.json'
    old = {'warmup_fraction': 'rise_share', 'initial_lr_factor': 'low_factor'}
    build.save({old.get(key, key): value for key, value in make('warmup_fraction=0.5').items()}, str(path))
    assert make(set_name=str(path)).warmup_fraction == 0.5
    comparison.compare(make('warmup_fraction=0.5'), str(path))
    with pytest.raises(UsageError, match='warmup_fraction was 0.5, now it is 0.3'):
        comparison.compare(make(), str(path))
    with pytest.raises(UsageError, match='unknown hyper-parameter rise_share, did you mean warmup_fraction?'):
        make('rise_share=0.5')


def test_a_module_may_define_a_hyper_parameter_of_an_old_name(tmp_path):
    path = write_set(tmp_path, {'max_shift': 5, 'rise_share': 0.5})
    found = make(model={'max_shift': 3}, set_name=path)
    assert (found.max_shift, found.augment_shift, found.warmup_fraction) == (5, 0, 0.5)
    build.save(found, path)
    with pytest.raises(UsageError, match='max_shift was 5, now it is 3'):
        comparison.compare(make('warmup_fraction=0.5', dataset={'max_shift': 3}), path)


PARAMS = build.make_hparams('m', {'depth': 1}, 'd', {})


def change(text, step, history=()):
    """Returns the history after a run with PARAMS has resumed at a step with other values."""
    params, names = build.add_overrides(PARAMS, text)
    return overrides.add_entry(list(history), PARAMS, params, names, step)


MISTAKES_OF_A_RESTART = [
    ('optimizer=sgd', 'a run cannot change optimizer when resuming; it can change batch_size, .*, depth'),
    ('rate=1', 'unknown hyper-parameter rate'),
    ('batch_size', "'batch_size' is not of the form name=value"),
]


@pytest.mark.parametrize('text, message', MISTAKES_OF_A_RESTART)
def test_hyper_parameters_that_must_not_change_on_resuming_are_named(text, message):
    with pytest.raises(UsageError, match=f'^--override_hparams: {message}'):
        overrides.check_names(build.add_overrides(PARAMS, text)[1], ['depth'])
    overrides.check_names(['depth', 'learning_rate', 'batch_size'], ['depth'])


def test_the_history_has_the_changes_and_the_examples_seen(tmp_path):
    assert change('batch_size=128', 5) == []  # The previous value.
    first = change('batch_size=10,depth=2', 4)
    assert first == [{'global_step': 4, 'hparams': {'batch_size': [128, 10], 'depth': [1, 2]}}]
    history = [*first, {'global_step': 6, 'hparams': {'depth': [2, 3]}}, {'global_step': 9, 'hparams': {'batch_size': [10, 3]}}]
    assert overrides.batch_start([]) == (0, 0) and overrides.batch_start(history) == (9, 4 * 128 + 5 * 10)
    assert PARAMS.with_batch_start((9, 562)).examples_at(11) == 562 + 2 * 128
    # The checkpoints of later steps are lost.
    lost = change('depth=5', 6, history)
    assert [entry['global_step'] for entry in lost] == [4, 6, 6, 6] and lost[-1]['hparams'] == {'depth': [1, 5]}
    path = str(tmp_path / 'hparams.json')
    for saved, params in (([], PARAMS), (history, {**PARAMS, 'batch_size': 3, 'depth': 3})):
        overrides.save(params, saved, path)
        assert overrides.read_history(path) == saved and comparison.compare(build.HParams(params), path) == params
    # Names of before, one of which is now another's.
    changes = {'low_factor': [0.2, 0.3]}, {'initial_lr_factor': [0.3, 0.4], 'dropped': [1, 2]}
    renamed = [{'global_step': step, 'hparams': change} for step, change in enumerate(changes)]
    overrides.save({**PARAMS, 'initial_lr_factor': 0.4}, renamed, path)
    assert overrides.read_history(path) == renamed


def test_a_corrupt_history_is_named(tmp_path):
    path = str(tmp_path / 'hparams.json')
    entries = [5, {'global_step': '1', 'hparams': {}}, {'global_step': -1, 'hparams': {}}, {'hparams': {}}]
    for pair in ([1], ['32', 64], [32, None], [-32, 64], [32, 0]):
        entries.append({'global_step': 1, 'hparams': {'batch_size': pair}})
    one, two = ({'global_step': 1, 'hparams': {'batch_size': pair}} for pair in ([32, 64], [16, 128]))
    renamed = [{'global_step': 1, 'hparams': {'low_factor': [0.2, 0.3]}}]  # PARAMS has 0.04.
    unordered = [{'global_step': 2, 'hparams': {}}, {'global_step': 1, 'hparams': {}}]
    for history in (5, [one], [one, two], renamed, unordered, *([entry] for entry in entries)):
        overrides.save(PARAMS, history, path)
        with pytest.raises(UsageError, match='hparams.json: override_history is corrupt: restore the file, or choose another'):
            overrides.read_history(path)
    with pytest.raises(UsageError, match='absent.json: cannot be read.*; choose another --output_dir'):
        overrides.read_history(str(tmp_path / 'absent.json'))
