"""Schema files: JSON with the kinds of columns or features, and the names of those with a role, such as the target."""

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from common.errors import UsageError
from common.files import read_json
from hparams.text import nearest

CLASSIFICATION, REGRESSION = TASKS = ('classification', 'regression')


def read_schema(path: str, entries: str, roles: Collection[str]) -> dict[str, Any]:
    """Returns the content of a schema file; an empty dict if the path is ''.

    Args:
      path: of a JSON file.
      entries: its key with an object of columns or features.
      roles: its keys with the name of one.

    Raises:
      UsageError: the file cannot be read, has an unknown key, or a value of the wrong type.
    """
    if not path:
        return {}
    try:
        schema = read_json(path)
    except ValueError as error:
        raise UsageError(f'--hparams=schema: {error}') from None
    known = [entries, *roles, 'task']
    for key, value in schema.items():
        if key not in known:
            raise UsageError(f'{path}: unknown key {key}{nearest(key, known)}; the keys are: {", ".join(known)}')
        if not isinstance(value, dict if key == entries else str):
            raise UsageError(f'{path}: {key} must be {"an object" if key == entries else "a string"}')
    task = schema.get('task')
    if task is not None and task not in TASKS:
        raise UsageError(f'{path}: task is {task}, but must be {" or ".join(TASKS)}')
    return schema


def check_names(path: str, what: str, names: Iterable[str], known: Collection[str], source: str) -> None:
    """Raises UsageError if a schema names a column or feature that the data does not have.

    Args:
      path: of the schema file, or the hyper-parameter that gives the names.
      what: 'column' or 'feature'.
      names: the names.
      known: those that there are.
      source: the file of the data.
    """
    for name in names:
        if name not in known:
            shown = ', '.join(list(known)[:50]) + (', ...' if len(known) > 50 else '')
            raise UsageError(f'{path}: {source} has no {what} {name}{nearest(name, known)}; its {what}s are: {shown}')


def add_roles(
    schema: Mapping[str, Any], path: str, what: str, roles: Mapping[str, str], optional: Iterable[str]
) -> dict[str, str]:
    """Returns {role: name} with those of the optional roles that a schema names.

    Args:
      schema: from `read_schema`.
      path: of the schema file.
      what: 'column' or 'feature'.
      roles: those that are known.
      optional: further roles.

    Raises:
      UsageError: two roles have the same name.
    """
    found = {**roles, **{role: schema[role] for role in optional if role in schema}}
    if len(set(found.values())) < len(found):
        raise UsageError(f'{path}: {", ".join(found)} must be different {what}s')
    return found


def check_same_kinds(source: str, what: str, trained: Iterable[Mapping[str, Any]], found: Iterable[Mapping[str, Any]]) -> None:
    """Raises UsageError if the columns or features of some data are not those that a model was trained on.

    Args:
      source: what names the data.
      what: 'column' or 'feature'.
      trained: [{'name', 'kind'}] of the training data.
      found: the same of the data.
    """
    kinds, kinds_found = ({item['name']: item['kind'] for item in items} for items in (trained, found))
    for name, kind in kinds.items():
        if kinds_found.get(name) != kind:
            now = f'is {kinds_found[name]} now' if name in kinds_found else 'is missing now'
            raise UsageError(f'{source}: the {what} {name}, on which the model was trained as {kind}, {now}')


def check_kinds(path: str, what: str, kinds: Mapping[str, Any], known: Collection[str]) -> None:
    """Raises UsageError if a schema gives a column or feature an unknown kind."""
    for name, kind in kinds.items():
        if kind not in known:
            raise UsageError(f'{path}: the {what} {name} is of kind {kind}, but the kinds are: {", ".join(known)}')
