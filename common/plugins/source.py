"""What the source of a model or dataset module says, without importing it: TensorFlow, which modules import, takes seconds."""

import ast
import dataclasses
import importlib.util
from pathlib import Path
from typing import Any

_OWN = ('common', 'datasets', 'models')  # Packages that do nothing when they are imported.


@dataclasses.dataclass(frozen=True)
class Source:
    """What the source of a module says.

    Attributes:
      doc: its docstring.
      params: what its get_params() returns.
      functions: the source of that function, and before it those of the other modules' get_params() that it includes.
    """

    doc: str
    params: dict[str, Any]
    functions: tuple[str, ...]


def read(kind: str, name: str) -> Source | None:
    """Returns what a module's source says; None if only importing the module can tell.

    That is so for modules that are given by their dotted paths, and if get_params does more than to return a dict of plain
    values, with **other.get_params() of modules of this project among them.

    Args:
      kind: 'model' or 'dataset'.
      name: the value of the flag; there must be such a module.
    """
    if '.' in name:
        return None
    try:
        return _read(f'{kind}s.{name}')
    except (OSError, SyntaxError, ValueError, TypeError):
        return None


def docstring(kind: str, name: str) -> str:
    """Returns the docstring of a module under models/ or datasets/.

    Raises:
      OSError, SyntaxError, ValueError: the file cannot be read, or is not Python.
    """
    return ast.get_docstring(ast.parse(_path(f'{kind}s.{name}').read_bytes(), f'{name}.py')) or ''


def _path(module):
    spec = importlib.util.find_spec(module)
    if not spec or not spec.origin:
        raise ValueError
    return Path(spec.origin)


def _read(module):
    """Returns the Source of a module; raises ValueError if only importing it can tell."""
    text = _path(module).read_text(encoding='utf-8')
    tree = ast.parse(text)
    function = _get_params(tree)
    returned = _returned(function)
    params: dict[str, Any] = {}
    functions = []
    for key, value in zip(returned.keys, returned.values, strict=True):
        if key is None:
            included = _read(_included(tree, value))
            params |= included.params
            functions += included.functions
        else:
            params[_name(ast.literal_eval(key))] = _plain(ast.literal_eval(value))
    functions.append(ast.get_source_segment(text, function) or '')
    return Source(ast.get_docstring(tree) or '', params, tuple(functions))


def _get_params(tree):
    """Returns the function of this name; raises ValueError if the name may be another object."""
    named = [node for node in ast.walk(tree) if _binds(node, 'get_params')]
    if len(named) != 1 or named[0] not in tree.body or not isinstance(named[0], ast.FunctionDef):
        raise ValueError
    return named[0]


def _binds(node, name):
    """Whether a node of a syntax tree defines, imports or assigns a name."""
    if isinstance(node, ast.alias):
        return name in (node.name, node.asname)
    return name == (getattr(node, 'id', '') if isinstance(getattr(node, 'ctx', None), ast.Store) else getattr(node, 'name', ''))


def _returned(function):
    """Returns the expression of the return statement that a function consists of; raises ValueError if it does more."""
    body = function.body[1:] if ast.get_docstring(function) is not None else function.body
    is_return = len(body) == 1 and isinstance(body[0], ast.Return) and isinstance(body[0].value, ast.Dict)
    if function.decorator_list or not is_return:
        raise ValueError
    return body[0].value


def _included(tree, value):
    """Returns the name of the module of `other.get_params()`; raises ValueError if it is none of this project."""
    other, _, call = ast.unparse(value).partition('.')
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and (node.module or '').partition('.')[0] in _OWN:
            for alias in node.names:
                if (alias.asname or alias.name, call) == (other, 'get_params()'):
                    return f'{node.module}.{alias.name}'
    raise ValueError


def _name(key):
    if not isinstance(key, str):
        raise ValueError
    return key


def _plain(value):
    items = value if isinstance(value, list) else [value]
    if any(type(item) not in (bool, int, float, str) or type(item) is not type(items[0]) for item in items):
        raise ValueError
    return value
