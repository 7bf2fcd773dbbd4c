"""The names of libraries that a file uses, by its syntax alone."""

from _compat_pickle import IMPORT_MAPPING, NAME_MAPPING
import ast
import collections
from collections.abc import Collection
import contextlib
import dataclasses
import re
import sys
from typing import Any

from tf_estimator.check.files import parse

import numpy as np

_FALLBACKS = {'ImportError', 'ModuleNotFoundError', 'AttributeError', 'NameError'}
_CHOICES = (ast.Assign, ast.Import, ast.ImportFrom, ast.Return)
_VERSIONS = re.compile(
    r'\b(__version__|VERSION|version_info|PY[23]|TYPE_CHECKING|(tf|TF|tensorflow)_?(version|VERSION))\b|\b(hasattr|dir)\((tf|tensorflow)\b'
)
# Methods that only objects of TensorFlow 1 have: {name: where}
_METHODS = {
    name: f'data.Dataset.{name}'
    for name in ('make_initializable_iterator', 'make_one_shot_iterator', 'output_classes', 'output_shapes', 'output_types')
}
_ARRAY_METHODS = {'tostring'} - set(dir(np.ndarray))  # NumPy 2.3 has dropped it.
# {what Python 2 had: what to write}
_PYTHON_2 = {
    name: '.'.join(new).removeprefix('builtins.') for (module, name), new in NAME_MAPPING.items() if module == '__builtin__'
}
_PYTHON_2 |= {'cmp': '(a > b) - (a < b)', 'execfile': 'runpy.run_path', 'raw_input': 'input'}
_PYTHON_2_METHODS = dict(has_key='in', iteritems='items', iterkeys='keys', itervalues='values')
_PYTHON_2_MODULES = {old: new for old, new in IMPORT_MAPPING.items() if old not in sys.stdlib_module_names}


@dataclasses.dataclass(frozen=True)
class Use:
    """A place in a file that uses a name.

    Attributes:
      file: its path.
      place: 'FILE:LINE', for notebooks 'FILE, cell N:LINE'.
      name: as in tensorflow.contrib.slim.conv2d, without aliases; or of Python 2.
      is_module: whether it is imported as a module, as by `import a.b.c`.
      positional: the number of positional arguments of a call; -1 if that is not known.
      keywords: of the call.
      cure: what to write, if it is known from the syntax.
    """

    file: str
    place: str
    name: str
    is_module: bool = False
    positional: int = -1
    keywords: tuple[str, ...] = ()
    cure: str = ''


def uses_in(path: str, libraries: Collection[str], own: Collection[str] = ()) -> tuple[list[Use], set[str]]:
    """Returns the uses of libraries' names in a file, in order, and the names that it adds to libraries.

    Names that the program itself guards, by `try` or by a condition on a version, are left out.

    Args:
      libraries: names of top-level modules.
      own: those of the program.

    Raises:
      OSError: the file cannot be read.
    """

    def unread(line, cure):
        return [Use(path, f'{path}:{line}', 'syntax', cure=cure)], set()

    try:
        tree, lines = parse(path)
    except SyntaxError as error:
        return unread(error.lineno or 1, _not_python(error))
    except (ValueError, RecursionError, MemoryError) as error:
        return unread(1, 'not a notebook' if path.endswith('.ipynb') else f'not Python 3: {error}')
    finder = _Finder(path, lines.place, set(libraries) - set(own), own, _names_bound(tree))
    try:
        finder.find(tree)
    except RecursionError:
        return unread(1, 'nested too deeply to be read')
    bad = [Use(path, place, 'syntax', cure=_not_python(error)) for place, error in lines.bad]
    return [*bad, *finder.uses], finder.added


def _not_python(error):
    return f'not Python 3: {error.msg}' + ('; run 2to3' if re.search('print|exec|except|invalid|leading', error.msg) else '')


def _names_bound(tree):
    """Returns all names that a file binds anywhere, those of attributes and methods, too."""
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            names.add(node.id)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            names.add(node.attr)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            names.add(node.name)
        elif isinstance(node, ast.arg):
            names.add(node.arg)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            names |= {alias.asname or alias.name for alias in node.names}
            names |= _PYTHON_2.keys() if any(alias.name == '*' for alias in node.names) else set()  # It may have any.
    return names


