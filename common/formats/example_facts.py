"""Infers the features of a user's own tf.train.Examples from a sample, or takes them from a schema."""

from collections.abc import Mapping, Sequence
import io
import math
from typing import Any

from PIL import Image, UnidentifiedImageError
import tensorflow.compat.v1 as tf

from common.errors import RunError, UsageError
from common.formats.columns import CATEGORICAL, NUMERIC
from common.formats.schema import add_roles, check_kinds, check_names

IMAGE, TEXT, IGNORE = 'image', 'text', 'ignore'
KINDS = (NUMERIC, CATEGORICAL, IMAGE, TEXT, IGNORE)
LABEL, WEIGHT, ID = ROLES = ('label', 'weight', 'id')
_OPTIONS = {NUMERIC: ('shape',), IMAGE: ('size', 'channels')}
USUAL_LABELS = ('label', 'target')
_MAGIC = (b'\xff\xd8\xff', b'\x89PNG', b'GIF8', b'BM')
_COLORED = (b'GIF8', b'BM')  # Which TensorFlow decodes in color only.
_WORDS_OF_A_TEXT = 3
_MAX_NUMBERS = 10**6

Sample = Sequence[Mapping[str, tuple[str, Sequence[Any]]]]


def find_roles(schema: Mapping[str, Any], schema_path: str, names: Sequence[str], source: str) -> dict[str, str]:
    """Returns {role: feature} for the label and, if the schema names them, the weight and the id.

    Args:
      schema: from `read_schema`.
      schema_path: for messages.
      names: of the features that there are.
      source: of the data, for messages.

    Raises:
      UsageError: there is no such feature, or the label is not known.
    """
    given = schema.get('features', {})
    check_names(schema_path, 'feature', [*given, *(schema[role] for role in ROLES if role in schema)], names, source)
    usual = [name for name in names if name in USUAL_LABELS]
    label = schema.get(LABEL) or (usual[0] if len(usual) == 1 else '')
    if not label:
        raise UsageError(f'--hparams=schema must name the "label": the features of {source} are: {", ".join(names)}')
    return add_roles(schema, schema_path, 'feature', {LABEL: label}, (WEIGHT, ID))


def infer_features(
    sample: Sample, roles: Mapping[str, str], schema: Mapping[str, Any], schema_path: str, source: str
) -> list[dict[str, Any]]:
    """Returns the features to learn from.

    Args:
      sample: the first examples, as `records.decode` returns them.
      roles: from `find_roles`.
      schema: from `read_schema`.
      schema_path: for messages.
      source: of the data, for messages.

    Returns:
      Dicts of 'name', 'kind', 'stored' (bytes, float or int64), 'values', their number, and of an image 'size', 'channels' and
      'is_raw'.

    Raises:
      UsageError: the schema is wrong, or there is no feature.
      RunError: the examples are not what the schema says.
    """
    given = {name: value if isinstance(value, dict) else {'kind': value} for name, value in schema.get('features', {}).items()}
    check_kinds(schema_path, 'feature', {name: value.get('kind') for name, value in given.items()}, KINDS)
    _check_options(given, schema_path)
    features = []
    for name in sorted({name for example in sample for name in example} - set(roles.values())):
        found = [example[name] for example in sample if name in example]
        feature = _infer(name, found, given.get(name, {}), source)
        if feature['kind'] == IGNORE:
            if name not in given:
                tf.logging.info(
                    '%s: the feature %s is ignored: %s. --hparams=schema=FILE can override this.',
                    source,
                    name,
                    feature['reason'],
                )
            continue
        features.append(feature)
    for kind in (IMAGE, TEXT):
        several = [feature['name'] for feature in features if feature['kind'] == kind]
        if len(several) > 1:
            raise UsageError(f'{source}: {", ".join(several)} are of kind {kind}: --hparams=schema must ignore all but one')
    if not features:
        raise UsageError(f'{source}: there is no feature to learn from besides {", ".join(roles.values())}')
    return features


def _check_options(given, schema_path):
    for name, value in given.items():
        for option, number in value.items():
            if option == 'kind':
                continue
            if option not in _OPTIONS.get(value['kind'], ()):
                raise UsageError(f'{schema_path}: the feature {name}: unknown option {option} of the kind {value["kind"]}')
            is_list = option == 'shape'
            numbers = number if is_list else [number]
            if not isinstance(numbers, list) or not all(type(item) is int and 0 < item <= _MAX_NUMBERS for item in numbers):
                wanted = 'a list of positive integers' if is_list else 'a positive integer'
                raise UsageError(f'{schema_path}: the feature {name}: {option} must be {wanted}')


