"""Schema files: JSON with the kinds of columns or features, and the names of the target and other roles."""

from collections.abc import Collection, Iterable, Mapping, Sequence
import dataclasses
import json
from typing import Any

from estimator_trainer.common.errors import UsageError, listed
from estimator_trainer.common.files import read_json
from estimator_trainer.common.targets import CLASSIFICATION, MULTILABEL, REGRESSION
from estimator_trainer.hparams.text import nearest

TASKS = (CLASSIFICATION, REGRESSION)
NUMERIC, CATEGORICAL, DATE, IMAGE, TEXT, IGNORE = 'numeric', 'categorical', 'date', 'image', 'text', 'ignore'
TARGET, LABEL, WEIGHT, ID = 'target', 'label', 'weight', 'id'  # A table calls its label the target.
USUAL_LABELS = ('label', 'target')
_MAX_NUMBER = 10**6


@dataclasses.dataclass(frozen=True)
class Terms:
    """The vocabulary of schemas for one sort of data.

    Attributes:
      item: 'column' or 'feature'.
      roles: the possible roles, the label first.
      kinds: {kind: its options}.
      cure: the way to name the label, for messages.
      ignores_case: whether Label also names the label.
    """

    item: str
    roles: tuple[str, ...]
    kinds: Mapping[str, tuple[str, ...]]
    cure: str
    ignores_case: bool = False

    @property
    def items(self) -> str:
        """The key of columns or features in schemas and metadata."""
        return f'{self.item}s'


COLUMNS = Terms(
    'column',
    (TARGET, ID, WEIGHT),
    {NUMERIC: (), CATEGORICAL: (), DATE: (), TEXT: (), IGNORE: ()},
    '--hparams=target=COLUMN is required',
    True,
)
FEATURES = Terms(
    'feature',
    (LABEL, WEIGHT, ID),
    {NUMERIC: ('shape',), CATEGORICAL: (), IMAGE: ('size', 'channels'), TEXT: (), IGNORE: ()},
    '--hparams=schema must name the "label"',
)


@dataclasses.dataclass(frozen=True)
class Schema:
    """The content of a schema file; path is for messages; ignores_others is whether it names all columns to learn from."""

    terms: Terms
    path: str
    content: Mapping[str, Any]
    ignores_others: bool = False

    def task_of(self, name: str) -> str | None:
        """Returns the given task of a target: CLASSIFICATION, REGRESSION, or None."""
        task = self.content.get('task')
        found = task.get(name) if isinstance(task, Mapping) else task
        return CLASSIFICATION if found == MULTILABEL else found

    @property
    def is_multilabel(self) -> bool:
        """Whether all targets were said to be labels that are 0 or 1."""
        return self.content.get('task') == MULTILABEL

    @property
    def given(self) -> dict[str, dict[str, Any]]:
        """{name: its 'kind', and its options} of the described columns or features."""
        items = self.content.get(self.terms.items, {})
        form = dict if any(self.terms.kinds.values()) else ()
        return {name: item if isinstance(item, form) else {'kind': item} for name, item in items.items()}

    @property
    def roles(self) -> dict[str, Any]:
        """{role: name}; of several targets, a list of names."""
        return {role: self.content[role] for role in self.terms.roles if role in self.content}


def read_schema(path: str, terms: Terms) -> Schema:
    """Reads a schema file; returns an empty schema if the path is ''.

    Raises:
      UsageError: the file cannot be read, has an unknown key, or a value of the wrong type.
    """
    try:
        content = read_json(path) if path else {}
    except ValueError as error:
        raise UsageError(f'--hparams=schema: {error}') from None
    known = [terms.items, *terms.roles, 'task']
    for key, value in content.items():
        if key not in known:
            raise UsageError(f'{path}: unknown key {key}{nearest(key, known)}; the keys are: {", ".join(known)}')
        if not _has_form(key, value, terms):
            raise UsageError(f'{path}: {key} must be {_form_of(key, terms)}')
    task = content.get('task', CLASSIFICATION)
    for each in task.values() if isinstance(task, dict) else () if task == MULTILABEL else (task,):
        if each not in TASKS:
            also = '' if isinstance(task, dict) else f', or {MULTILABEL}'
            raise UsageError(f'{path}: task is {each}, but must be {" or ".join(TASKS)}{also}')
    return Schema(terms, path, content)


def _has_form(key, value, terms):
    if key == terms.roles[0] and isinstance(value, list):
        return bool(value) and all(isinstance(name, str) for name in value)
    if key == 'task' and isinstance(value, dict):
        return all(isinstance(task, str) for task in value.values())
    return isinstance(value, dict if key == terms.items else str)


def _form_of(key, terms):
    if key == terms.items:
        return 'an object'
    return {terms.roles[0]: 'a string, or a list of strings', 'task': 'a string, or one for each target'}.get(key, 'a string')