class _ClassScope(dict[str, 'str | None']):
    """Names of a class, which its methods do not see."""


class _Finder(ast.NodeVisitor):
    """Finds uses. Bodies of functions come last, as they see what the module defines after them."""

    def __init__(self, file, place, libraries, own, bound):
        self._found: list[tuple[int, Use]] = []  # With their lines.
        self.added: set[str] = set()
        self._file, self._place = file, place
        self._libraries, self._own, self._bound = libraries, own, bound
        self._scopes: list[dict[str, str | None]] = [{}]  # {name: what it stands for}, None for anything else
        self._guards = 0
        self._later: collections.deque[Any] = collections.deque()

    def find(self, tree):
        self.generic_visit(tree)
        while self._later:
            self._scopes, self._guards, body = self._later.popleft()
            for node in body:
                self.visit(node)

    def _add(self, node, name, **facts):
        if not self._guards:
            self._found.append((node.lineno, Use(self._file, self._place(node.lineno), name, **facts)))

    @contextlib.contextmanager
    def _guarded(self, is_guard):
        """Within the block, uses are left out if the program guards them."""
        self._guards += is_guard
        yield
        self._guards -= is_guard

    @property
    def uses(self):
        """All uses, by their lines."""
        return [use for _, use in sorted(self._found, key=lambda found: found[0])]

    def _bind(self, name, meaning):
        scope = self._scopes[-1]
        if not self._guards or name not in scope or meaning == 'tensorflow.compat.v1':  # The first choice, or for TensorFlow 2.
            scope[name] = meaning

    def _meaning(self, node):
        """Returns the name that an expression stands for, as in tensorflow.contrib.slim; None if it is none of a library."""
        parts = []
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        if isinstance(node, ast.Name):
            meaning = next((scope[node.id] for scope in reversed(self._scopes) if node.id in scope), None)
        else:
            meaning = self._imported(node)
        return '.'.join([meaning, *reversed(parts)]) if meaning else None

    def _imported(self, node):
        """Returns the module that a call of `__import__` or `importlib.import_module` names."""
        if not (isinstance(node, ast.Call) and len(node.args) == 1 and isinstance(node.args[0], ast.Constant)):
            return None
        function, module = ast.unparse(node.func), str(node.args[0].value)
        is_import = function in ('__import__', 'import_module', 'importlib.import_module')
        return module if is_import and module.partition('.')[0] in self._libraries else None

    def visit_Import(self, node):
        for alias in node.names:
            top = alias.name.partition('.')[0]
            if top in self._libraries:
                self._bind(alias.asname or top, alias.name if alias.asname else top)
                self._add(node, alias.name, is_module=True)
            else:
                self._bind(alias.asname or top, None)
                self._check_python_2(node, top, _PYTHON_2_MODULES, self._own)

    def visit_ImportFrom(self, node):
        module = node.module or ''
        is_library = not node.level and module.partition('.')[0] in self._libraries
        if not node.level and not is_library:
            self._check_python_2(node, module.partition('.')[0], _PYTHON_2_MODULES, self._own)
        for alias in node.names:
            if is_library:
                name = module if alias.name == '*' else f'{module}.{alias.name}'
                self._add(node, name, is_module=alias.name == '*')
            if alias.name != '*':
                self._bind(alias.asname or alias.name, name if is_library else None)

    def _check_python_2(self, node, name, table, known):
        if name in table and name not in known:
            self._add(node, name, cure=f'of Python 2: {table[name]}')

    def visit_Assign(self, node):
        self.visit(node.value)
        for target in node.targets:
            both = isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple)
            if both and len(target.elts) == len(node.value.elts):
                for each, value in zip(target.elts, node.value.elts):
                    self._bind_target(each, self._meaning(value))
            else:
                self._bind_target(target, self._meaning(node.value))

    def visit_AnnAssign(self, node):
        if node.value:
            self.visit(node.value)
            self._bind_target(node.target, self._meaning(node.value))

    def visit_For(self, node):
        self._bind_target(node.target, None)
        self.generic_visit(node)

    def visit_withitem(self, node):
        self.generic_visit(node)
        if node.optional_vars:
            self._bind_target(node.optional_vars, None)

    def _bind_target(self, target, meaning):
        if isinstance(target, ast.Name):
            self._bind(target.id, meaning)
        else:
            for child in ast.walk(target):
                if isinstance(child, ast.Name) and isinstance(child.ctx, ast.Store):
                    self._bind(child.id, None)
            self.visit(target)

    def _visit_function(self, node):
        for child in (*getattr(node, 'decorator_list', ()), node.args):
            self.visit(child)
        arguments = node.args
        every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]
        scope = {argument.arg: None for argument in every if argument}
        body = node.body if isinstance(node.body, list) else [node.body]
        visible = [each for each in self._scopes if not isinstance(each, _ClassScope)]
        self._later.append(([*visible, scope], self._guards, body))

    visit_FunctionDef = visit_AsyncFunctionDef = visit_Lambda = _visit_function

    def visit_ClassDef(self, node):
        for child in (*node.decorator_list, *node.bases, *node.keywords):
            self.visit(child)
        self._bind(node.name, None)
        outer, scope = self._scopes, _ClassScope()
        self._scopes = [*outer, scope]
        for child in node.body:
            self.visit(child)
        self._scopes = outer

    def visit_If(self, node):
        self.visit(node.test)
        with self._guarded(_asks_for_version(node.test)):
            for child in (*node.body, *node.orelse):
                self.visit(child)

    def visit_BoolOp(self, node):
        with self._guarded(_asks_for_version(node)):
            self.generic_visit(node)

    def visit_IfExp(self, node):
        self.visit_If(ast.If(node.test, [node.body], [node.orelse]))

    def visit_Try(self, node):
        only_imports = all(isinstance(child, (ast.Import, ast.ImportFrom)) for child in node.body)
        with self._guarded(only_imports or any(_falls_back(node.body, handler) for handler in node.handlers)):
            for child in (*node.body, *node.handlers):
                self.visit(child)
        for child in (*node.orelse, *node.finalbody):
            self.visit(child)

    def visit_Call(self, node):
        name = self._meaning(node.func)
        if name:
            has_stars = any(isinstance(each, ast.Starred) for each in node.args) or any(not each.arg for each in node.keywords)
            keywords = tuple(each.arg for each in node.keywords if each.arg)
            self._add(node, name, positional=-1 if has_stars else len(node.args), keywords=keywords)
        else:
            if not (node.args or node.keywords) and getattr(node.func, 'attr', '') in _ARRAY_METHODS - self._bound:
                self._add(node, node.func.attr, cure=f'arrays of NumPy {np.__version__} have tobytes')
            self.visit(node.func)
        for child in (*node.args, *node.keywords):
            self.visit(child)

    def visit_Attribute(self, node):
        name = self._meaning(node)
        if name:
            self.added |= set() if isinstance(node.ctx, ast.Load) else {name}
            self._add(node, name)
            return
        if node.attr in _METHODS and node.attr not in self._bound and (tensorflow := self._tensorflow()):
            self._add(node, f'{tensorflow}.{_METHODS[node.attr]}')
        if not (isinstance(node.value, ast.Name) and node.value.id == 'six'):
            self._check_python_2(node, node.attr, _PYTHON_2_METHODS, self._bound)
        self.visit(node.value)

    def _tensorflow(self):
        """Returns the module that the file uses as TensorFlow: tensorflow or tensorflow.compat.v1."""
        return next((name for name in self._scopes[0].values() if name in ('tensorflow', 'tensorflow.compat.v1')), None)

    def visit_Name(self, node):
        if isinstance(node.ctx, ast.Load):
            self._check_python_2(node, node.id, _PYTHON_2, self._bound)


def _asks_for_version(test):
    return bool(_VERSIONS.search(ast.unparse(test)))


def _falls_back(body, handler):
    """Whether a handler is for a name that is not there, or for any error, and chooses another value, name or result.

    For any error, nothing may be called: else what is missing would be another result.
    """
    names = {node.id for node in ast.walk(handler.type) if isinstance(node, ast.Name)} if handler.type else {'Exception'}
    chooses = all(isinstance(each, _CHOICES) for each in (*body, *handler.body))
    calls = any(isinstance(node, ast.Call) for each in body for node in ast.walk(each))
    return bool(names & _FALLBACKS) or 'Exception' in names and chooses and not calls
