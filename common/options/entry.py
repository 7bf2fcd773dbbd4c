"""An entry of the table of flags."""

from collections.abc import Callable, Mapping, Sequence
import dataclasses
import enum
from typing import Any


class Trait(enum.Flag):
    """Boolean facts about a flag.

    PATH: it may be on a remote file system, whose scheme is checked.
    LOCAL_PATH: it is on this machine.
    NOT_EMPTY: '' and an empty list are invalid.
    COMMAND_LINE: Python programs cannot set it.
    LAUNCHER: it is for the process that starts the tasks of a local cluster, not for the tasks.
    SAME_IN_TASKS: the tasks of a cluster must agree on it.
    SAME_IN_TRIALS: the trials of a sweep must agree on it.
    KEPT: a run keeps it in flags.json; a resumed one takes it from there if the flag is not given.
    CHANGES_RESULT: other weights result from another value. So tasks and trials must agree on it, and a run keeps it, and warns
      if it resumes with another value.
    SET_IN_TRIALS: the sweep gives each trial its value.
    NOT_IN_TRIALS: trials have no use for it.
    OF_TRAINING: it has an effect only if the schedule trains.
    OF_EVALUATION: it has an effect only if the schedule trains or evaluates.
    """

    PATH = enum.auto()
    LOCAL_PATH = enum.auto()
    NOT_EMPTY = enum.auto()
    COMMAND_LINE = enum.auto()
    LAUNCHER = enum.auto()
    SAME_IN_TASKS = enum.auto()
    SAME_IN_TRIALS = enum.auto()
    SET_IN_TRIALS = enum.auto()
    NOT_IN_TRIALS = enum.auto()
    OF_TRAINING = enum.auto()
    OF_EVALUATION = enum.auto()
    KEPT = enum.auto()
    _RESULT = enum.auto()
    CHANGES_RESULT = _RESULT | SAME_IN_TASKS | SAME_IN_TRIALS | KEPT


@dataclasses.dataclass(frozen=True)
class Flag:
    """The facts about a flag besides its name, type and default.

    Attributes:
      help: for --help and docs/flags.md.
      group: the title in --help; '' repeats that of the previous entry.
      bounds: of a number, both inclusive; None for unbounded.
      choices: the valid values.
      default_text: the meaning of the default None.
      schedules: those that accept the flag; () for all.
      requires: another flag that must be given, too.
      excludes: other flags that must not be given, too.
      check: raises UsageError if a value that is not empty is wrong.
      traits: see `Trait`.
      short_name: a letter.
    """

    help: str
    group: str = ''
    bounds: tuple[float | None, float | None] = (None, None)
    choices: Sequence[str] = ()
    default_text: str = ''
    schedules: Sequence[str] = ()
    requires: str = ''
    excludes: Sequence[str] = ()
    check: Callable[[Any], Any] | None = None
    traits: Trait = Trait(0)
    short_name: str | None = None


def flag(default: Any, help: str, **facts: Any) -> Any:
    """Returns a field of a dataclass of flags."""
    return dataclasses.field(default=default, metadata={'flag': Flag(help, **facts)})


def flags_of(options: Any) -> Mapping[str, Flag]:
    """Returns the entries, {name: Flag}, of a dataclass of flags, in their order, each with its group."""
    found: dict[str, Flag] = {}
    group = ''
    for field in dataclasses.fields(options):
        entry = field.metadata['flag']
        group = entry.group or group
        found[field.name] = dataclasses.replace(entry, group=group)
    return found
