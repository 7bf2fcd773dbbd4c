"""Facts from the source of a model or dataset module, without the seconds that importing it with TensorFlow takes."""

import ast
import dataclasses
import importlib
from pathlib import Path
from typing import Any

_OWN = 'estimator_trainer.'


@dataclasses.dataclass(frozen=True)
class Source:
    """Facts from the source of a module.

    Attributes:
      doc: its docstring.
      params: the result of its get_params().
      functions: the source of that function, preceded by those of the other modules' get_params() that it includes.
    """

    doc: str
    params: dict[str, Any]
    functions: tuple[str, ...]


class _Unclear(Exception):
    """The source does not suffice: the module must be imported."""


def read(kind: str, name: str) -> Source | None:
    """Returns the facts from a module's source; None if the module must be imported.

    That is the case for dotted paths, and if get_params does more than return a dict of plain values and **other.get_params()
    of modules of this project.

    Args:
      kind: 'model' or 'dataset'.
      name: the value of the flag.
    """
    if '.' in name:
        return None
    try:
        return _read(f'{_OWN}{kind}s.{name}')
    except (_Unclear, OSError, SyntaxError, ValueError, TypeError, RecursionError):
        return None


def docstring(kind: str, name: str) -> str:
    """Returns the docstring of a module under models/ or datasets/, '' if it is not written in Python.

    Raises:
      OSError, SyntaxError, ValueError: the file cannot be read, or is not Python.
    """
    path = _path(f'{_OWN}{kind}s.{name}')
    return ast.get_docstring(ast.parse(path.read_bytes(), path.name)) or '' if path else ''


def _path(module):
    """Returns the file of a module of this project, or None; packages below the first are not imported, and must be empty."""
    if not module.startswith(_OWN):
        return None
    root, *parts = module.removeprefix(_OWN).split('.')
    for directory in map(Path, importlib.import_module(f'{_OWN}{root}').__path__):
        path = directory.joinpath(*parts).with_suffix('.py')
        packages = [parent / '__init__.py' for parent in path.parents if directory in parent.parents]
        if path.is_file() and all(map(_is_empty, packages)):
            return path
    return None


def _is_empty(package):
    body = ast.parse(package.read_bytes()).body if package.is_file() else []
    return all(isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) for node in body)


def _read(module):
    path = _path(module)
    if not path:
        raise _Unclear
    text = path.read_text(encoding='utf-8')
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
    """Returns the function of this name."""
    function = _only(tree, 'get_params')
    if not isinstance(function, ast.FunctionDef) or function not in tree.body or ast.unparse(function.args):
        raise _Unclear
    return function


def _only(tree, name):
    """Returns the only node that binds a name."""
    found = [node for node in ast.walk(tree) if name in _bound(node) or '*' in _bound(node)]
    if len(found) != 1:
        raise _Unclear
    return found[0]


def _bound(node):
    """Returns the names that a node defines, imports, assigns or deletes; '*' for an import of all names."""
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            return [node.name]
        case ast.Import() | ast.ImportFrom():
            return [alias.asname or alias.name.partition('.')[0] for alias in node.names]
        case ast.Name(ctx=ast.Store() | ast.Del()):
            return [node.id]
    return []


def _returned(function):
    """Returns the dict of a function's only statement, a return."""
    body = function.body[1:] if ast.get_docstring(function) is not None else function.body
    is_return = len(body) == 1 and isinstance(body[0], ast.Return) and isinstance(body[0].value, ast.Dict)
    if function.decorator_list or not is_return:
        raise _Unclear
    return body[0].value


def _included(tree, value):
    """Returns the name of the module of `other.get_params()`."""
    other, _, call = ast.unparse(value).partition('.')
    node = _only(tree, other)
    if call != 'get_params()' or not isinstance(node, ast.ImportFrom) or node.level:
        raise _Unclear
    (name,) = [alias.name for alias in node.names if other == (alias.asname or alias.name)]
    return f'{node.module}.{name}'


def _name(key):
    if not isinstance(key, str):
        raise _Unclear
    return key


def _plain(value):
    items = value if isinstance(value, list) else [value]
    if any(type(item) not in (bool, int, float, str) or type(item) is not type(items[0]) for item in items):
        raise _Unclear
    return value
