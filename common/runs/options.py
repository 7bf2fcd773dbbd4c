"""Options: flags that change how a run goes but not the model, grouped by the part that reads them."""

from collections.abc import Sequence
import dataclasses
from typing import Any

from absl import flags

from common.training.options import TrainingOptions
from hparams.text import parse


@dataclasses.dataclass(frozen=True)
class EvaluationOptions:
    """The flags of the same names, which trainer.py explains; eval_every_steps=None evaluates each checkpoint."""

    eval_every_steps: int | None = None
    eval_steps: int = 0
    eval_timeout: int = 0
    eval_splits: Sequence[str] = ('eval',)
    best_metric: str = 'loss:min'
    early_stopping_patience: int = 0
    early_stopping_min_delta: float = 0.0


@dataclasses.dataclass(frozen=True)
class InferenceOptions:
    """The flags of the same names, which trainer.py explains."""

    checkpoint: str = 'latest'
    predict_split: str = 'eval'
    input: str = ''
    visualize: str = ''


@dataclasses.dataclass(frozen=True)
class ClusterOptions:
    """The flags of the same names, which trainer.py explains."""

    cluster_timeout: float = 600.0


@dataclasses.dataclass(frozen=True)
class Options:
    """All options; schedule is a name in `common.runs.schedule.SCHEDULES`, overrides are the names in --override_hparams."""

    schedule: str = 'train_and_evaluate'
    training: TrainingOptions = TrainingOptions()
    evaluation: EvaluationOptions = EvaluationOptions()
    inference: InferenceOptions = InferenceOptions()
    cluster: ClusterOptions = ClusterOptions()
    overrides: Sequence[str] = ()


def from_flags(FLAGS: flags.FlagValues) -> Options:
    """Returns the options of parsed flags."""

    def read(kind: type) -> Any:
        values = {field.name: FLAGS[field.name].value for field in dataclasses.fields(kind)}
        return kind(**{name: tuple(value) if isinstance(value, list) else value for name, value in values.items()})

    return Options(
        FLAGS.schedule,
        read(TrainingOptions),
        read(EvaluationOptions),
        read(InferenceOptions),
        read(ClusterOptions),
        tuple(parse(FLAGS.override_hparams, '--override_hparams')),
    )
