"""tf.contrib.training.HParams: hyper-parameters with types."""

from collections.abc import Mapping
import json
import numbers
import re
from typing import Any

from tf_estimator.tf1 import hparam_pb2

_VALUE = re.compile(r'([a-zA-Z][\w.]*)(?:\[\s*(\d+)\s*\])?\s*=\s*(?:([^,\[]*)|\[([^\]]*)\])(?:,\s*|$)')
_KINDS: dict[str, Any] = {'bool': bool, 'int64': int, 'bytes': (str, bytes), 'float': float}  # In order: a bool is an int, too.


class HParams:
    """Hyper-parameters as attributes; each has the type of its first value, and is a single one or a list.

    Args:
      hparam_def: an HParamDef, as to_proto returns it, in place of kwargs.
      model_structure: is ignored.
      **kwargs: {name: value}. A value None has no type.
    """

    def __init__(self, hparam_def: Any = None, model_structure: Any = None, **kwargs: Any) -> None:
        if hparam_def is not None and kwargs:
            raise ValueError('hparam_def and initialization values are mutually exclusive')
        self._hparam_types: dict[str, tuple[type, bool]] = {}  # Subclasses of programs use it.
        for name, value in (kwargs if hparam_def is None else _from_proto(hparam_def)).items():
            self.add_hparam(name, value)

    def add_hparam(self, name: str, value: Any) -> None:
        """Adds a hyper-parameter; raises ValueError if the name is taken, or the value is an empty list."""
        if getattr(self, name, None) is not None:
            raise ValueError(f'Hyperparameter name is reserved: {name}')
        if isinstance(value, (list, tuple)):
            if not value:
                raise ValueError(f'Multi-valued hyperparameters cannot be empty: {name}')
            self._hparam_types[name] = (type(value[0]), True)
        else:
            self._hparam_types[name] = (type(value), False)
        setattr(self, name, value)

    def set_hparam(self, name: str, value: Any) -> None:
        """Changes the value; raises KeyError for an unknown name, ValueError if the type differs."""
        kind, is_list = self._hparam_types[name]
        if isinstance(value, list) != is_list:
            raise ValueError(f'{name} must {"" if is_list else "not "}be a list, but is {value!r}')
        cast = [_cast(name, kind, item) for item in value] if is_list else _cast(name, kind, value)
        setattr(self, name, cast)

    def del_hparam(self, name: str) -> None:
        """Removes the hyper-parameter, if it exists."""
        if hasattr(self, name):
            delattr(self, name)
            del self._hparam_types[name]

    def parse(self, values: str) -> 'HParams':
        """Sets values from text such as 'rate=0.1,sizes=[1,2],others[0]=3'; raises ValueError if it is wrong."""
        kinds = {name: kind for name, (kind, _) in self._hparam_types.items()}
        found = parse_values(values, kinds)
        for name, parsed in found.items():
            if isinstance(parsed, dict):
                items = dict(enumerate(getattr(self, name) if self._hparam_types[name][1] else []))
                if absent := parsed.keys() - items.keys():
                    raise ValueError(f'{name} has no value at {sorted(absent)} to set')
                parsed = [*(items | parsed).values()]
            found[name] = [parsed] if self._hparam_types[name][1] and not isinstance(parsed, list) else parsed
        return self.override_from_dict(found)

    def override_from_dict(self, values_dict: Mapping[str, Any]) -> 'HParams':
        for name, value in values_dict.items():
            self.set_hparam(name, value)
        return self

    set_from_map = override_from_dict  # Of TensorFlow 1.2.

    def parse_json(self, values_json: str) -> 'HParams':
        return self.override_from_dict(json.loads(values_json))

    def to_json(self, indent: Any = None, separators: Any = None, sort_keys: bool = False) -> str:
        values = {name: value for name, value in self.values().items() if not callable(value)}
        return json.dumps(values, indent=indent, separators=separators, sort_keys=sort_keys)

    def to_proto(self, export_scope: Any = None) -> Any:
        """Returns the HParamDef of all values; raises ValueError for a value of another type than text, bool, int or float."""
        found = hparam_pb2.HParamDef()
        for name, (kind, is_list) in self._hparam_types.items():
            named = next((text for text, of in _KINDS.items() if issubclass(kind, of)), None)
            if named is None:
                raise ValueError(f'Unsupported parameter type: {kind} of {name}')
            value = [_encoded(item) for item in getattr(self, name)] if is_list else _encoded(getattr(self, name))
            if is_list:
                getattr(found.hparam[name], f'{named}_list').value.extend(value)
            else:
                setattr(found.hparam[name], f'{named}_value', value)
        return found

    @staticmethod
    def from_proto(hparam_def: Any, import_scope: Any = None) -> 'HParams':
        return HParams(hparam_def)

    def values(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self._hparam_types}

    def get(self, key: str, default: Any = None) -> Any:
        """Returns the value, or the default for an unknown name; raises ValueError if the default has another type."""
        if key not in self._hparam_types:
            return default
        kind, is_list = self._hparam_types[key]
        if default is not None:
            if is_list != isinstance(default, list):
                raise ValueError(f'the default of {key} must {"" if is_list else "not "}be a list')
            for item in default if is_list else [default]:
                _cast(key, kind, item)
        return getattr(self, key)

    def __contains__(self, key: str) -> bool:
        return key in self._hparam_types

    def __str__(self) -> str:
        return ','.join(f'{name}={value}' for name, value in self.values().items())

    def __repr__(self) -> str:
        return f'{type(self).__name__}({sorted(self.values().items())})'


