"""The page of a report, from its parts, by a template of Jinja, in which everything is escaped; and pages in a notebook.

There they are in a frame, so that their style and that of the notebook do not mix.
"""

from collections.abc import Mapping
import html
import os
from typing import Any

from estimator_trainer.common import import_names
from estimator_trainer.common.errors import UsageError
from estimator_trainer.common.report import charts

NEEDS = "needs the package jinja2: pip install jinja2, or pip install 'estimator-trainer[report]'"
FRAME_HEIGHT = 640  # Pixels.


def check_installed(user: str = '--schedule=report') -> None:
    """Raises UsageError if the package that fills the template is missing, for what needs it."""
    if not is_installed():
        raise UsageError(f'{user} {NEEDS}')


def is_installed() -> bool:
    return import_names.exists('jinja2')


def render(parts: Mapping[str, Any], template: str = 'page.html.jinja') -> str:
    """Returns the HTML of a report: one file that needs no other, and runs no script.

    Args:
      parts: the variables of the template, which lists them.
    """
    import jinja2  # Only here: no other schedule needs it.

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(os.path.dirname(__file__)),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters |= {'number': charts.number, 'percent': charts.percent, 'share': charts.share}
    return environment.get_template(template).render(parts, width=charts.WIDTH, height=charts.HEIGHT)


def frame(page: str, title: str, height: int = FRAME_HEIGHT) -> str:
    """Returns the HTML of a frame with a page, the HTML of a document; title says what it is to those who cannot see it."""
    style = f'width: 100%; height: {height}px; border: 0'
    return f'<iframe srcdoc="{html.escape(page)}" title="{html.escape(title)}" style="{style}" sandbox></iframe>'


class Shown:
    """A page that a notebook shows, as the value of a cell."""

    def __init__(self, page: str, title: str):
        self._page, self._title = page, title

    def __repr__(self) -> str:
        return self._title

    def _repr_html_(self) -> str:
        return frame(self._page, self._title)


class ShownPath(str):
    """The path of an HTML file, which a notebook shows."""

    def _repr_html_(self) -> str:
        with open(self, encoding='utf-8') as file:
            return frame(file.read(), self, 2 * FRAME_HEIGHT)
