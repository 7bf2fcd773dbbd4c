"""Names and texts in either form of Unicode, with composed accents (NFC) or with accents apart (NFD): they look alike."""

from collections.abc import Collection, Iterable, Mapping
from typing import Any, TypeVar
import unicodedata

_T = TypeVar('_T')


def in_forms_of(names: Iterable[str], known: Iterable[str]) -> list[str]:
    """Returns names, those that a known one is in another form in the form of that one."""
    forms = {composed(name): name for name in known}
    return [forms.get(composed(name), name) for name in names]


def under_names_of(values: Mapping[Any, _T], known: Collection[str]) -> Mapping[Any, _T]:
    """Returns values by their names; where a known one is only there in another form, under the known one."""
    lacking = {composed(name): name for name in known if name not in values}
    others = [name for name in values if isinstance(name, str) and name not in known] if lacking else []
    forms = {name: lacking[found] for name in others if (found := composed(name)) in lacking}
    return {forms.get(name, name): value for name, value in values.items()} if forms else values


def composed(text: str) -> str:
    """Returns a text in NFC, with composed accents."""
    return text if text.isascii() else unicodedata.normalize('NFC', text)
