"""The available models, datasets and sets of hyper-parameters, for --list."""

from estimator_trainer.common.errors import first_line
from estimator_trainer.common.plugins import loader, module_source
from estimator_trainer.hparams.sets import available_sets


def list_modules() -> str:
    """Returns the names of all models and datasets, with the first lines of their docstrings, and of the sets."""
    lines = []
    for kind in ('model', 'dataset'):
        lines.append(f'--{kind}=')
        lines += [f'  {name:<16} {_summary(kind, name)}' for name in loader.available(kind)]
        lines.append('')
    lines.append('--hparams_set=')
    lines += [f'  {name}' for name in available_sets()]
    return '\n'.join(lines)


def _summary(kind, name):
    """Returns the first line of a module's docstring, without importing it, or the reason for its absence."""
    try:
        return module_source.docstring(kind, name).partition('\n')[0]
    except (OSError, SyntaxError, ValueError) as error:  # Of a user's file.
        return f'cannot be used: {first_line(error)}'
