"""The files of a program, and their source."""

import ast
import collections
from collections.abc import Iterator
import json
import os
import re
import textwrap
import warnings

_SKIPPED = {'__pycache__', 'node_modules', 'site-packages', 'dist-packages'}


def files_of(path: str) -> Iterator[str]:
    """Yields the Python files and notebooks of a folder, without virtual environments; or a file, and its own imports."""
    if os.path.isfile(path) and os.path.splitext(path)[1] in ('.py', '.ipynb', ''):
        yield from _with_imports(path)
    for directory, folders, names in os.walk(path):
        folders[:] = sorted(
            name
            for name in folders
            if not (name in _SKIPPED or name.startswith('.') or os.path.exists(os.path.join(directory, name, 'pyvenv.cfg')))
        )
        paths = (os.path.join(directory, name) for name in sorted(names) if name.endswith(('.py', '.ipynb')))
        yield from filter(os.path.isfile, paths)  # No pipes, nor links to nothing.


def _with_imports(script):
    """Yields a script, and the modules that it imports, in turn, from its folder, its package's, and those that it adds."""
    root = os.path.dirname(os.path.abspath(script))
    while os.path.exists(os.path.join(root, '__init__.py')):
        root = os.path.dirname(root)
    folders = [os.path.dirname(script), os.path.relpath(root) if not os.path.isabs(script) else root]
    waiting, seen = collections.deque([script]), {os.path.abspath(script): script}
    yield script
    while waiting:
        file = waiting.popleft()
        try:
            tree, _ = parse(file)
        except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):  # Reported where its names are read.
            continue
        if added := [folder for folder in _added(tree, file) if folder not in folders]:
            folders += added
            waiting.extend(seen.values())  # They may import from there, too.
        for folder, name in _imports(tree, file, folders):
            base = os.path.normpath(os.path.join(folder, *name.split('.')))
            for found in (f'{base}.py', os.path.join(base, '__init__.py')):
                if os.path.isfile(found) and os.path.abspath(found) not in seen:
                    seen[os.path.abspath(found)] = found
                    yield found
                    waiting.append(found)


def _added(tree, file):
    """Yields the folders that a file may add to sys.path: of the texts in its paths, from its own folder or the current one."""
    calls = [(node, ast.unparse(node.func)) for node in ast.walk(tree) if isinstance(node, ast.Call)]
    if not any(function in ('sys.path.append', 'sys.path.insert') for _, function in calls):
        return
    for call, function in calls:
        if function.startswith('sys.path.') or function.endswith('path.join') or function == 'osp.join':
            for start in (os.path.dirname(file), ''):
                folder = os.path.normpath(os.path.join(start, *_texts(call.args)))
                if os.path.isdir(folder):
                    yield folder


def _texts(nodes):
    """Yields the texts of a path in order, '..' for the folder of a folder."""
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value
        elif isinstance(node, ast.BinOp):  # A sum.
            yield from (text.lstrip('/') for text in _texts([node.left, node.right]))
        elif isinstance(node, ast.Call):
            yield from _texts(node.args)
            if ast.unparse(node.func).endswith('dirname') and ast.unparse(node).count('dirname') > 1:
                yield '..'


def _imports(tree, file, folders):
    """Yields folders, and the dotted names that a file imports from there, with those of their packages."""
    for node in ast.walk(tree):
        names, starts = [], folders
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [f'{node.module}.{alias.name}' if node.module else alias.name for alias in node.names]
            if node.level:
                starts = (os.path.join(os.path.dirname(file), *['..'] * (node.level - 1)),)
        for name in names:
            parts = name.split('.')
            yield from ((start, '.'.join(parts[:end])) for start in starts for end in range(1, len(parts) + 1))


def parse(path: str) -> tuple[ast.Module, 'Lines']:
    """Returns the syntax tree of a file, and its lines.

    Raises:
      OSError: it cannot be read.
      SyntaxError, ValueError, RecursionError, MemoryError: it is not Python, or not a notebook.
    """
    with open(path, 'rb') as file:
        content = file.read()
    with warnings.catch_warnings():
        warnings.simplefilter('ignore')  # Invalid escapes.
        lines = Lines(path, content)
        return ast.parse(lines.source), lines


class Lines:
    """The source of a file, or of the code cells of a notebook, and the places of its lines.

    Attributes:
      source: bytes, or for a notebook str, without the cells that are not Python.
      bad: places and SyntaxErrors of these cells.

    Raises:
      ValueError: it is not a notebook.
    """

    def __init__(self, path, content):
        self._path, self._cells = path, []
        self.source, self.bad = content, []
        if path.endswith('.ipynb'):
            self.source = '\n'.join(self._read(content))

    def _read(self, content):
        """Yields the lines of all code cells."""
        try:
            book = json.loads(content)
            cells = book['cells'] if 'cells' in book else [cell for sheet in book['worksheets'] for cell in sheet['cells']]
            found = [(number, cell) for number, cell in enumerate(cells, 1) if cell['cell_type'] == 'code']
            texts = [(number, ''.join(cell['source'] if 'source' in cell else cell['input'])) for number, cell in found]
            kernel = book.get('metadata', {}).get('kernelspec', {})
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(str(error)) from None
        for number, text in texts if 'python' in kernel.get('language', kernel.get('name', 'python')).lower() else ():
            count = text.count('\n') + 1
            self._cells += [(number, line) for line in range(1, count + 1)]
            text = self._checked(number, text)
            yield from text.split('\n') if text.count('\n') + 1 == count else [''] * count

    def _checked(self, number, text):
        """Returns a cell as Python, '' if it is not."""
        first = text.lstrip().partition('\n')[0]
        if first.startswith('%%') and not re.match('%%(time|capture|prun)', first):
            return ''
        for source in (text, textwrap.dedent('\n'.join(_without_commands(text.split('\n'))))):
            try:
                ast.parse(source)
                return source
            except SyntaxError as error:
                found = error
        self.bad.append((f'{self._path}, cell {number}:{found.lineno or 1}', found))
        return ''

    def place(self, line):
        if self._path.endswith('.ipynb'):
            cell, line = self._cells[line - 1] if line <= len(self._cells) else (0, line)
            return f'{self._path}, cell {cell}:{line}'
        return f'{self._path}:{line}'


def _without_commands(lines):
    """Yields lines without commands of IPython and of the shell, and questions about objects."""
    continues = False
    for line in lines:
        match = re.match(r'(\s*)(?:%%?[A-Za-z]|[!?]|(?:pip|conda|cd|ls|mkdir|rm|cat) |[\w., ]+=\s*[!%]|[\w.]+\?+\s*$)', line)
        yield f'{match[1]}pass' if match else '' if continues else line
        continues = (continues or match is not None) and line.endswith('\\')
