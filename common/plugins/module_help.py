"""What model and dataset modules say about themselves, for --help."""

import ast
import inspect
import io
import textwrap
import tokenize
import types
from typing import Any

import tf_estimator  # noqa: F401 - before TensorFlow

from common.files import dumps
from common.plugins import loader
from hparams.check import check_params

_WIDTH = 100


def describe_module(kind: str, name: str) -> str:
    """Returns a module's docstring, and its hyper-parameters with their defaults and comments.

    Args:
      kind: 'model' or 'dataset'.
      name: the value of the flag.

    Raises:
      UsageError: there is no such module.
    """
    module = loader.load(kind, name)
    lines = [f'--{kind}={name}', '', inspect.getdoc(module) or '', '', 'Hyper-parameters:', '']
    comments = _comments(module)
    params = module.get_params()
    check_params(f'--{kind}={name}', params)
    for key, value in params.items():
        text = f'  {key}={_text(value)}'
        if not comments.get(key):
            lines.append(text)
        elif len(text) < 30:
            lines += textwrap.wrap(comments[key], _WIDTH, initial_indent=f'{text:<32}', subsequent_indent=' ' * 32)
        else:
            indent = ' ' * 32
            lines += [text, *textwrap.wrap(comments[key], _WIDTH, initial_indent=indent, subsequent_indent=indent)]
    if not params:
        lines.append('  none')
    return '\n'.join(lines)


def _text(value: Any) -> str:
    """Returns a default as --hparams takes it."""
    return value if isinstance(value, str) else dumps(value).replace(', ', ',').replace('"', '')


def _comments(module: types.ModuleType) -> dict[str, str]:
    """Returns the comments beside or above the items of the dict that get_params returns; none if they cannot be found."""
    try:
        return _find_comments(module)
    except (OSError, TypeError, AttributeError, SyntaxError, tokenize.TokenError):  # It is not a plain function in a file.
        return {}


def _find_comments(module):
    source = textwrap.dedent(inspect.getsource(module.get_params))
    beside: dict[int, str] = {}
    above: dict[int, str] = {}
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            of_line = above if token.line.lstrip().startswith('#') else beside
            of_line[token.start[0]] = token.string.lstrip('# ')
    found = {}
    for key, value in _items(source):
        if key is None and ast.unparse(value).endswith('.get_params()'):
            found.update(_find_comments(getattr(module, ast.unparse(value).partition('.')[0])))
        elif isinstance(key, ast.Constant):
            first = key.lineno
            while first - 1 in above:
                first -= 1
            texts = [*(above[line] for line in range(first, key.lineno)), beside.get(value.end_lineno, '')]
            found[str(key.value)] = ' '.join(filter(None, texts))
    return found


def _items(source):
    """Yields the keys and values of a dict literal that a function returns; the key of **x is None."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Return) and isinstance(node.value, ast.Dict):
            yield from zip(node.value.keys, node.value.values)
