"""Schema files: JSON with the kinds of columns or features, and the names of the target and other roles."""

from collections.abc import Collection, Iterable, Mapping
import dataclasses
from typing import Any

from estimator_trainer.common.errors import UsageError, listed
from estimator_trainer.common.files import read_json
from estimator_trainer.hparams.text import nearest

CLASSIFICATION, REGRESSION = TASKS = ('classification', 'regression')
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

    @property
    def task(self) -> str | None:
        return self.content.get('task')

    @property
    def given(self) -> dict[str, dict[str, Any]]:
        """{name: its 'kind', and its options} of the described columns or features."""
        items = self.content.get(self.terms.items, {})
        form = dict if any(self.terms.kinds.values()) else ()
        return {name: item if isinstance(item, form) else {'kind': item} for name, item in items.items()}

    @property
    def roles(self) -> dict[str, str]:
        """{role: name}."""
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
        if not isinstance(value, dict if key == terms.items else str):
            raise UsageError(f'{path}: {key} must be {"an object" if key == terms.items else "a string"}')
    task = content.get('task')
    if task is not None and task not in TASKS:
        raise UsageError(f'{path}: task is {task}, but must be {" or ".join(TASKS)}')
    return Schema(terms, path, content)


def schema_of(facts: Mapping[str, Any]) -> Schema:
    """Returns the schema by which a table is read as the one with this metadata was; see datasets/table.py."""
    roles = {column['kind']: column['name'] for column in facts['columns'] if column['kind'] in COLUMNS.roles}
    kinds = {column['name']: column['kind'] for column in facts['columns'] if column['kind'] not in COLUMNS.roles}
    content = {'columns': kinds, **roles, 'task': facts['task']}
    return Schema(COLUMNS, 'the columns of the trained model', content, ignores_others=True)


def find_roles(schema: Schema, names: Collection[str], source: str, target: str = '') -> dict[str, str]:
    """Checks a schema against the data, and returns {role: name} for the label and the schema's other roles.

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
    _check_names('--hparams=target', terms.item, filter(None, [target]), names, source)
    _check_names(path, terms.item, [*schema.given, *schema.roles.values()], names, source)
    for name, given in schema.given.items():
        _check_given(f'{path}: the {terms.item} {name}', given, terms)
    if target and schema.roles.get(label, target) != target:
        raise UsageError(f'--hparams=target={target}: {path} names another target, {schema.roles[label]}')
    usual = [name for name in names if (name.lower() if terms.ignores_case else name) in USUAL_LABELS]
    found = target or schema.roles.get(label) or (usual[0] if len(usual) == 1 else '')
    if not found:
        raise UsageError(f'{terms.cure}: the {terms.items} of {source} are: {", ".join(names)}')
    roles = {label: found, **{role: name for role, name in schema.roles.items() if role != label}}
    if len(set(roles.values())) < len(roles):
        raise UsageError(f'{path}: {", ".join(roles)} must be different {terms.items}')
    return roles


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
