"""Parsing and checks of flag values."""

from collections.abc import Callable, Sequence
import re

from estimator_trainer.common.errors import UsageError

FORMATS = ('saved_model', 'onnx', 'tflite')
MAX_STEPS = 2**63 - 1  # TensorFlow counts them in int64.


def parse_steps(text: str) -> tuple[int, int]:
    """Parses FIRST:END, such as '100:110'.

    Raises:
      UsageError: the text is not of this form, or the range is empty or too large.
    """
    steps = re.fullmatch(r'(\d+):(\d+)', text)
    if steps and any(len(step) > len(str(MAX_STEPS)) or int(step) > MAX_STEPS for step in steps.groups()):
        raise UsageError(f'--profile_steps={text}: there are at most {MAX_STEPS} steps')
    if not steps or int(steps[1]) >= int(steps[2]):
        raise UsageError(f'--profile_steps={text} is not of the form FIRST:END, FIRST < END, such as 100:110')
    return int(steps[1]), int(steps[2])


def parse_step(text: str) -> tuple[int, int]:
    """Returns the first and the last of the steps of --step, such as 1234, or 1200:1234; step 1 is the first of a run.

    Raises:
      UsageError: the text is of neither form.
    """
    found = re.fullmatch(r'(\d{1,18})(?::(\d{1,18}))?', text, re.ASCII)
    first, last = (int(found[1]), int(found[2] or found[1])) if found else (0, 0)
    if not 1 <= first <= last:
        raise UsageError(f'--step={text} is neither a step, from 1 on, such as 1234, nor the first and the last, as 1200:1234')
    return first, last


def parse_names(items: Sequence[str]) -> list[tuple[str, str]]:
    """Returns the pairs (name in the checkpoint, name in the model) of --warm_start_names.

    Args:
      items: such as 'old/kernel:new/kernel', or 'encoder/:model/encoder/' for all names of a scope; 'encoder/:' and
        ':encoder/' remove a scope and add one.

    Raises:
      UsageError: an item is not of this form.
    """
    pairs = []
    for item in items:
        old, colon, new = item.partition(':')
        if not colon or ':' in new or not (old or new) or is_scope(old) != is_scope(new):
            raise UsageError(
                f'--warm_start_names: {item} is not of the form OLD:NEW, names of variables, or of scopes with a / at the end'
            )
        pairs.append((old, new))
    return pairs


def is_scope(name: str) -> bool:
    """Whether a name of --warm_start_names is one of a scope."""
    return not name or name.endswith('/')


def check_directory(path: str) -> None:
    """Raises UsageError for an invalid output_dir."""
    if set('*?[]\\') & set(path):
        raise UsageError(f'--output_dir={path}: TensorFlow reads * ? [ ] \\ as glob patterns: use other characters')


def file_name(flag: str, suffix: str, kind: str) -> Callable[[str], None]:
    """Returns a check that the file that a flag names, to be written, is of its kind: another may be a user's data."""

    def check(path):
        if not path.lower().endswith(suffix):
            raise UsageError(f'--{flag}={path} must be the name of a {kind} file, such as predictions{suffix}')

    return check


def check_splits(names: Sequence[str]) -> None:
    """Raises UsageError if one of --eval_splits has no name."""
    if '' in names:
        raise UsageError(f'--eval_splits={",".join(names)}: a name is empty')


def check_formats(names: Sequence[str]) -> None:
    """Raises UsageError if one of --format is unknown."""
    for name in names:
        if name not in FORMATS:
            raise UsageError(f'--format={",".join(names)}: {name or "an empty name"} is not one of {", ".join(FORMATS)}')


def regular_expression(flag: str) -> Callable[[str], None]:
    """Returns a check that a flag's value is a regular expression."""

    def check(text):
        try:
            re.compile(text)
        except re.error as error:
            raise UsageError(f'--{flag}={text} is not a regular expression: {error}') from None

    return check


def check_intervals(text: str) -> None:
    """Raises UsageError unless the text is a positive number, or all."""
    if text != 'all' and not (text.isascii() and text.isdecimal() and int(text) > 0):
        raise UsageError(f'--intervals={text}: must be a number of intervals, such as 3, or all')
