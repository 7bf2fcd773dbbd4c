"""The classes of masks: what their pixels have, and the names in classes.txt."""

from collections.abc import Collection, Mapping, Sequence
import functools
import os
from typing import Any

import tensorflow.compat.v1 as tf

from estimator_trainer.common.errors import UsageError, listed
from estimator_trainer.common.files import write_json
from estimator_trainer.common.own_data.description import log_classes
from estimator_trainer.common.records import records
from estimator_trainer.common.records.elements import elements
from estimator_trainer.common.targets import IGNORED, SEGMENTATION

NAMES_FILE = 'classes.txt'
_BATCH = 256
_MAX_BESIDE_IGNORED = 200  # Classes in masks with pixels to ignore; more must be said.

Pixels = dict[int, tuple[int, str]]  # {number: (pixels with it, the first mask that has it)}.


def survey(directory: str, splits: Sequence[str]) -> dict[str, Pixels]:
    """Returns what the masks of converted splits have; kept in masks.json beside their records."""
    path = os.path.join(directory, 'masks.json')
    if not tf.io.gfile.exists(path):
        write_json(path, {split: _count(directory, split) for split in splits})
    found = records.read_facts(path)
    return {split: {int(number): tuple(of_one) for number, of_one in pixels.items()} for split, pixels in found.items()}


def _count(directory, split):
    spec = {'mask_pixels': tf.io.FixedLenFeature([IGNORED + 1], tf.int64), 'mask_id': tf.io.FixedLenFeature([], tf.string)}
    found: dict[int, tuple[int, str]] = {}

    def make():
        return records.read(directory, split).batch(_BATCH).map(lambda serialized: tf.io.parse_example(serialized, spec))

    for batch in elements(make):
        for number in batch['mask_pixels'].any(0).nonzero()[0].tolist():
            pixels = batch['mask_pixels'][:, number]
            total, first = found.get(number, (0, os.fsdecode(batch['mask_id'][pixels.argmax()])))
            found[number] = total + int(pixels.sum()), first
    return found


def read_names(root: str) -> list[str]:
    """Returns the names of the classes in classes.txt of a directory, a line for each from 0 on; [] without that file."""
    path = os.path.join(root, NAMES_FILE)
    if not os.path.exists(path):
        return []
    try:
        with open(path, encoding='utf-8-sig') as file:
            names = [line.strip() for line in file.read().rstrip().splitlines()]
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f'{path}: cannot be read as UTF-8 text: {error}') from None
    for number, name in enumerate(names):
        if not name or name in names[:number]:
            problem = f'is {name} again' if name else 'is empty'
            raise UsageError(f'{path}: line {number + 1} {problem}: each line is the name of a class, that of number 0 first')
    if len(names) < 2:
        raise UsageError(f'{path}: has {len(names)} names, but there must be at least two classes, the background among them')
    return names


def describe(
    root: str, found: Mapping[str, Pixels], num_classes: int, names: Sequence[str], needed: Collection[str]
) -> dict[str, Any]:
    """Returns the metadata of masks: their task, classes, and 'mask_values', the numbers of the classes in masks.

    A number of 255 is IGNORED; but if there are 0 and 255 alone, these are the two classes.

    Args:
      root: of the masks, for messages.
      found: of `survey`.
      num_classes: as given, 0 if it is not.
      names: of `read_names`.
      needed: the splits that must have pixels of a class; masks of others may be unknown.

    Raises:
      UsageError: a mask has a number that is no class, or all pixels are of one class, or to be ignored in a needed split.
    """
    first = {number: mask for pixels in reversed([*found.values()]) for number, (_, mask) in pixels.items()}
    if names and num_classes not in (0, len(names)):
        raise UsageError(f'num_classes={num_classes}, but {os.path.join(root, NAMES_FILE)} has {len(names)} names')
    values = _values(root, first, len(names) or num_classes, f'{NAMES_FILE} has' if names else 'num_classes is')
    if len({*first} & {*values}) < 2:
        raise UsageError(
            f'{root}: masks have only the numbers {listed([*map(str, sorted(first))], 5)}, but need at least two classes '
            f'besides {IGNORED}, which marks pixels to ignore'
        )
    if empty := [split for split in sorted(found.keys() & needed) if found[split] and not {*found[split]} & {*values}]:
        raise UsageError(
            f'{root}: all pixels of the masks of the split {empty[0]} are {IGNORED}, to be ignored: correct these masks'
        )
    described = {'task': SEGMENTATION, 'num_classes': len(values), 'mask_values': values}
    return {**described, **({'class_names': list(names)} if names else {})}


