"""The files of --input for models of users' own tf.train.Examples: TFRecord files, and pictures for image-only models."""

from collections.abc import Iterator
import types
from typing import Any

from google.protobuf.message import DecodeError

from estimator_trainer.common.errors import RunError
from estimator_trainer.common.formats import images
from estimator_trainer.common.formats.class_folders import label_of
from estimator_trainer.common.own_data.description import of_kind
from estimator_trainer.common.own_data.example_parser import only_image
from estimator_trainer.common.own_data.schema import FEATURES, IMAGE, LABEL, TEXT, WEIGHT
from estimator_trainer.common.records import manifest, records, tfrecord
from estimator_trainer.hparams.build import HParams

INPUT_PATTERNS = ('*.tfrecord*', *(f'*{suffix}' for suffix in images.SUFFIXES))


def read_input(path: str, params: HParams) -> Iterator[tuple[dict[str, Any], bytes | RunError]]:
    """Yields the examples of a file.

    They are ({'record': number}, record) for a TFRecord file, and ({}, record) for a picture, for models of an image alone. An
    example that lacks a feature is an error.

    Raises:
      RunError: the file cannot be read.
    """
    if path.lower().endswith(images.SUFFIXES):
        yield {}, _read_picture(path, params.metadata['features'])
    else:
        yield from _read_records(path, params.metadata['features'], (IMAGE, TEXT))


def read_labeled(path: str, params: HParams) -> Iterator[tuple[dict[str, Any], bytes | RunError]]:
    """Yields what `read_input` does, with labels: a TFRecord file has them, or a picture's folder is named after its class.

    Raises:
      RunError: the file cannot be read, or the folder is not named after a class.
    """
    features = params.metadata['features']
    if path.lower().endswith(images.SUFFIXES):
        yield {}, _read_picture(path, features, _label_of(path, params.metadata))
    else:
        yield from _read_records(path, features, (IMAGE, TEXT, LABEL, WEIGHT))


def _label_of(path, facts):
    """Returns {name: the label of a picture as it is stored}."""
    (label,) = of_kind(facts['features'], LABEL)
    if 'class_names' not in facts or of_kind(facts['features'], WEIGHT):
        raise RunError(f'{path}: a picture alone has no label {label["name"]}, or no weight: give TFRecord files')
    number = label_of(path, facts['class_names'])
    if label.get('is_index'):
        return {label['name']: number}
    name = facts['class_names'][number]
    return {label['name']: int(name) if label['stored'] == 'int64' else name}


def _read_records(path, features, kinds):
    """Yields the records of a TFRecord file, each of which must have the features of some kinds."""
    required = [feature['name'] for feature in features if feature['kind'] in kinds]
    for number, record in enumerate(tfrecord.read(path, manifest.check_alone(path))):
        try:
            missing = [name for name in required if name not in records.decode(record)]
            wrong = f'has no feature {", ".join(missing)}' if missing else ''
        except DecodeError:
            wrong = 'is not a tf.train.Example'
        yield {'record': number}, RunError(f'{path}: record {number}: {wrong}') if wrong else record


def _read_picture(path, features, labels=types.MappingProxyType({})):
    """Returns an image file as an example, with labels."""
    feature = only_image(features)
    if not feature:
        names = ', '.join(feature['name'] for feature in features if feature['kind'] not in FEATURES.roles)
        raise RunError(f'{path}: the model needs the features {names}: give TFRecord files')
    try:
        content = images.read(path)
        picture = images.decode(content)
        if feature['is_raw']:
            content = images.to_pixels(picture, feature['size'], feature['channels']).tobytes()
        elif images.orientation(picture) != 1 or not images.is_plain(content, picture):
            content = images.to_png(images.normalize(picture))
    except images.ImageError as error:
        raise RunError(f'{path} {error}') from None
    return records.encode({feature['name']: content, **labels})
