"""Hyper-parameters that no source of a program mentions, so that nothing can read them."""

import ast
from collections.abc import Iterable, Iterator
import os
from pathlib import Path
import re
import sys
import types
from typing import Any

import estimator_trainer
from estimator_trainer.common.plugins.code import is_of_library

_OF_PROJECT = tuple(f'{os.path.abspath(path)}{os.sep}' for path in estimator_trainer.__path__)
_ACCESS = re.compile(r"""[.'"](\w+)""")  # As in params.name, params['name'] or ('name', ...).


def unmentioned(names: Iterable[str], modules: Iterable[Any]) -> set[str]:
    """Returns those of the names that no loaded source mentions, except those of libraries, and a module's own get_params().

    Args:
      names: of hyper-parameters.
      modules: the model and dataset modules, or objects in their place. If the source of one is not available, as in a
        notebook, nothing is known of any name.
    """
    found = set(names)
    paths = [getattr(_module_of(module), '__file__', None) for module in modules]
    if not found or not paths or None in paths:
        return set()
    try:
        own = {os.path.abspath(str(path)) for path in paths}
        for path in {*own, *_loaded_files()}:
            source, is_of_framework = Path(path).read_bytes(), path not in own and path.startswith(_OF_PROJECT)
            found -= set(_ACCESS.findall(source.decode()) if is_of_framework else _words(ast.parse(source)))
    except (OSError, SyntaxError, ValueError, RecursionError):
        return set()
    return found


def _module_of(module):
    return module if isinstance(module, types.ModuleType) else sys.modules.get(getattr(module, '__module__', ''))


def _loaded_files() -> Iterator[str]:
    """Yields the Python files of the loaded modules that belong neither to Python nor to a library."""
    for name, module in [*sys.modules.items()]:
        path = os.path.abspath(getattr(module, '__dict__', {}).get('__file__') or '')  # Lazy modules stay unloaded.
        is_own = name.partition('.')[0] == 'estimator_trainer'
        is_program = not path.startswith(_OF_PROJECT) and not is_of_library(path)
        if path.endswith('.py') and os.path.isfile(path) and (is_own or is_program):
            yield path


def _words(tree: ast.Module) -> Iterator[str]:
    """Yields the names, and the words of texts, in a source without its functions get_params."""
    pending: list[ast.AST] = [tree]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.FunctionDef) and node.name == 'get_params':
            continue
        pending += ast.iter_child_nodes(node)
        match node:
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.keyword(arg=str(name)) | ast.arg(arg=name):
                yield name
            case ast.Constant(value=str(text)):
                yield from re.findall(r'\w+', text)
