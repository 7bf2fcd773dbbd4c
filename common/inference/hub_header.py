"""The header of a model card that the Hugging Face Hub reads: https://huggingface.co/docs/hub/model-cards."""

from collections.abc import Collection, Mapping
import json
import math
from typing import Any

import tensorflow.compat.v1 as tf

from estimator_trainer.common.pipeline.data_source import DataSource
from estimator_trainer.common.targets import is_segmentation

_LIBRARIES = {'saved_model': 'tensorflow', 'onnx': 'onnx', 'tflite': 'tflite'}
_HUB_DATASETS = {'mnist': 'ylecun/mnist', 'fashion_mnist': 'zalando-datasets/fashion_mnist', 'cifar10': 'uoft-cs/cifar10'}


def task_of(source: DataSource, outputs: Collection[str]) -> str | None:
    """Returns the Hub's name of a model's task, such as image-classification, from its inputs and the names of its outputs.

    It is None if unknown: of a model that is neither a classifier, nor a regression of the columns of a table.
    """
    kind = 'classification' if {'class', 'class_ids'} & {*outputs} else 'regression' if 'value' in outputs else None
    if is_segmentation(source.params.metadata):
        return 'image-segmentation'
    if source.has_images():
        return 'image-classification' if kind == 'classification' else None
    columns = source.raw_specs()
    if kind == 'classification' and [spec.dtype for spec in columns.values()] == [tf.string]:
        return 'text-classification'
    return f'tabular-{kind}' if kind and columns else None


def make_header(card: Mapping[str, Any]) -> str:
    """Returns the header of a model card as YAML between lines of ---, without a license, which its owner must choose.

    Args:
      card: that of `model_card.make_card`, with 'format', a choice of --format, and 'task', of `task_of`.
    """
    model, dataset, task = card['hparams']['model'], card['hparams']['dataset'], card['task']
    on_hub = _HUB_DATASETS.get(dataset)
    items = {
        'library_name': _LIBRARIES[card['format']],
        **({'pipeline_tag': task} if task else {}),
        'tags': [*dict.fromkeys(['tensorflow', _LIBRARIES[card['format']]])],
        **({'datasets': [on_hub]} if on_hub else {}),
        **_index(model, dataset, task, card['metrics'], on_hub),
    }
    # JSON is YAML, too.
    lines = (f'{name}: {json.dumps(value, ensure_ascii=False)}' for name, value in items.items())
    return '\n'.join(['---', *lines, '---', '', ''])


def _index(model, dataset, task, metrics, on_hub):
    results = [
        {
            'task': {'type': task or 'other'},
            'dataset': {'name': dataset, 'type': on_hub or dataset, 'split': split},
            'metrics': [{'type': name, 'name': name, 'value': value} for name, value in values.items() if math.isfinite(value)],
        }
        for split, values in metrics.items()
    ]
    results = [result for result in results if result['metrics']]
    return {'model-index': [{'name': model, 'results': results}]} if results else {}
