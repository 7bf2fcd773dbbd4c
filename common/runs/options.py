"""How a run goes, as against what changes the model."""

import dataclasses

MAX_STEPS = 2**63 - 1  # TensorFlow counts them in int64.


@dataclasses.dataclass(frozen=True)
class Options:
    """The flags of the same names, which trainer.py explains."""

    schedule: str
    eval_steps: int
    eval_splits: list
    eval_every_steps: int
    eval_timeout: int
    save_checkpoints_steps: int
    save_summary_steps: int
    keep_checkpoint_max: int
    best_metric: str
    early_stopping_patience: int
    early_stopping_min_delta: float
    profile_steps: str
    steps_per_loop: int
    precision: str
    overfit_batches: int
    warm_start_from: str
    freeze: str
    debug_numerics: bool
    checkpoint: str
    predict_split: str
    input: str
