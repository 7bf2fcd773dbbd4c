"""Progress bars: on a terminal, or as a widget in a notebook."""

import sys
from typing import Any
import warnings

import tqdm


def make_bar(iterable: Any = None, **options: Any) -> tqdm.tqdm:
    """Returns a tqdm bar with these options; disabled where nobody would see it."""
    if _is_notebook():
        with warnings.catch_warnings():
            warnings.simplefilter('ignore')  # Without ipywidgets it is text.
            from tqdm.auto import tqdm as notebook_bar
        return notebook_bar(iterable, disable=False, **options)
    return tqdm.tqdm(iterable, disable=None, **options)


def _is_notebook():
    ipython: Any = sys.modules.get('IPython')
    shell = ipython and ipython.get_ipython()
    return bool(shell) and 'IPKernelApp' in shell.config