def _values(root, first, count, given):
    """Returns the numbers of the classes in masks, of which there are `count`, if that is not 0."""
    if {*first} == {0, IGNORED} and count in (0, 2):
        return [0, IGNORED]
    numbers = sorted({*first} - {IGNORED})
    values = [*range(count or max(numbers, default=0) + 1)]
    if wrong := [number for number in numbers if number not in values]:
        raise UsageError(
            f'{os.path.join(root, first[wrong[0]])}: has pixels of the class {wrong[0]}, but {given} {count}, so that classes '
            f'are 0 to {count - 1}, and {IGNORED} for pixels to ignore: correct one of them'
        )
    if not count and IGNORED in first and len(values) > _MAX_BESIDE_IGNORED:
        raise UsageError(
            f'{root}: masks have {len(numbers)} numbers up to {max(numbers)}, and {IGNORED}, as those of 0 and {IGNORED} that '
            f'were blurred, blended or saved as JPEG: make all pixels 0 or {IGNORED} again, or, if there are {len(values)} or '
            f'more classes, say so by num_classes or {NAMES_FILE}'
        )
    if numbers and not count and 2 * len(numbers) < len(values):
        raise UsageError(
            f'{root}: masks have the numbers {listed([*map(str, numbers)], 10)} alone: renumber them from 0 on, or, if there '
            f'are {len(values)} or more classes, say so by num_classes or {NAMES_FILE}'
        )
    return values


def check_known(path: str, numbers: Sequence[int], values: Sequence[int]) -> None:
    """Raises UsageError if a mask has numbers that are no class of a model, given its 'mask_values', nor IGNORED."""
    if wrong := sorted({*numbers} - {*values, IGNORED}):
        raise UsageError(
            f'{path}: has pixels of the class {wrong[0]}, but the model was trained with the numbers '
            f'{listed([*map(str, values)], 10)}'
        )


def warn_of_ignored(directory: str, numbers: Collection[int], values: Sequence[int]) -> None:
    """Warns, once for a directory, if a mask, or those of a split, have 0 and 255 alone, which is no class of the model."""
    if {*numbers} == {0, IGNORED} and [*values] == [0, 1]:
        _warn_of_ignored(directory)


@functools.cache
def _warn_of_ignored(directory):
    tf.logging.warning(
        '%s: in masks that have the numbers 0 and %d alone, %d is taken for pixels to ignore, not for class 1, as the model '
        'was trained with 0 and 1.',
        *(directory, *[IGNORED] * 2),
    )


def names_of(metadata: Mapping[str, Any]) -> list[str]:
    """Returns the names of the classes of masks, or their numbers as texts."""
    return metadata.get('class_names') or [*map(str, range(metadata['num_classes']))]


def log(root: str, found: Mapping[str, Pixels], metadata: Mapping[str, Any], trained: str) -> None:
    """Logs the classes with their pixels, and warns of those that cannot be learned or judged, and of decisions."""
    values, names = metadata['mask_values'], names_of(metadata)
    if IGNORED in values:
        tf.logging.warning(
            '%s: masks have the numbers 0 and %d alone: %d is taken for class 1, not for pixels to ignore.',
            root,
            *[IGNORED] * 2,
        )
    elif values == [0, 1] and 'class_names' not in metadata and any(IGNORED in pixels for pixels in found.values()):
        tf.logging.warning(
            '%s: masks have the numbers 0, 1 and %d: %d is taken for pixels to ignore, not for class 1.', root, *[IGNORED] * 2
        )
    log_classes(root, names, pixels_by_class(found, metadata), trained, 'pixel')


def pixels_by_class(found: Mapping[str, Pixels], metadata: Mapping[str, Any]) -> dict[str, dict[str, int]]:
    """Returns {split: {name of a class: pixels}}."""
    classes = [*zip(metadata['mask_values'], names_of(metadata))]
    return {split: {name: pixels.get(value, (0, ''))[0] for value, name in classes} for split, pixels in found.items()}


def summary(root: str, found: Mapping[str, Pixels], metadata: Mapping[str, Any]) -> str:
    """Returns the share of each class, and of pixels to ignore, in the pixels of each split."""
    lines = [f'{root}: masks with {metadata["num_classes"]} classes, shares of pixels in {", ".join(found)}:']
    totals = {split: sum(count for count, _ in pixels.values()) for split, pixels in found.items()}
    by_split = pixels_by_class(found, metadata)
    for name in names_of(metadata):
        lines.append(f'{name}: {", ".join(f"{100 * by_split[split][name] / max(totals[split], 1):.2f} %" for split in found)}')
    rest = [1 - sum(by_split[split].values()) / max(totals[split], 1) for split in found]
    if any(rest):
        lines.append(f'ignored: {", ".join(f"{100 * share:.2f} %" for share in rest)}')
    return '\n'.join([*lines, ''])
