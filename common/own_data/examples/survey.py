"""Metadata of users' own tf.train.Examples: kinds of features, statistics, vocabularies and classes."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
import os
from typing import Any

import tensorflow.compat.v1 as tf

from estimator_trainer.common.errors import RunError, UsageError
from estimator_trainer.common.files import write_json
from estimator_trainer.common.own_data import description
from estimator_trainer.common.own_data.conversions import once
from estimator_trainer.common.own_data.description import of_kind
from estimator_trainer.common.own_data.examples.image_facts import AS_PICTURES
from estimator_trainer.common.own_data.examples.inference import describe_role, infer_features
from estimator_trainer.common.own_data.examples.profiles import (
    MAX_DISTINCT,
    profile_split,
    warn_of_extremes,
    warn_of_other,
    warn_of_trained,
)
from estimator_trainer.common.own_data.examples.records import Examples, decode_sample
from estimator_trainer.common.own_data.schema import (
    CLASSIFICATION,
    FEATURES,
    IMAGE,
    LABEL,
    REGRESSION,
    TEXT,
    Schema,
    by_name,
    find_roles,
    names_in,
    read_schema,
)
from estimator_trainer.common.own_data.splits import fingerprint
from estimator_trainer.common.own_data.summary import of_features, to_text
from estimator_trainer.common.own_data.texts import tokens
from estimator_trainer.common.own_data.vocabulary import sorted_classes, union
from estimator_trainer.common.records import records
from estimator_trainer.hparams.build import HParams

_VERSION = 3  # Of the metadata.
_MAX_INTEGER_CLASSES = 1000  # An int64 label is rarely an amount.
_FEW = 20  # Floats that are so few whole numbers are probably classes.


def describe_once(directory: str, params: HParams, describe_all: Callable[[], Mapping[str, Any]]) -> None:
    """Writes the metadata that a function returns to a file in a directory, unless it is there; see `once`."""
    path = facts_path(directory, params)

    def write():
        facts = describe_all()
        tf.io.gfile.makedirs(directory)
        write_json(path, facts)

    once(f'{path}.warnings', tf.io.gfile.exists(path), write)


def read_metadata(directory: str, params: HParams) -> dict[str, Any]:
    """Returns the metadata that `describe_once` wrote with these hyper-parameters."""
    facts = records.read_facts(facts_path(directory, params))
    # A model of an older version takes its images as it learned to.
    learned = {image['name']: image.get('is_picture') for image in of_kind(params.metadata.get('features', ()), IMAGE)}
    for feature in facts['features']:
        found = feature.pop('is_picture', None)
        how = learned.get(feature['name'], found)
        if found and how:
            feature['is_picture'] = how
    return facts


def summarize(source: str, splits: Iterable[str], directory: str, params: HParams) -> str:
    """Returns the features, their kinds and what is known about them, for people."""
    # With the metadata, which has changed the hyper-parameters, the path is another.
    facts = params.metadata if 'features' in params.metadata else read_metadata(directory, params)
    return to_text(f'{source}: splits: {", ".join(splits)}', FEATURES, of_features(facts, facts['features']))


def facts_path(directory: str, params: HParams) -> str:
    """Returns the path of the metadata file in a directory, which depends on these hyper-parameters."""
    facts = [read_schema(params.schema, FEATURES).content, params.train_split, params.image_size, *tokens.facts(params)]
    facts += [params.min_count, params.max_vocabulary, *names_in(params.get('target', ''))]
    return os.path.join(directory, f'metadata-{fingerprint("", (), facts, _VERSION)}.json')


def describe(
    examples: Examples,
    schema: Schema,
    params: HParams,
    names: Collection[str] | None = None,
    class_names: Mapping[str, Sequence[str]] | None = None,
) -> dict[str, Any]:
    """Returns the metadata of a dataset for `parser.parse`.

    Args:
      examples: the examples.
      schema: facts given about their features.
      params: hyper-parameters: those of the tokens.
      names: of the features to describe; by default all.
      class_names: {feature: names of its classes}, for features that store class numbers.

    Returns:
      features: a list of {'name', 'kind', 'stored', 'values'}; those of kind numeric have 'mean' and 'std', those of kind
        categorical 'vocabulary'. The features with a role are of kind label, weight or id.
      vocabulary_sizes: {'categorical': sizes}, with 1 for id 0; {} without such features.
      task: classification, with class_names and num_classes; or regression, with target_mean and target_std; or, of several
        labels, several or multilabel, with 'targets', see `description.describe_targets`.
      vocabulary, vocabulary_size: of the text, if there is one.
      image_size, num_channels: of the image, if there is one.

    Raises:
      UsageError: the schema is wrong, or needed.
      RunError: the examples are invalid.
    """
    source, wanted = examples.source, {*schema.given, *by_name(schema.roles), *names_in(params.get('target', ''))}
    sample = decode_sample(examples, names, wanted if names is None else wanted & {*names})
    found = sorted({name for example in sample for name in example})
    roles = find_roles(schema, found, source, params.get('target', ''))
    features = infer_features(sample, schema, roles, source)
    features += [describe_role(sample, role, name, source, schema.task_of(name)) for name, role in by_name(roles).items()]
    trained = profile_split(examples, examples.trained, features, params, {*found} if names is None else None)
    warn_of_trained(source, trained, features)
    for image in of_kind(features, IMAGE):
        if image['name'] in trained.pictures and trained.pictures[image['name']].found:
            image['is_picture'] = AS_PICTURES
            text = '%s: some of the images %s are transparent, or turned by EXIF data: they are taken upright, on white.'
            tf.logging.warning(text, source, image['name'])
    facts = _describe_values(trained, features, params)
    others = {}
    for split in examples.splits:
        if split != examples.trained:
            others[split] = profile_split(examples, split, features, params)
            warn_of_other(examples, split, others[split], trained, features, facts.get('vocabulary', []))
    profiles = {examples.trained: trained, **others}
    labels = {
        label['name']: _describe_label(label, profiles, class_names or {}, schema, examples)
        for label in of_kind(features, LABEL)
    }
    facts |= description.describe_targets(source, labels, schema.is_multilabel)
    facts |= description.describe_features(source, FEATURES, features, facts['task'])
    for feature in of_kind(features, IMAGE):
        facts |= {'image_size': feature['size'], 'num_channels': feature['channels']}
    return facts


def _describe_label(label, profiles, class_names, schema, examples):
    """Returns the facts about a label, from the profile of each split; the classes of some have known names."""
    name, task = label['name'], schema.task_of(label['name'])
    known = class_names.get(name) if task != REGRESSION else None
    if label.get('is_one_hot'):
        known = known if len(known or ()) == label['values'] else [str(i) for i in range(label['values'])]
    label |= {'is_index': True} if known else {}
    trained = profiles[examples.trained].labels[name]
    if not known and _find_task(trained, label, task, schema.path, examples.source) == REGRESSION:
        return _describe_numbers({split: found.labels[name] for split, found in profiles.items()}, label, examples)
    return _describe_classes({split: found.labels[name].values for split, found in profiles.items()}, known, examples, label)


def _describe_values(trained, features, params):
    """Adds means and vocabularies to the features, and returns the facts about the text."""
    facts: dict[str, Any] = {}
    for feature in features:
        if feature['name'] in trained.features:
            (facts if feature['kind'] == TEXT else feature).update(trained.features[feature['name']].describe(params))
    return facts


def _find_task(trained, label, task, path, source):
    """Returns the given or inferred task; raises UsageError if the label cannot have the given one."""
    name, stored, labels = label['name'], label['stored'], trained.values
    are_classes = (
        stored != 'float'
        or labels.is_exact
        and len(labels) <= _MAX_INTEGER_CLASSES
        and not (trained.has_fraction or trained.has_no_number)
    )
    wrong = f'{path}: task is {task}, but the label {name} is {stored}'
    if task == REGRESSION and stored == 'bytes':
        raise UsageError(f'{wrong}: write numbers as floats')
    if task == CLASSIFICATION and not are_classes:
        raise UsageError(f'{wrong}, with other than whole numbers or with many: write classes as int64 or text')
    if not task and stored == 'float' and are_classes and len(labels) <= _FEW:
        tf.logging.warning(
            '%s: the label %s is %s, all floats, which is taken for a number to predict, not for classes: if it is a class, '
            'set "task": "classification" in --hparams=schema=FILE',
            source,
            name,
            ' or '.join(sorted_classes(labels.values())),
        )
    return task or description.infer_task(stored != 'bytes', stored == 'int64', labels, _MAX_INTEGER_CLASSES)


def _describe_numbers(labels, label, examples):
    what, trained = f'{examples.source}: the label {label["name"]}', labels[examples.trained]
    for split in [split for split, found in labels.items() if found.has_no_number]:
        wrong = f'{what} is NaN or infinite in the split {split}'
        if split == examples.trained:
            raise RunError(f'{wrong}: correct it')
        tf.logging.warning('%s: its metrics will be NaN: leave out these examples, or correct them.', wrong)
    numbers = trained.numbers.finish()
    mean = numbers.mean
    if trained.values.is_exact and len(trained.values) == 1:
        raise RunError(f'{what} is always {mean:g}: there is nothing to learn')
    if numbers.is_constant or not numbers.is_exact_in_float32:
        raise RunError(f'{what}: the numbers around {mean:g} differ too little for float32: subtract a constant')
    warn_of_extremes(what, trained.numbers.extremes, 'leave out the example')
    return description.describe_target(numbers)


def _describe_classes(labels, known, examples, label):
    """Returns the facts about the classes of all splits, {split: ValueCounts}, and logs them; known are their given names."""
    total = union(labels.values(), MAX_DISTINCT)
    classes = known or sorted_classes(total.values())
    if not known and (len(classes) < 2 or not total.is_exact):
        few = f'is always {classes[0]}' if len(classes) < 2 else 'has too many different values'
        raise RunError(f'{examples.source}: the label {label["name"]} {few}: name another in the schema')
    names = {str(i): name for i, name in enumerate(known or ())}
    counts = {
        split: {names.get(value, value): count for value, count in found.counts().items()} for split, found in labels.items()
    }
    description.log_classes(examples.source, classes, counts, examples.trained)
    return description.describe_classes(classes)
