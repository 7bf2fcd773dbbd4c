"""The files of a program, and their source."""

import ast
import collections
from collections.abc import Iterator
import json
import os
import re

_SKIPPED = {'__pycache__', 'node_modules', 'site-packages', 'dist-packages'}


def files_of(path: str) -> Iterator[str]:
    """Yields the Python files and notebooks of a folder, without virtual environments; or a file, and its own imports."""
    if os.path.isfile(path):
        yield from _with_imports(path)
    for directory, folders, names in os.walk(path):
        folders[:] = sorted(
            name
            for name in folders
            if not (name in _SKIPPED or name.startswith('.') or os.path.exists(os.path.join(directory, name, 'pyvenv.cfg')))
        )
        yield from (os.path.join(directory, name) for name in sorted(names) if name.endswith(('.py', '.ipynb')))


def _with_imports(script):
    """Yields a script, and the modules that it imports, in turn, from its folder, and from that of its package."""
    root = os.path.dirname(os.path.abspath(script))
    while os.path.exists(os.path.join(root, '__init__.py')):
        root = os.path.dirname(root)
    folders = (os.path.dirname(script), os.path.relpath(root) if not os.path.isabs(script) else root)
    waiting, seen = collections.deque([script]), {os.path.abspath(script)}
    while waiting:
        file = waiting.popleft()
        yield file
        for folder, name in _imports(file, folders):
            base = os.path.normpath(os.path.join(folder, *name.split('.')))
            for found in (f'{base}.py', os.path.join(base, '__init__.py')):
                if os.path.isfile(found) and os.path.abspath(found) not in seen:
                    seen.add(os.path.abspath(found))
                    waiting.append(found)


def _imports(file, folders):
    """Yields folders, and the dotted names that a file imports from there, with those of their packages."""
    try:
        with open(file, 'rb') as source:
            tree = ast.parse(source.read())
    except (OSError, SyntaxError, ValueError):
        return
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


class Lines:
    """The source of a file, or of the code cells of a notebook, and the places of its lines."""

    def __init__(self, path, content):
        self._path, self._cells = path, []
        self.source = content
        if path.endswith('.ipynb'):
            self.source = '\n'.join(self._read_cells(content))

    def _read_cells(self, content):
        try:
            cells = json.loads(content)['cells']
            for number, cell in enumerate(cells, 1):
                if cell['cell_type'] == 'code':
                    lines = ''.join(cell['source']).split('\n')
                    self._cells += [(number, line) for line in range(1, len(lines) + 1)]
                    is_python = not re.match(r'%%(?!time|capture|prun)', lines[0])
                    yield from (re.sub(r'^(\s*)[%!?].*', r'\1pass', line) if is_python else '' for line in lines)
        except (ValueError, KeyError, TypeError):
            return

    def place(self, line):
        if self._path.endswith('.ipynb'):
            cell, line = self._cells[line - 1] if line <= len(self._cells) else (0, line)
            return f'{self._path}, cell {cell}:{line}'
        return f'{self._path}:{line}'
