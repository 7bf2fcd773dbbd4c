"""Imports of model and dataset modules by file name or dotted path, without a registry."""

import importlib
import os
import pkgutil
import types

from estimator_trainer.common import import_names
from estimator_trainer.common.errors import UsageError
from estimator_trainer.common.plugins.module_check import check_module
from estimator_trainer.hparams.text import find

_OF_SUFFIX = {
    **dict.fromkeys(['.csv', '.tsv', '.parquet', '.arrow', '.feather', '.jsonl'], ('table', 'table_file')),
    **dict.fromkeys(['.txt'], ('text', 'text_file')),
}


def _path(kind):
    return f'estimator_trainer.{kind}s'


def available(kind: str) -> list[str]:
    """Returns the names of the modules under models/ or datasets/; `kind` is 'model' or 'dataset'."""
    package = importlib.import_module(_path(kind))
    return sorted(module.name for module in pkgutil.iter_modules(package.__path__) if not module.ispkg)


def load(kind: str, name: str) -> types.ModuleType:
    """Imports a model or dataset module.

    Args:
      kind: 'model' or 'dataset'.
      name: a file name under models/ or datasets/, or the dotted path of any importable module.

    Raises:
      UsageError: there is no such module, or a required function is missing or takes other arguments.
    """
    import_names.find_in_working_directory()
    path = name if '.' in name else f'{_path(kind)}.{name}'
    module = None
    if all(part.isidentifier() for part in path.split('.')):
        try:
            module = importlib.import_module(path)
        except ImportError as error:
            if former := import_names.explain(error):
                raise UsageError(f'--{kind}={name}: {former}') from None
            # A failed import inside the module needs the traceback.
            if not isinstance(error, ModuleNotFoundError) or not f'{path}.'.startswith(f'{error.name}.'):
                raise
        except (ValueError, SyntaxError) as error:
            if 'null bytes' not in str(error):  # Python does not name the file.
                raise
            raise UsageError(
                f'--{kind}={name}: {path}, or a module that it imports, contains NUL bytes, as UTF-16 does: save it as UTF-8'
            ) from None
    if module is None:
        raise _missing(kind, name)
    check_module(kind, name, module)
    return module


def check_name(kind: str, name: str) -> None:
    """Raises UsageError if there is no such module under models/ or datasets/, or a file is named; accepts any dotted path."""
    if '/' in name or name.endswith('.py') and (_of_file(kind, name) or os.path.isfile(name)):
        raise _missing(kind, name)
    if '.' not in name and not (name.isidentifier() and import_names.exists(f'{_path(kind)}.{name}')):
        raise _missing(kind, name)


def _missing(kind, name):
    path = name if '.' in name or '/' in name else f'{kind}s.{name}'
    meant, stem = _of_file(kind, name) or _of_data(kind, name), name.removesuffix('.py')
    own = f'give your own by its dotted path, such as my_package.my_{kind}'
    if not meant and stem.isidentifier() and os.path.isfile(f'{stem}.py'):
        own = f'move {stem}.py into a folder, such as own/{stem}.py, which is --{kind}=own.{stem}'
    else:
        meant = meant or find(name, available(kind))
    guess, the = (f', did you mean --{kind}={meant}?', 'The') if meant else (';', 'the')
    return UsageError(f'--{kind}={name}: no module {path}{guess} {the} {kind}s are: {", ".join(available(kind))}; {own}')


def _of_file(kind, name):
    """Returns the name of the module that a file has, or ''."""
    *folders, stem = parts = os.path.normpath(name).removesuffix('.py').split('/')
    if stem in available(kind) and folders[-1:] in ([], [f'{kind}s']):
        return stem
    return '.'.join(parts) if folders and os.path.isfile(name) and all(map(str.isidentifier, parts)) else ''


def _of_data(kind, name):
    """Returns the dataset of the kind of a data file, or of a folder, with the flag that names it; or ''."""
    if kind != 'dataset' or not os.path.exists(name):
        return ''
    suffix = os.path.splitext(name)[1].lower()
    dataset, hparam = ('image_folder', 'image_dir') if os.path.isdir(name) else _OF_SUFFIX.get(suffix, ('', ''))
    return dataset and f'{dataset} --hparams={hparam}={name}'
