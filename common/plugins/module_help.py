"""Descriptions of model and dataset modules, for --help."""

import ast
import inspect
import io
import textwrap
import tokenize

from estimator_trainer.common.plugins import loader, module_source
from estimator_trainer.common.plugins.module_check import params_of
from estimator_trainer.hparams.defaults import TABLE
from estimator_trainer.hparams.merge import check_params
from estimator_trainer.hparams.text import to_text

_WIDTH = 100


def describe_module(kind: str, name: str) -> str:
    """Returns a module's docstring, and its hyper-parameters with their defaults and comments.

    Args:
      kind: 'model' or 'dataset'.
      name: the value of the flag.

    Raises:
      UsageError: there is no such module.
    """
    loader.check_name(kind, name)
    found = module_source.read(kind, name)
    doc, params, functions = (found.doc, found.params, found.functions) if found else _by_import(kind, name)
    check_params(f'--{kind}={name}', params)
    comments = {key: comment for function in functions for key, comment in _comments(function).items()}
    lines = [line for key, value in params.items() for line in _lines(key, value, comments.get(key, ''))]
    return '\n'.join([f'--{kind}={name}', '', doc, '', 'Hyper-parameters:', '', *(lines or ['  none'])])


def describe_framework() -> str:
    """Returns the hyper-parameters common to all models and datasets, with their defaults."""
    lines = [line for name, entry in TABLE.items() for line in _lines(name, entry.default, entry.text)]
    return '\n'.join(["The framework's hyper-parameters:", '', *lines])


def _lines(name, default, comment):
    text, indent = f'  {name}={to_text(default)}', ' ' * 32
    if not comment:
        return [text]
    if len(text) < 30:
        return textwrap.wrap(comment, _WIDTH, initial_indent=f'{text:<32}', subsequent_indent=indent)
    return [text, *textwrap.wrap(comment, _WIDTH, initial_indent=indent, subsequent_indent=indent)]


def _by_import(kind, name):
    """Imports a module; returns its docstring, its hyper-parameters and the sources of get_params, if available."""
    import tf_estimator  # noqa: F401 - before TensorFlow

    module = loader.load(kind, name)
    try:
        functions = _functions(module)
    except (OSError, TypeError, AttributeError, SyntaxError):  # It is not a plain function in a file.
        functions = []
    return inspect.getdoc(module) or '', params_of(module), functions


def _functions(module):
    """Returns the source of get_params, preceded by the sources that it includes by **other.get_params()."""
    function = textwrap.dedent(inspect.getsource(module.get_params))
    included = [ast.unparse(value).partition('.') for key, value in _items(function) if key is None]
    others = [getattr(module, name) for name, _, call in included if call == 'get_params()']
    return [*(text for other in others for text in _functions(other)), function]


def _comments(function: str) -> dict[str, str]:
    """Returns the comments beside or above the items of the dict that a function returns, if available."""
    beside: dict[int, str] = {}
    above: dict[int, str] = {}
    try:
        tokens = list(tokenize.generate_tokens(io.StringIO(function).readline))
        items = list(_items(function))
    except (SyntaxError, tokenize.TokenError):  # Of a lambda, for example.
        return {}
    for token in tokens:
        if token.type == tokenize.COMMENT:
            of_line = above if token.line.lstrip().startswith('#') else beside
            of_line[token.start[0]] = token.string.lstrip('# ')
    found = {}
    for key, value in items:
        if isinstance(key, ast.Constant):
            first = key.lineno
            while first - 1 in above:
                first -= 1
            texts = [*(above[line] for line in range(first, key.lineno)), beside.get(value.end_lineno, '')]
            found[str(key.value)] = ' '.join(filter(None, texts))
    return found


def _items(function):
    """Yields the keys and values of a dict literal that a function returns; the key of **x is None."""
    for node in ast.walk(ast.parse(function)):
        if isinstance(node, ast.Return) and isinstance(node.value, ast.Dict):
            yield from zip(node.value.keys, node.value.values)
