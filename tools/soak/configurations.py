"""Command lines and modules with one mistake each, all of which must be rejected with its name.

python -m tools.soak.configurations --times=500 --modules=500
"""

import argparse
import contextlib
import io
import json
import os
import random
import tempfile

import tf_estimator  # noqa: F401 - before TensorFlow

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from estimator_trainer.common.commands import flags as run_flags
from estimator_trainer.common.commands import trainer
from estimator_trainer.hparams.defaults import DEFAULTS, MAXIMUM, TABLE
from tests import own_module
from tools.soak import wrong_modules
from tools.soak.bounded import end_after

FLAGS = run_flags.define()
_POLYNOMIAL = ['--model=polynomial', '--dataset=polynomial']
# Includes invalid UTF-8, as decoded in sys.argv, but not NUL, which arguments cannot contain.
_TEXT = st.text(st.characters(min_codepoint=1, exclude_categories=['Cs']) | st.integers(0xDC80, 0xDCFF).map(chr), max_size=20)
_NAME = st.from_regex(r'[a-z][a-z_]{0,15}', fullmatch=True)
_HPARAMS = {**DEFAULTS, 'num_samples': 1}
_SEQ2SEQ = ('--model=seq2seq', '--dataset=addition', '--schedule=dry_run')
_BOUNDS = {  # Of the models' and datasets' own hyper-parameters, with others that keep them small.
    'num_samples': (10, 10**7, (), ''),
    'num_examples': (20, 10**6, _SEQ2SEQ, ''),
    'max_digits': (1, 1000, _SEQ2SEQ, ''),
    'beam_width': (1, 256, _SEQ2SEQ, ',num_examples=20'),
    'max_target_length': (1, 1000, _SEQ2SEQ, ',num_examples=20'),
    'rnn_units': (1, MAXIMUM, _SEQ2SEQ, ',num_examples=20'),
    'embedding_size': (1, MAXIMUM, _SEQ2SEQ, ',num_examples=20'),
}
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda children: st.lists(children, max_size=3) | st.dictionaries(st.text(max_size=5), children, max_size=3),
)


def _is_number(text, kind):
    try:
        kind(text)
    except ValueError:
        with contextlib.suppress(ValueError):
            int(text, 0)
            return True
        return False
    return True


def _flags(kind):
    return sorted(name for name in FLAGS if FLAGS[name].flag_type() == kind and name not in ('help', 'h'))


def _bounded(side):
    return [name for name in _flags('int') + _flags('float') if getattr(FLAGS[name].parser, side) is not None]


def _hparams(kind):
    return sorted(name for name, value in _HPARAMS.items() if type(value) is kind)


