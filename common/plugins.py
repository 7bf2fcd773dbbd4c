"""A name is a path: models and datasets are found by importlib, and no list names them."""

import importlib
import os
import pkgutil
import sys

from common import contract
from common.errors import UsageError


def available(kind):
    """Returns the names of the modules under models/ or datasets/; `kind` is 'model' or 'dataset'."""
    package = importlib.import_module(f'{kind}s')
    return sorted(module.name for module in pkgutil.iter_modules(package.__path__) if not module.ispkg)


def load(kind, name):
    """Imports a model or dataset module.

    Args:
      kind: 'model' or 'dataset'.
      name: a file name under models/ or datasets/, or the dotted path of any importable module.

    Returns:
      The module.

    Raises:
      UsageError: there is no such module, or it lacks a function of the contract, or has one that takes other arguments.
    """
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())
    path = name if '.' in name else f'{kind}s.{name}'
    module = None
    if all(part.isidentifier() for part in path.split('.')):
        try:
            module = importlib.import_module(path)
        except ModuleNotFoundError as error:
            # An import that fails inside the module is its author's to see, with the traceback.
            if not f'{path}.'.startswith(f'{error.name}.'):
                raise
    if module is None:
        raise UsageError(f'--{kind}={name}: no module {path}; the {kind}s here are: {", ".join(available(kind))}; '
                         f'one of your own is given by its dotted path, such as my_package.my_{kind}')
    contract.check_module(kind, name, module)
    return module
