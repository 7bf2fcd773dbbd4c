"""The files of --input for models of users' own tf.train.Examples: TFRecord files, and pictures for image-only models."""

from collections.abc import Iterator
from typing import Any

from google.protobuf.message import DecodeError

from estimator_trainer.common.errors import RunError
from estimator_trainer.common.formats import images
from estimator_trainer.common.own_data.example_parser import only_image
from estimator_trainer.common.own_data.record_files import PATTERNS
from estimator_trainer.common.own_data.schema import FEATURES, IMAGE, TEXT
from estimator_trainer.common.records import compressed, manifest, records, tfrecord
from estimator_trainer.hparams.build import HParams

INPUT_PATTERNS = (*PATTERNS, *(f'*{suffix}' for suffix in images.SUFFIXES))


def read_input(path: str, params: HParams) -> Iterator[tuple[dict[str, Any], bytes | RunError]]:
    """Yields the examples of a file.

    They are ({'record': number}, record) for a TFRecord file, which may be compressed, and ({}, record) for a picture, for
    models of an image alone. An example that lacks a feature is an error.

    Raises:
      RunError: the file cannot be read.
    """
    features = params.metadata['features']
    if path.lower().endswith(images.SUFFIXES):
        yield {}, _read_picture(path, features)
        return
    required = [feature['name'] for feature in features if feature['kind'] in (IMAGE, TEXT)]
    with compressed.plain(path) as copy:
        for number, record in enumerate(tfrecord.read(copy, manifest.check_alone(copy))):
            try:
                missing = [name for name in required if name not in records.decode(record)]
                wrong = f'has no feature {", ".join(missing)}' if missing else ''
            except DecodeError:
                wrong = 'is not a tf.train.Example'
            yield {'record': number}, RunError(f'{path}: record {number}: {wrong}') if wrong else record


def _read_picture(path, features):
    """Returns an image file as an example."""
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
    return records.encode({feature['name']: content})