def parse_values(values: str, type_map: Mapping[str, type], ignore_unknown: bool = False) -> dict[str, Any]:
    """Returns the values of text such as 'x=5,sizes=[1,2],others[1]=3': {'x': 5, 'sizes': [1, 2], 'others': {1: 3}}.

    Args:
      type_map: {name: type of the value, or of the values of a list}.
      ignore_unknown: whether names without a type are left out.

    Raises:
      ValueError: the text is wrong, sets something twice, or a name has no type.
    """
    found: dict[str, Any] = {}
    position = 0
    while position < len(values):
        match = _VALUE.match(values, position)
        if not match:
            raise ValueError(f'Malformed hyperparameter value: {values[position:]}')
        position = match.end()
        name, index, value, items = match.groups()
        if name not in type_map:
            if ignore_unknown:
                continue
            raise ValueError(f'Unknown hyperparameter: {name}')
        if index is not None and items is not None:
            raise ValueError(f'Assignment of a list to a list index: {match[0]}')
        texts = [value] if items is None else filter(None, re.split('[ ,]', items))
        parsed = [_from_text(name, type_map[name], text) for text in texts]
        place: Any = found if index is None else found.setdefault(name, {})
        key: Any = name if index is None else int(index)
        if not isinstance(place, dict) or key in place:
            raise ValueError(f'Multiple assignments to {name} in {values}')
        place[key] = parsed if items is not None else parsed[0]
    return found


def _encoded(value):
    return value.encode() if isinstance(value, str) else value


def _from_proto(hparam_def):
    """Returns the values of an HParamDef, {name: value}, with texts for bytes."""
    found = {}
    for name, value in hparam_def.hparam.items():
        kind = value.WhichOneof('kind')
        if kind is None:
            raise ValueError(f'the hyperparameter {name} of the protocol buffer has no value')
        items = getattr(value, kind)
        items = [*items.value] if kind.endswith('_list') else [items]
        items = [item.decode() if isinstance(item, bytes) else item for item in items]
        found[name] = items if kind.endswith('_list') else items[0]
    return found


def _from_text(name, kind, text):
    try:
        if kind is bool:
            return text.lower() == 'true' if text.lower() in ('true', 'false') else bool(int(text))
        return text if kind is type(None) else kind(text)
    except (TypeError, ValueError):
        raise ValueError(f'Could not parse hparam {name} of type {kind.__name__} from {text!r}') from None


def _cast(name, kind, value):
    """Returns a value as the type; raises ValueError if it is of another sort: text, bool, int, or for floats any number."""
    if kind is type(None) or type(value) is kind:
        return value
    sort = next((each for each in (bool, numbers.Integral, numbers.Number, (str, bytes)) if issubclass(kind, each)), object)
    if isinstance(value, sort) and issubclass(kind, bool) == isinstance(value, bool):
        return kind(value)
    raise ValueError(f'Could not cast hparam {name} of type {kind.__name__} from value {value!r}')
