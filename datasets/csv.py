"""Your own table, by the former name of --dataset=table."""

from typing import Any

from estimator_trainer.datasets import table
from estimator_trainer.datasets.table import *  # noqa: F403


def get_params() -> dict[str, Any]:  # type: ignore[no-redef]
    return {**table.get_params()}