@st.composite
def mistakes(draw):
    """Draws (name required in the message, flags, content of the file set.json or None)."""
    kind = draw(
        st.sampled_from(
            [
                'unknown flag',
                'no number',
                'no whole number',
                'too small',
                'too large',
                'hparam too small',
                'hparam too large',
                'hparam not finite',
                'hparam out of its bounds',
                'no choice',
                'neither true nor false',
                'unknown module',
                'unknown hparam',
                'hparam of a wrong type',
                'no pair',
                'twice',
                'no JSON',
                'no object',
                'unknown key',
                'wrong value',
                'no goal',
            ]
        )
    )
    text = draw(_TEXT)
    if kind == 'unknown flag':
        name = draw(_NAME.filter(lambda name: name not in FLAGS and name.removeprefix('no') not in FLAGS))
        return name, [f'--{name}={text}'], None
    if kind in ('no number', 'no whole number'):
        parse = float if kind == 'no number' else int
        name = draw(st.sampled_from(_flags(parse.__name__)))
        return name, [f'--{name}={draw(_TEXT.filter(lambda text: not _is_number(text, parse)))}'], None
    if kind == 'too small':
        name = draw(st.sampled_from(_bounded('lower_bound')))
        return name, [f'--{name}={FLAGS[name].parser.lower_bound - draw(st.integers(1, 2**40))}'], None
    if kind == 'too large':
        name = draw(st.sampled_from(_bounded('upper_bound')))
        return name, [f'--{name}={FLAGS[name].parser.upper_bound + draw(st.integers(1, 2**80))}'], None
    if kind == 'hparam too small':
        name = draw(st.sampled_from([name for name, entry in TABLE.items() if entry.minimum is not None]))
        return name, [f'--hparams={name}={TABLE[name].minimum - draw(st.integers(1, 2**80))}'], None
    if kind == 'hparam too large':
        name = draw(st.sampled_from(_hparams(int)))
        return name, [f'--hparams={name}={draw(st.sampled_from([1, -1])) * draw(st.integers(MAXIMUM + 1, 10**400))}'], None
    if kind == 'hparam not finite':
        name = draw(st.sampled_from(_hparams(float)))
        return name, [f'--hparams={name}={draw(st.sampled_from(["nan", "inf", "-inf", "1e309", "-1e309"]))}'], None
    if kind == 'hparam out of its bounds':
        name = draw(st.sampled_from(sorted(_BOUNDS)))
        low, high, flags, others = _BOUNDS[name]
        value = draw(st.integers(-MAXIMUM, low - 1) | st.integers(high + 1, max(high + 1, MAXIMUM)))
        return name, [*flags, f'--hparams={name}={value}{others}'], None
    if kind == 'no choice':
        name = draw(st.sampled_from(_flags('string enum')))
        return name, [f'--{name}={draw(_TEXT.filter(lambda text: text not in FLAGS[name].parser.enum_values))}'], None
    if kind == 'neither true nor false':
        name = draw(st.sampled_from(_flags('bool')))
        truths = ('true', 't', '1', 'yes', 'y', 'false', 'f', '0', 'no', 'n')
        return name, [f'--{name}={draw(_TEXT.filter(lambda text: text.lower() not in truths))}'], None
    if kind == 'unknown module':
        name = draw(st.sampled_from(['model', 'dataset']))
        return name, [f'--{name}={draw(_TEXT.filter(lambda text: text != "polynomial" and "." not in text))}'], None
    if kind == 'unknown hparam':
        name = draw(_NAME.filter(lambda name: name not in (*_HPARAMS, 'model', 'dataset', 'seed')))
        return name, [f'--hparams={name}={draw(_NAME)}'], None
    if kind == 'hparam of a wrong type':
        name = draw(st.sampled_from(sorted(name for name in _HPARAMS if not isinstance(_HPARAMS[name], str))))
        value = draw(_NAME.filter(lambda value: value not in ('true', 'false')))
        return name, [f'--hparams={name}={value}'], None
    if kind == 'no pair':
        name = draw(_NAME)
        return name, [f'--hparams=batch_size=4,{name}'], None
    if kind == 'twice':
        name = draw(st.sampled_from(sorted(_HPARAMS)))
        return name, [f'--hparams={name}={draw(_NAME)},{name}={draw(_NAME)}'], None
    if kind == 'no goal':
        goal = draw(_TEXT.filter(lambda text: not text.endswith((':min', ':max'))))
        return 'best_metric', [f'--best_metric={goal}'], None
    if kind == 'no JSON':
        content = draw(st.binary(max_size=50).filter(_is_no_json))
    elif kind == 'no object':
        content = json.dumps(draw(_JSON.filter(lambda value: not isinstance(value, dict)))).encode()
    elif kind == 'unknown key':
        content = json.dumps({f'no_{draw(_NAME)}': draw(_JSON)}).encode()
    else:
        name = draw(st.sampled_from(sorted(_HPARAMS)))
        content = json.dumps({name: draw(st.none() | st.dictionaries(_NAME, st.integers()))}).encode()
    return 'set.json', [], content


def _is_no_json(content):
    try:
        json.loads(content.decode())
    except ValueError:
        return True
    return False


def refuse(flags, content):
    """Runs the trainer with flags and a set of hyper-parameters, bytes or None; returns (exit code, stderr)."""
    with tempfile.TemporaryDirectory() as directory:
        if content is not None:
            path = os.path.join(directory, 'set.json')
            with open(path, 'wb') as file:
                file.write(content)
            flags = [*flags, f'--hparams_set={path}']
        with contextlib.redirect_stderr(io.StringIO()) as err, contextlib.redirect_stdout(io.StringIO()):
            code = trainer.main(['trainer.py', *_POLYNOMIAL, f'--output_dir={directory}/output', *flags])
        return code, err.getvalue()


def is_refused(mistake):
    """Whether a drawn mistake leads to exit code 2 and one line that names it."""
    name, flags, content = mistake
    code, err = refuse(flags, content)
    return code == 2 and len(err.splitlines()) == 1 and err.startswith('trainer.py: ') and name in err


def pick_modules(count):
    """Returns `count` wrong modules, at most all, deterministically."""
    cases = [*wrong_modules.wrong_returns(), *wrong_modules.exceptions()]
    return random.Random(0).sample(cases, min(count, len(cases)))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--times', type=int, default=500)
    parser.add_argument('--modules', type=int, default=500)
    options = parser.parse_args()
    end_after(60)
    refused = []

    @settings(max_examples=options.times, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(mistakes())
    def check(mistake):
        refused.append(is_refused(mistake))
        assert refused[-1], (mistake, refuse(*mistake[1:]))

    check()
    reported = []
    for case in pick_modules(options.modules):
        reported.append(wrong_modules.is_reported(case))
        assert reported[-1], (case, own_module.run(case[1]))
    print(
        json.dumps(
            {'configurations': len(refused), 'refused': sum(refused), 'modules': len(reported), 'reported': sum(reported)}
        )
    )


if __name__ == '__main__':
    main()
