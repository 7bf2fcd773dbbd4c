"""Suggestions for an argument that is no flag, or no option of a Python program."""

from collections.abc import Iterator, Sequence
import contextlib
import re
from typing import Any

from absl import flags

from estimator_trainer.common.errors import UsageError
from estimator_trainer.common.options.schedule import SCHEDULES
from estimator_trainer.common.plugins import module_source
from estimator_trainer.hparams.defaults import DEFAULTS
from estimator_trainer.hparams.text import find, nearest

# In place of Python's and absl's words.
_WORDS = {
    r'invalid literal for int\(\).*': 'must be an integer',
    'could not convert string to float.*': 'must be a number',
    r"\('Non-boolean argument to boolean flag', .*": 'must be true or false',
}
# Flags of other tools that need no counterpart.
_NEEDLESS = {
    **dict.fromkeys(
        ['resume', 'continue', 'restore', 'resume_from', 'resume_from_checkpoint'], 'a run resumes from its --output_dir'
    ),
    **dict.fromkeys(['workers', 'num_workers', 'n_workers'], 'data is read by as many threads as help'),
    'shuffle': 'training data is shuffled in each epoch',
}


def parse_each(arguments: Sequence[str], FLAGS: flags.FlagValues) -> None:
    """Parses arguments one by one.

    Args:
      arguments: of a command line, without the program.
      FLAGS: get the values of those that are right, and of those that are meant.

    Raises:
      UsageError: with a line for each that is wrong.
    """
    lines, unknown = [], []
    for argument, *value in _with_values(arguments, FLAGS):
        name, equals, text = argument.lstrip('-').partition('=')
        if not argument.startswith('-') or not (name in FLAGS or _is_negation(name, FLAGS)):
            unknown.append((argument, name, text if equals else ''.join(value)))
            continue
        try:
            FLAGS(['', argument, *value])
        except (flags.Error, ValueError) as error:
            lines.append(flag_error(error))
    known = _hparams(FLAGS)
    meant = [_meant(name, text, known, FLAGS) for _, name, text in unknown]
    hparams = ','.join(filter(None, [FLAGS['hparams'].value, *(text for is_flag, text in meant if not is_flag)]))
    for (argument, name, _), (is_flag, text) in zip(unknown, meant):
        problem = 'unknown flag' if argument.startswith('-') else 'every argument is a flag, --name=value'
        flag = f'--{text}' if is_flag else f'--hparams={hparams}'
        other = _NEEDLESS.get(name.replace('-', '_'), 'see --help')
        lines.append(f'{argument}: {problem}{f", did you mean {flag}?" if text else f"; {other}"}')
        if is_flag and text and not text.endswith('=...'):
            with contextlib.suppress(flags.Error, ValueError):
                FLAGS(['', flag])
    FLAGS.mark_as_parsed()
    if lines:
        raise UsageError(*lines)


def flag_error(error: Exception) -> str:
    """Returns the text of an error of absl, with the wanted type in place of Python's words."""
    text = str(error)
    for pattern, words in _WORDS.items():
        text = re.sub(pattern, words, text)
    if choices := re.search('=([^=]*): value should be one of <(.*)>$', text):
        text += nearest(choices[1], choices[2].split('|'))
    return text


def option(name: str, value: Any, FLAGS: flags.FlagValues) -> str:
    """Returns ', did you mean X?' for an unknown option of a Python program, or ''."""
    found = find(name, [*FLAGS, *_hparams(FLAGS)])
    if not found:
        return ''
    return f', did you mean {found if found.partition("=")[0] in FLAGS else f"hparams={{{found!r}: {value!r}}}"}?'


def _is_negation(name, FLAGS):
    return name.startswith('no') and name[2:] in FLAGS and FLAGS[name[2:]].boolean


def _with_values(arguments: Sequence[str], FLAGS: flags.FlagValues) -> Iterator[list[str]]:
    """Yields each argument, with the next one if that is its value."""
    rest = [*arguments]
    while rest:
        argument = rest.pop(0)
        name = argument.lstrip('-')
        is_alone = not argument.startswith('-') or '=' in argument or _is_negation(name, FLAGS)
        if is_alone or not rest or (FLAGS[name].boolean if name in FLAGS else rest[0].startswith('-')):
            yield [argument]
        else:
            yield [argument, rest.pop(0)]


def _hparams(FLAGS):
    """Returns the names of the hyper-parameters, as far as known without importing the modules."""
    found = [module_source.read(kind, FLAGS[kind].value or '') for kind in ('model', 'dataset')]
    return [*DEFAULTS, *(name for source in found if source for name in source.params)]


def _meant(name, text, hparams, FLAGS):
    """Returns whether an unknown name stands for a flag, not for a hyper-parameter, and NAME=VALUE; '' if for neither."""
    plain = name.replace('-', '_')
    if plain in SCHEDULES or plain in _NEEDLESS:
        return True, f'schedule={plain}' if plain in SCHEDULES else ''
    found = find(name, [*FLAGS, *hparams])
    is_flag = found.partition('=')[0] in FLAGS
    if not found or '=' in found or is_flag and FLAGS[found].boolean and not text:
        return is_flag or not found, found
    return is_flag, f'{found}={text or "..."}'