def _infer(name, found, given, source):
    """Returns what `infer_features` returns of a feature; of one to ignore {'kind', 'reason'}."""
    stored = {kind for kind, _ in found}
    lengths = {len(values) for _, values in found}
    if len(stored) > 1:
        return {'kind': IGNORE, 'reason': f'it is {" or ".join(sorted(stored))}'}
    feature = {'name': name, 'stored': stored.pop(), 'values': 1}
    kind = given.get('kind') or (_kind_of_bytes(found) if feature['stored'] == 'bytes' else NUMERIC)
    if kind == IGNORE:
        return {'kind': IGNORE, 'reason': 'it is neither text nor an image, or different in each example'}
    if not given and (len(lengths) > 1 or lengths == {0}):
        return {'kind': IGNORE, 'reason': 'its values differ in number'}
    if kind == NUMERIC:
        feature['values'] = math.prod(given['shape']) if 'shape' in given else max(lengths)
    allowed = {NUMERIC: ('float', 'int64'), CATEGORICAL: ('bytes', 'int64')}.get(kind, ('bytes',))
    if lengths != {feature['values']} or feature['stored'] not in allowed:
        counts = ' to '.join(str(length) for length in sorted({min(lengths), max(lengths)}))
        wanted = f'{feature["values"]} of {" or ".join(allowed)}'
        raise RunError(f'{source}: the feature {name} has {counts} values of {feature["stored"]}, but {kind} needs {wanted}')
    feature['kind'] = kind
    return {**feature, **_image_facts(name, [values[0] for _, values in found], given, source)} if kind == IMAGE else feature


def _kind_of_bytes(found):
    values = [values[0] for _, values in found if values]
    if any(values) and all(value.startswith(_MAGIC) for value in values if value):
        return IMAGE
    try:
        texts = [value.decode() for value in values]
    except UnicodeDecodeError:
        return IGNORE
    if sum(len(text.split()) for text in texts) >= _WORDS_OF_A_TEXT * len(texts):
        return TEXT
    return CATEGORICAL if len(set(texts)) < len(texts) else IGNORE


def _image_facts(name, images, given, source):
    """Returns the 'size', the 'channels', and whether the values are pixels instead of files."""
    size, channels = given.get('size'), given.get('channels')
    empty = sum(not image for image in images)
    if empty:
        raise RunError(f'{source}: the image {name} is empty in {empty} of the first {len(images)} examples that have it')
    is_raw = not all(image.startswith(_MAGIC) for image in images)
    if is_raw:
        lengths = {len(image) for image in images}
        if not size or lengths != {size * size * (channels or 1)}:
            raise UsageError(
                f'{source}: the images {name} are of {min(lengths)} to {max(lengths)} bytes, neither JPEG, PNG, GIF nor BMP: '
                'give their "size" and "channels" in the schema, if they are pixels'
            )
        return {'size': size, 'channels': channels or 1, 'is_raw': True}
    sizes, modes = zip(*(_open(image, name, source) for image in images))
    if not size:
        if len(set(sizes)) > 1 or sizes[0][0] != sizes[0][1]:
            raise UsageError(f'{source}: the images {name} are of different sizes, or not square: give a "size" in the schema')
        size = sizes[0][0]
    is_colored = any(image.startswith(_COLORED) for image in images)
    channels = channels or (1 if set(modes) <= {'1', 'L'} and not is_colored else 3)
    known = (3,) if is_colored else (1, 3, 4)
    if channels not in known:
        kinds = 'GIF and BMP files are' if is_colored else 'an image file is'
        wanted = ' or '.join(map(str, known))
        raise UsageError(f'{source}: {channels} channels of the image {name}: {kinds} decoded to {wanted} channels')
    if any(image.startswith(b'BM') and mode in ('1', 'L', 'P') for image, mode in zip(images, modes)):
        raise RunError(f'{source}: the image {name} is a BMP file, gray or with a palette, which cannot be decoded: use PNG')
    return {'size': size, 'channels': channels, 'is_raw': False}


def _open(image, name, source):
    try:
        with Image.open(io.BytesIO(image)) as opened:  # Reads only its header.
            return opened.size, opened.mode
    except UnidentifiedImageError:
        raise RunError(f'{source}: the image {name} is not an image of a kind that Pillow reads') from None
    except Exception as error:  # Pillow raises errors of many types.
        raise RunError(f'{source}: the image {name} cannot be read: {error}') from None
