"""The targets of a dataset: one, or several, each with names of its own for labels, predictions and metrics."""

from collections.abc import Mapping, Sequence
import re
from typing import Any, NamedTuple

CLASSIFICATION, REGRESSION, MULTILABEL, SEVERAL = 'classification', 'regression', 'multilabel', 'several'
SEGMENTATION = 'segmentation'  # A class for each pixel, by a mask.
IGNORED = 255  # In masks, of pixels without a class, as in Pascal VOC and Cityscapes.
TAGGING = 'tagging'  # A class for each token of a sentence.
FORECAST = 'forecast'
WINDOW_SCALE = 'window_scale'  # A feature of forecasts, float [batch, 2]: what to add to outputs, after what to multiply by.
LAST_VALUE, LAST_SEASON = BASELINES = ('last_value', 'last_season')  # Of forecasts, in the order of the label `baselines`.
_SECOND_WORDS = ('name', 'macro', 'precision', 'recall', 'threshold')  # As class and class_name, f1 and f1_macro.


class Target(NamedTuple):
    """What is predicted of an example: a class, or a number.

    Attributes:
      key: ends the names of its labels, predictions and metrics, such as class_KEY; '' of the only target.
      name: of the column or feature; '' if unknown.
      task: CLASSIFICATION or REGRESSION.
      num_classes, class_names: of a classification, as far as they are known.
      mean, std: of a regression, those of the training data.
    """

    key: str = ''
    name: str = ''
    task: str = CLASSIFICATION
    num_classes: int = 0
    class_names: Sequence[str] = ()
    mean: float = 0.0
    std: float = 1.0

    def named(self, name: str) -> str:
        """Returns the name of a label, prediction or metric of this target: class is class_KEY."""
        return with_key(name, self.key)


def with_key(name: str, key: str) -> str:
    """Returns the name of a label, prediction or metric of the target with a key."""
    return f'{name}_{key}' if key else name


def targets_of(metadata: Mapping[str, Any]) -> list[Target]:
    """Returns the targets in a dataset's metadata: those of its 'targets', or one that its own items describe."""
    return [_target(facts) for facts in metadata.get('targets') or [metadata]]


def _target(facts):
    given = 'target_mean' in facts
    return Target(
        facts.get('key', ''),
        facts.get('name', '') if 'key' in facts else '',
        facts.get('task') or (REGRESSION if given else CLASSIFICATION),
        facts.get('num_classes') or 0,
        facts.get('class_names') or (),
        facts.get('target_mean', 0.0),
        facts.get('target_std', 1.0),
    )


def is_multilabel(metadata: Mapping[str, Any]) -> bool:
    """Whether all targets are labels that apply or not, which are predicted together."""
    return metadata.get('task') == MULTILABEL


def is_segmentation(metadata: Mapping[str, Any]) -> bool:
    """Whether the label is a mask, with a class for each pixel of the feature `image`."""
    return metadata.get('task') == SEGMENTATION


def is_tagging(metadata: Mapping[str, Any]) -> bool:
    """Whether the label is a tag for each token of a sentence; the metadata has the `tags`."""
    return metadata.get('task') == TAGGING


def is_forecast(metadata: Mapping[str, Any]) -> bool:
    """Whether the target is the next values of a series."""
    return metadata.get('task') == FORECAST


def are_several(metadata: Mapping[str, Any]) -> bool:
    """Whether there are several targets."""
    return bool(metadata.get('targets'))


def why_no_class(metadata: Mapping[str, Any], task: str | None = '') -> str:
    """Returns why an example has not one class, in words; '' if it may have.

    Args:
      task: the hyper-parameter of this name, if there is one.
    """
    reasons = {
        'masks are predicted': is_segmentation(metadata),
        'tags are predicted': is_tagging(metadata),
        'values are forecast': is_forecast(metadata),
        'there are several targets': are_several(metadata),
        'the target is a number': task == REGRESSION,
    }
    return next((reason for reason, applies in reasons.items() if applies), '')


def class_names_of(metadata: Mapping[str, Any]) -> dict[str, Sequence[str]]:
    """Returns {key of a target of classes whose names are known: the names}; {} for labels that apply or not."""
    found = [] if is_multilabel(metadata) else targets_of(metadata)
    return {target.key: target.class_names for target in found if target.class_names}


def label_names_of(metadata: Mapping[str, Any]) -> list[str]:
    """Returns the names of labels that apply or not, in the order of their predictions; [] for other targets."""
    return [target.name for target in targets_of(metadata)] if is_multilabel(metadata) else []


def keys_of(names: Sequence[str]) -> list[str]:
    """Returns a distinct key for each name, of characters that names of variables and metrics may have.

    No two targets share a name of a label, prediction or metric, as class_name_x would be of x and of name_x.
    """
    found: list[str] = []
    for name in names:
        base = re.sub(r'[^A-Za-z0-9_.\-]+', '_', name).strip('_') or 'target'
        key, count = base, 1
        while any(_clash(key, other) for other in found):
            count += 1
            key = f'{base}_{count}'
        found.append(key)
    return found


def _clash(key, other):
    return key == other or any(f'{word}_{key}' == other or f'{word}_{other}' == key for word in _SECOND_WORDS)
