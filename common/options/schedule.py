"""The choices of --schedule and facts about each."""

from collections.abc import Mapping
import types
import typing


class Schedule(typing.NamedTuple):
    """Facts about a schedule; `common.runs.schedules` has what it does."""

    help: str
    trains: bool = False
    evaluates: bool = False
    predicts: bool = False
    follows: bool = False  # Another process trains.
    is_dry_run: bool = False  # Of at most a few steps, whose weights are not kept.
    needs_checkpoint: bool = False
    reports: bool = False  # On what the run has evaluated.
    looks_back: bool = False  # At the training data.

    @property
    def needs_run(self) -> bool:
        """Whether it works with the checkpoints of a run, which may be another process's."""
        return self.needs_checkpoint or self.follows


SCHEDULES: Mapping[str, Schedule] = types.MappingProxyType(
    {
        'train_and_evaluate': Schedule(
            'trains, evaluates periodically and at the end, and keeps the best checkpoint', trains=True, evaluates=True
        ),
        'train': Schedule('trains only', trains=True),
        'evaluate': Schedule(
            'evaluates a checkpoint on splits, or on labeled files, of --input', evaluates=True, needs_checkpoint=True
        ),
        'continuous_eval': Schedule(
            'evaluates the newest checkpoint whenever another process has saved one, up to the last',
            evaluates=True,
            follows=True,
        ),
        'predict': Schedule(
            'writes a JSON object for each example to --predictions, or output_dir/predictions.jsonl',
            predicts=True,
            needs_checkpoint=True,
        ),
        'export': Schedule(
            'writes a SavedModel, or a model of another --format, below output_dir/export', needs_checkpoint=True
        ),
        'report': Schedule(
            'writes output_dir/report.html: curves, metrics, the worst mistakes, and what matters',
            predicts=True,
            needs_checkpoint=True,
            reports=True,
        ),
        'suspects': Schedule(
            'lists training examples that are probably labeled wrongly, after a run with --record_margins or --folds',
            needs_checkpoint=True,
            looks_back=True,
        ),
        'serve': Schedule(
            "answers requests over HTTP as TensorFlow Serving's REST API does, until a signal", needs_checkpoint=True
        ),
        'verify': Schedule(
            'trains some intervals between kept checkpoints again, and compares them: proves how a run, or an export, was made',
            needs_checkpoint=True,
        ),
        'seen': Schedule(
            'counts the records that the steps up to --step used, by epoch and class, or lists the steps that used --record',
            needs_checkpoint=True,
            looks_back=True,
        ),
        'replay': Schedule(
            'computes the steps of --step again, from a checkpoint, and shows their examples, gradients and updates',
            needs_checkpoint=True,
            looks_back=True,
        ),
        'describe': Schedule('prints a summary of the data, if the dataset has one, and trains nothing'),
        'status': Schedule('prints what the runs in --runs, or the one in --output_dir, do, or how they ended'),
        'compare': Schedule('prints a table of the runs in --runs, the best first, and writes compare.html with their curves'),
        'find_learning_rate': Schedule(
            'trains new weights with a rising rate, prints a learning_rate, and saves output_dir/find_learning_rate',
            trains=True,
            is_dry_run=True,
        ),
        'find_batch_size': Schedule(
            'prints how fast training is with batches of several sizes, the fastest, and the largest that fits into memory',
            trains=True,
            is_dry_run=True,
        ),
        'dry_run': Schedule(
            'runs one training step, one evaluation step and one prediction batch, and keeps no output',
            trains=True,
            evaluates=True,
            is_dry_run=True,
        ),
    }
)
