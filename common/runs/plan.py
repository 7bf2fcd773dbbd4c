"""The Plan of a run: what a command, or a Python program, asks for."""

from collections.abc import Callable, Mapping
import dataclasses
from typing import Any

from estimator_trainer.common.cluster.training_task import ALONE, TrainingTask
from estimator_trainer.common.options.schedule import SCHEDULES, Schedule
from estimator_trainer.common.options.table import Options
from estimator_trainer.common.pipeline.data_source import DataSource
from estimator_trainer.common.stop import StopOnSignal
from estimator_trainer.hparams.build import HParams
from estimator_trainer.hparams.text import parse


@dataclasses.dataclass(frozen=True)
class Plan:
    """What to run, and how.

    Attributes:
      model: a model module, see docs/modules.md.
      source: the dataset, with the hyper-parameters.
      output_dir: the run's directory.
      options: the schedule, among others.
      stop: already entered.
      on_metrics: see `common.commands.api.train`.
      kept: what flags.json keeps of a run: the flags as given, also where a cluster changes them.
      task: this process's.
    """

    model: Any
    source: DataSource
    output_dir: str
    options: Options
    stop: StopOnSignal
    on_metrics: Callable[[dict[str, Any]], None] | None = None
    kept: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    task: TrainingTask = ALONE

    @property
    def params(self) -> HParams:
        return self.source.params

    @property
    def schedule(self) -> Schedule:
        return SCHEDULES[self.options.schedule]

    @property
    def overridden(self) -> list[str]:
        """The names of the hyper-parameters that --override_hparams changes."""
        return [*parse(self.options.override_hparams, '--override_hparams')]

    def with_options(self, **changes: Any) -> 'Plan':
        """Returns the plan with other options."""
        return dataclasses.replace(self, options=dataclasses.replace(self.options, **changes))
