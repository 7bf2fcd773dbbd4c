"""Metadata of users' own data, of any format: its features, and the prediction task."""

import collections
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import tensorflow.compat.v1 as tf

from estimator_trainer.common.errors import UsageError, listed, printable, show
from estimator_trainer.common.own_data.moments import Moments
from estimator_trainer.common.own_data.schema import CATEGORICAL, CLASSIFICATION, DATE, IMAGE, NUMERIC, REGRESSION, TEXT, Terms
from estimator_trainer.common.own_data.values import key
from estimator_trainer.common.own_data.vocabulary import ValueCounts
from estimator_trainer.common.targets import MULTILABEL, SEVERAL, keys_of
from estimator_trainer.common.unicode_forms import composed

_SHOWN_CLASSES, _SHOWN_LACKING = 20, 10

Feature = dict[str, Any]  # 'name', 'kind', and further metadata of a column or feature.


def of_kind(features: Iterable[Feature], kind: str) -> list[Feature]:
    """Returns the features of a kind."""
    return [feature for feature in features if feature['kind'] == kind]


def describe_classes(names: Sequence[str]) -> dict[str, Any]:
    return {'task': CLASSIFICATION, 'class_names': list(names), 'num_classes': len(names)}


def facts_of_target(facts: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Returns the facts about a target in metadata, in which those of a single one are not apart."""
    return next((target for target in facts.get('targets', ()) if target['name'] == name), facts)


def describe_targets(source: str, found: Mapping[str, Mapping[str, Any]], is_multilabel: bool) -> dict[str, Any]:
    """Returns the facts about one or several targets: of several, 'targets', each with its 'name' and 'key', and the 'task'.

    All are labels that apply or not if their classes are 0 and 1, or false and true; else each is a task of its own.

    Args:
      source: of the data, for messages.
      found: {name: facts, as of `describe_classes` or `describe_target`}, in order.
      is_multilabel: whether the schema says so.

    Raises:
      UsageError: the schema does, but a target has other values.
    """
    others = {name: facts for name, facts in found.items() if not _are_labels(facts)}
    if is_multilabel and others:
        name, facts = next(iter(others.items()))
        raise UsageError(
            f'{source}: the target {name} has the values {listed(facts.get("class_names", ["of a number"]), _SHOWN_CLASSES)}, '
            'but those of a multilabel task must be 0 and 1: correct it, or leave out the task'
        )
    if len(found) == 1:
        return dict(next(iter(found.values())))
    near = [name for name, facts in others.items() if {'0', '1'} < {*facts.get('class_names', ())}]
    if near and len(near) < len(found):
        values = listed(found[near[0]]['class_names'], _SHOWN_CLASSES)
        tf.logging.warning(
            '%s: the target %s has the values %s, so the targets are no labels that are 0 or 1: each gets a head of its own.',
            *(source, near[0], values),
        )
    targets = [{'name': name, 'key': each, **facts} for each, (name, facts) in zip(keys_of([*found]), found.items())]
    if not others:  # The second class applies, however it is written: True sorts before false.
        targets = [{**target, 'class_names': _false_first(target['class_names'])} for target in targets]
    return {'task': SEVERAL if others else MULTILABEL, 'targets': targets}


def _false_first(names):
    """Returns the names of two classes that were found, in alphabetical order, with that of what does not apply first."""
    return sorted(names, key=key) if [*names] == sorted(names) else names


def _are_labels(facts):
    return {*map(key, facts.get('class_names', ()))} in ({'0', '1'}, {'false', 'true'})


def log_classes(
    source: str, names: Sequence[str], counts: Mapping[str, Mapping[str, int]], trained: str, unit: str = 'example'
) -> None:
    """Logs the classes in their order with their training examples, and warns of those that cannot be learned or judged.

    Args:
      source: of the data.
      names: of the classes, in their order.
      counts: {split: {label in any spelling: number of examples}}; a split without labels is ignored.
      trained: the training split.
      unit: what is counted.
    """
    classes, of_names = {key(name): name for name in names}, {*names}
    found_in: dict[str, collections.Counter[str]] = {split: collections.Counter() for split in counts}
    for split, labels in counts.items():
        for label, count in labels.items():
            found_in[split][label if label in of_names else classes.get(key(label), label)] += count
    of_trained = found_in.get(trained, collections.Counter())
    shown = ', '.join(f'{printable(name)} {of_trained[name]}' for name in names[:_SHOWN_CLASSES])
    more = ', ...' if len(names) > _SHOWN_CLASSES else ''
    tf.logging.info('%s: %d classes, with their %ss in %s: %s%s', source, len(names), unit, trained, shown, more)
    if len(names) == 2 and unit == 'example':
        tf.logging.info(
            '%s: precision, recall, F1 and decision_threshold are of the class %s, the second one.', source, printable(names[1])
        )
    for alike in _alike(names):
        _warn_of_alike(f'{source}: the classes', alike)
    single = [name for name in names if of_trained[name] == 1]
    if single:
        tf.logging.warning('%s: the split %s has only one %s of the class %s.', source, trained, unit, _join(single))
    for split, found in found_in.items():
        lacking = [name for name in names if not found[name]] if found else []
        if lacking:
            result = 'it is not learned' if split == trained else 'its metrics ignore it'
            tf.logging.warning('%s: the split %s has no %s of the class %s: %s.', source, split, unit, _join(lacking), result)


def _alike(names):
    """Returns lists of the names that differ only in case, spaces or Unicode's forms of accents."""
    groups: dict[str, list[str]] = {}
    for name in names:
        groups.setdefault(' '.join(composed(name).casefold().split()), []).append(name)
    return [group for group in groups.values() if len(group) > 1]


def _warn_of_alike(subject, alike, others=''):
    what = 'case or spaces' if len({*map(composed, alike)}) > 1 else 'how their accents are stored'
    shown = ', '.join(map(show, alike))
    tf.logging.warning('%s %s%s differ only in %s: if they are one, write them alike.', subject, shown, others, what)


def _join(names):
    shown = ', '.join(map(printable, names[:_SHOWN_LACKING]))
    return f'{shown} and {len(names) - _SHOWN_LACKING} others' if len(names) > _SHOWN_LACKING else shown


def describe_target(moments: Moments) -> dict[str, Any]:
    return {'task': REGRESSION, 'target_mean': moments.mean, 'target_std': moments.std}


def infer_task(is_number: bool, is_integer: bool, counts: ValueCounts, max_classes: int) -> str:
    """Infers the task from a label: texts, and integers of at most max_classes values, are classes."""
    is_few = is_integer and counts.is_exact and len(counts.merged()) <= max_classes
    return CLASSIFICATION if is_few or not is_number else REGRESSION


def check_learnable(source: str, terms: Terms, features: Iterable[Feature], named: Iterable[str]) -> None:
    """Raises UsageError if there are no features besides those named, which have a role."""
    if not features:
        raise UsageError(f'{source}: there is no {terms.item} to learn from besides {", ".join(named)}')


def describe_features(source: str, terms: Terms, features: Sequence[Feature], task: str) -> dict[str, Any]:
    """Returns the metadata of the features, including those with a role, and logs their kinds."""
    for kind in (IMAGE, NUMERIC, DATE, CATEGORICAL, TEXT, *terms.roles):
        names = ', '.join(feature['name'] for feature in of_kind(features, kind))
        if names:
            tf.logging.info('%s: %s: %s%s', source, kind, names, f', {task}' if kind == terms.roles[0] else '')
    for feature in of_kind(features, CATEGORICAL):
        if groups := _alike(feature['vocabulary']):
            others = ', and others,' if len(groups) > 1 else ''
            _warn_of_alike(f'{source}: {terms.item} {feature["name"]}: the categories', groups[0], others)
    sizes = [len(feature['vocabulary']) + 1 for feature in of_kind(features, CATEGORICAL)]
    return {terms.items: features, 'vocabulary_sizes': {'categorical': sizes} if sizes else {}}


def log_ignored(source: str, terms: Terms, name: str, reason: str) -> None:
    tf.logging.info('%s: the %s %s is ignored: %s. --hparams=schema=FILE can override this.', source, terms.item, name, reason)
