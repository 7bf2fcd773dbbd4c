"""Training options: how a training runs. What changes the trained model is a hyper-parameter."""

from collections.abc import Sequence
import dataclasses
import re

from common.errors import UsageError

MAX_STEPS = 2**63 - 1  # TensorFlow counts them in int64.
PRECISIONS = ('float32', 'bfloat16', 'float16')


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


def parse_steps(text: str) -> tuple[int, int]:
    """Parses FIRST:END, such as '100:110'.

    Raises:
      UsageError: the text does not have this form, or the range is empty or too large.
    """
    steps = re.fullmatch(r'(\d+):(\d+)', text)
    if steps and any(len(step) > len(str(MAX_STEPS)) or int(step) > MAX_STEPS for step in steps.groups()):
        raise UsageError(f'--profile_steps={text}: there are at most {MAX_STEPS} steps')
    if not steps or int(steps[1]) >= int(steps[2]):
        raise UsageError(f'--profile_steps={text} is not of the form FIRST:END, FIRST < END, such as 100:110')
    return int(steps[1]), int(steps[2])


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
