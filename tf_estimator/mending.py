"""Decorators that mend functions of TensorFlow and other libraries."""

from collections.abc import Callable
import functools
from typing import Any, TypeVar

_Function = TypeVar('_Function', bound=Callable[..., Any])


def around(owner: Any, name: str) -> Callable[[_Function], _Function]:
    """Decorates a function that replaces one of a class or module, and gets the former as its first argument."""
    former = getattr(owner, name)

    def replace(function: _Function) -> _Function:
        @functools.wraps(former)
        def replacement(*args: Any, **kwargs: Any) -> Any:
            return function(former, *args, **kwargs)

        setattr(owner, name, replacement)
        return function

    return replace