def schema_of(facts: Mapping[str, Any]) -> Schema:
    """Returns the schema by which a table is read as the one with this metadata was; see datasets/table.py."""
    roles = {column['kind']: column['name'] for column in facts['columns'] if column['kind'] in COLUMNS.roles}
    targets, task = facts.get('targets', ()), facts['task']
    if targets:
        roles[TARGET] = [target['name'] for target in targets]
        task = task if task == MULTILABEL else {target['name']: target['task'] for target in targets}
    kinds = {column['name']: column['kind'] for column in facts['columns'] if column['kind'] in COLUMNS.kinds}
    content = {'columns': kinds, **roles, 'task': task}
    return Schema(COLUMNS, 'the columns of the trained model', content, ignores_others=True)


def names_in(target: str, known: Collection[str] = ()) -> list[str]:
    """Returns the names in the hyper-parameter target: one, or those of a list such as [a,b] or, in JSON, ["a", "b"]."""
    if target in known or not (target.startswith('[') and target.endswith(']')):
        return [target] if target else []
    try:
        found = json.loads(target)
    except ValueError:
        found = [name.strip() for name in target[1:-1].split(',')]
    return [*filter(None, map(str, found))]


def by_name(roles: Mapping[str, Any]) -> dict[str, str]:
    """Returns {name: role} of {role: name or names}."""
    return {name: role for role, names in roles.items() for name in ([names] if isinstance(names, str) else names)}


def find_roles(schema: Schema, names: Collection[str], source: str, target: str = '') -> dict[str, Any]:
    """Checks a schema against the data, and returns {role: name} for the label and the schema's other roles.

    Of several labels, the role has a list of their names.

    Args:
      schema: the schema.
      names: of the existing columns or features.
      source: of the data, for messages.
      target: the hyper-parameter of this name.

    Raises:
      UsageError: the schema is wrong, names an unknown column or feature, or the label is unknown.
    """
    terms, path = schema.terms, schema.path
    label = terms.roles[0]
    targets, of_schema = names_in(target, names), [*by_name({label: schema.roles.get(label, [])})]
    _check_names('--hparams=target', terms.item, targets, names, source)
    _check_names(path, terms.item, [*schema.given, *by_name(schema.roles)], names, source)
    _check_labels('--hparams=target', targets, schema)
    _check_labels(path, schema.roles.get(label, []), schema)
    for name, given in schema.given.items():
        _check_given(f'{path}: the {terms.item} {name}', given, terms)
    if targets and (of_schema or targets) != targets:
        raise UsageError(f'--hparams=target={target}: {path} names another target, {", ".join(of_schema)}')
    usual = [name for name in names if (name.lower() if terms.ignores_case else name) in USUAL_LABELS]
    found = targets or of_schema or (usual if len(usual) == 1 else [])
    if not found:
        raise UsageError(f'{terms.cure}: the {terms.items} of {source} are: {", ".join(names)}')
    roles = {
        label: found if len(found) > 1 else found[0],
        **{role: name for role, name in schema.roles.items() if role != label},
    }
    if len(by_name(roles)) < len(found) + len(roles) - 1:
        raise UsageError(f'{path}: {", ".join(roles)} must be different {terms.items}')
    return roles


def _check_labels(source: str, names: Sequence[str], schema: Schema) -> None:
    """Raises UsageError if one of several labels is named twice, or is given a kind as something to learn from."""
    if isinstance(names, str) or len(names) < 2:
        return
    if repeated := [name for name in names if names.count(name) > 1]:
        raise UsageError(f'{source}: {repeated[0]} is named twice')
    if also := [name for name in names if schema.given.get(name, {}).get('kind', IGNORE) != IGNORE]:
        raise UsageError(f'{source}: {also[0]} is a target, and {schema.path} makes it a {schema.terms.item} to learn from')


def _check_names(path, item, names, known, source):
    for name in names:
        if name not in known:
            shown = listed(known, 50)
            raise UsageError(f'{path}: {source} has no {item} {name}{nearest(name, known)}; its {item}s are: {shown}')


def _check_given(place, given, terms):
    kind = given.get('kind')
    if kind not in (*terms.kinds,):  # It may be of any type.
        raise UsageError(f'{place} is of kind {kind}, but the kinds are: {", ".join(terms.kinds)}')
    for option, value in given.items():
        if option == 'kind':
            continue
        if option not in terms.kinds[kind]:
            raise UsageError(f'{place}: unknown option {option} of the kind {kind}')
        is_list = option == 'shape'
        numbers = value if is_list else [value]
        if not isinstance(numbers, list) or not all(type(number) is int and 0 < number <= _MAX_NUMBER for number in numbers):
            raise UsageError(f'{place}: {option} must be {"a list of positive integers" if is_list else "a positive integer"}')


def check_same_columns(source: str, trained: Iterable[Mapping[str, Any]], found: Iterable[Mapping[str, Any]]) -> None:
    """Raises UsageError if the columns, {'name', 'kind'}, of some data differ from those in training."""
    kinds, kinds_found = ({item['name']: item['kind'] for item in items} for items in (trained, found))
    for name, kind in kinds.items():
        if kinds_found.get(name) != kind:
            now = f'is {kinds_found[name]} now' if name in kinds_found else 'is missing now'
            cure = ': with --input, the model reads files as it learned to' if name in kinds_found else ''
            raise UsageError(f'{source}: the column {name}, on which the model was trained as {kind}, {now}{cure}')
