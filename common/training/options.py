"""Training options: how a training runs. What changes the trained model is a hyper-parameter."""

from collections.abc import Sequence
import dataclasses


@dataclasses.dataclass(frozen=True)
class TrainingOptions:
    """The flags of the same names; see trainer.py. save_checkpoints_steps=None saves once per epoch."""

    num_gpus: int = 0
    num_towers: int = 1
    precision: str = 'float32'
    xla: bool = False
    inter_op_threads: int = 0
    intra_op_threads: int = 0
    save_checkpoints_steps: int | None = None
    save_summary_steps: int = 100
    keep_checkpoint_max: int = 5
    steps_per_loop: int = 1
    profile_steps: str = ''
    overfit_batches: int = 0
    warm_start_from: str = ''
    warm_start_names: Sequence[str] = ()
    warm_start_exclude: str = ''
    freeze: str = ''
    debug_numerics: bool = False
