"""The page of a report, from its parts, by a template of Jinja, in which everything is escaped."""

from collections.abc import Mapping
import os
from typing import Any

from estimator_trainer.common import import_names
from estimator_trainer.common.errors import UsageError
from estimator_trainer.common.report import charts

NEEDS = "needs the package jinja2: pip install jinja2, or pip install 'estimator-trainer[report]'"


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
