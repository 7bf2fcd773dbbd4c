"""The files that go with an exported model: its model card and the names of its classes."""

from collections.abc import Iterator, Mapping
import contextlib
import importlib.metadata
import os
import platform
import tempfile
from typing import Any

import tensorflow.compat.v1 as tf

from common.files import write, write_json
from common.storage.metrics import read_metrics

_PACKAGES = ('estimator-trainer', 'tensorflow-estimator', 'numpy')


def make_card(output_dir: str, step: int, params: Mapping[str, Any], data_sha256: str | None) -> dict[str, Any]:
    """Returns the model card of a checkpoint.

    Args:
      output_dir: the run's directory.
      step: the checkpoint's global step.
      params: hyper-parameters.
      data_sha256: of the training data, if known.

    Returns:
      {'global_step', 'hparams', 'metrics': {split: {metric: number}}, 'data_sha256', 'versions': {package: version}}. The
      metrics are those of this step in metrics.csv.
    """
    metrics = {
        row['split']: {
            name: float(text) for name, text in row.items() if name not in ('global_step', 'split') and _is_number(text)
        }
        for row in read_metrics(output_dir)
        if int(row['global_step']) == step
    }
    versions = {'python': platform.python_version(), 'tensorflow': tf.__version__}
    for package in _PACKAGES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):  # A checkout need not be installed.
            versions[package] = importlib.metadata.version(package)
    return {
        'global_step': step,
        'hparams': dict(params),
        'metrics': metrics,
        'data_sha256': data_sha256,
        'versions': versions,
    }


@contextlib.contextmanager
def extra_assets(card: Mapping[str, Any], class_names: list[str] | None) -> Iterator[dict[str, str]]:
    """Yields {name in assets.extra: path} of temporary files: model_card.json and, if known, class_names.txt, one a line."""
    with tempfile.TemporaryDirectory() as directory:
        assets = {'model_card.json': os.path.join(directory, 'model_card.json')}
        write_json(assets['model_card.json'], card)
        if class_names:
            assets['class_names.txt'] = os.path.join(directory, 'class_names.txt')
            write(assets['class_names.txt'], ''.join(f'{" ".join(name.splitlines())}\n' for name in class_names))
        yield assets


def _is_number(text):
    try:
        float(text)
    except (TypeError, ValueError):
        return False
    return True
