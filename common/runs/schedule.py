"""The schedules of the trainer."""

from collections.abc import Mapping
import types
import typing

from common.runs.options import Options


class Schedule(typing.NamedTuple):
    """Facts about a schedule; `common.runs.schedules` has what it does."""

    trains: bool = False
    evaluates: bool = False
    predicts: bool = False
    follows: bool = False  # Another process trains.
    is_dry_run: bool = False  # One step, and no output is kept.
    needs_checkpoint: bool = False


SCHEDULES: Mapping[str, Schedule] = types.MappingProxyType(
    {
        'train_and_evaluate': Schedule(trains=True, evaluates=True),
        'train': Schedule(trains=True),
        'evaluate': Schedule(evaluates=True, needs_checkpoint=True),
        'continuous_eval': Schedule(evaluates=True, follows=True),
        'predict': Schedule(predicts=True, needs_checkpoint=True),
        'export': Schedule(needs_checkpoint=True),
        'dry_run': Schedule(trains=True, evaluates=True, is_dry_run=True),
    }
)


def reads_data(options: Options) -> bool:
    """Whether a run reads splits of its dataset."""
    schedule = SCHEDULES[options.schedule]
    return schedule.trains or schedule.evaluates or schedule.predicts and not options.inference.input
