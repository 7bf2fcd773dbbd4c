"""Prints which modules and public names of tensorflow.python an older TensorFlow had, and this one lacks with tf_estimator.

    python -m tools.compat.moved SITE_PACKAGES_OF_THE_OLDER

Both are read, not imported, as some modules end the process. What a module only imports from another does not count, nor do
tests, generated files, and Keras's old copy.
"""

import ast
import collections
import importlib.util
from pathlib import Path
import re
import sys

from tf_estimator import moved_names, restore

_SKIPPED = re.compile(r'_test(_|\b|s\b)|_pb2|\.gen_|\.keras\b|kernel_tests|testing|\bdebug\b')


def names_of(site_packages: Path) -> dict[str, dict[str, bool]]:
    """Returns {module: {name: whether the module defines it, or imports it}} of tensorflow.python."""
    found = {}
    for path in sorted((site_packages / 'tensorflow' / 'python').rglob('*.py')):
        module = '.'.join(path.relative_to(site_packages).with_suffix('').parts).removesuffix('.__init__')
        found[module] = dict(_names(ast.parse(path.read_bytes()).body))
    return found


def _names(body):
    """Yields names of statements, and whether they define them; '*' and a module for a star import."""
    for node in body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            yield node.name, True
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            yield from ((target.id, True) for target in targets if isinstance(target, ast.Name))
        elif isinstance(node, ast.ImportFrom):
            yield from ((f'*{node.module}' if each.name == '*' else each.asname or each.name, False) for each in node.names)
        elif isinstance(node, ast.Import):
            yield from ((each.asname or each.name.partition('.')[0], False) for each in node.names)
        else:
            for part in ('body', 'orelse', 'finalbody'):
                yield from _names(getattr(node, part, []))


def has(names: dict[str, dict[str, bool]], module: str, name: str) -> bool:
    stars = [found[1:] for found in names.get(module, ()) if found.startswith('*')]
    return name in names.get(module, ()) or any(has(names, other, name) for other in stars if other != module)


def main(site_packages: str) -> None:
    spec = importlib.util.find_spec('tensorflow')
    assert spec and spec.origin
    old, new = names_of(Path(site_packages)), names_of(Path(spec.origin).parents[1])
    bridged = (*moved_names.MODULES, *moved_names.MISSING_MODULES, restore.OLD_PATH, restore.COORDINATED)
    counts: collections.Counter[str] = collections.Counter()
    modules, lost = [], collections.defaultdict(list)
    for module, names in old.items():
        public = [name for name, is_defined in names.items() if is_defined and not name.startswith('_')]
        if _SKIPPED.search(module) or not public:
            continue
        counts['all'] += len(public)
        if module not in new:
            is_bridged = any(f'{module}.'.startswith(f'{alias}.') for alias in bridged)
            counts['bridged' if is_bridged else 'lost'] += len(public)
            modules += [] if is_bridged else [module]
            continue
        for name in public:
            if not has(new, module, name):
                is_bridged = name in moved_names.NAMES.get(module, ())
                counts['bridged' if is_bridged else 'lost'] += 1
                if not is_bridged:
                    lost[module].append(name)
    print(f'{counts["all"]:,} public names, {counts["bridged"]:,} bridged, {counts["lost"]:,} lost')
    print('modules:', *modules, sep='\n  ')
    print('names:', *(f'{module}: {" ".join(names)}' for module, names in lost.items()), sep='\n  ')


if __name__ == '__main__':
    main(*sys.argv[1:])
