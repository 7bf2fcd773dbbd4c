"""Writes the tables of docs/flags.md, docs/hparams.md and docs/sweeps.md from the entries of flags and hyper-parameters.

python -m tools.reference
"""

import dataclasses
import json
import pathlib
import re

from estimator_trainer.common.commands.sweep import SweepOptions
from estimator_trainer.common.options.entry import flags_of
from estimator_trainer.common.options.schedule import SCHEDULES
from estimator_trainer.common.options.table import Options
from estimator_trainer.hparams.defaults import TABLE
from estimator_trainer.hparams.text import to_text

DOCS = pathlib.Path(__file__).resolve().parent.parent / 'docs'
BLOCK = re.compile(r'(<!-- (\w+): written by python -m tools\.reference -->\n).*?(?=<!-- end -->)', re.DOTALL)


def _table(*rows):
    header, *others = (f'| {" | ".join(row)} |\n' for row in rows)
    return header + '| --- ' * len(rows[0]) + '|\n' + ''.join(others)


def _code(value):
    """Formats a value for a command line; '' for an empty one."""
    if isinstance(value, (list, tuple)):
        value = ','.join(map(str, value))
    text = value if isinstance(value, str) else json.dumps(value)
    return f'`{text}`' if text else ''


def flags(options: type) -> str:
    """Returns a table for each group of flags of a dataclass."""
    groups: dict[str, list[tuple[str, str, str]]] = {}
    defaults = {field.name: field.default for field in dataclasses.fields(options)}
    for name, entry in flags_of(options).items():
        text = 'What to do: one of the [schedules](#schedules).' if name == 'schedule' else entry.help
        if name != 'schedule' and not all(choice in text for choice in entry.choices):
            text += f' One of {", ".join(entry.choices)}.'
        if entry.schedules:
            text += f' Only with `--schedule={"` or `".join(entry.schedules)}`.'
        if entry.requires:
            text += f' Only with `--{entry.requires}`.'
        groups.setdefault(entry.group, []).append((f'`--{name}`', text, entry.default_text or _code(defaults[name])))
    tables = {group: _table(('flag', 'meaning', 'default'), *rows) for group, rows in groups.items()}
    return '\n'.join(f'### {group}\n\n{table}' if len(tables) > 1 else table for group, table in tables.items())


def schedules() -> str:
    return _table(('schedule', 'what it does'), *((f'`{name}`', f'{facts.help}.') for name, facts in SCHEDULES.items()))


def hparams() -> str:
    rows = []
    for name, entry in TABLE.items():
        limits = {'≥': entry.minimum, '>': entry.above, '≤': entry.maximum, '<': entry.below}
        bounds = ', '.join(f'{sign} {limit}' for sign, limit in limits.items() if limit is not None)
        rows.append((f'`{name}`', entry.text, f'`{to_text(entry.default)}`', bounds, 'yes' if entry.may_change else ''))
    return _table(('hyper-parameter', 'meaning', 'default', 'bounds', 'may change on resuming'), *rows)


BLOCKS = {'flags': lambda: flags(Options), 'sweep': lambda: flags(SweepOptions), 'schedules': schedules, 'hparams': hparams}


def written(text: str) -> str:
    """Returns a page with regenerated tables."""
    return BLOCK.sub(lambda match: f'{match[1]}\n{BLOCKS[match[2]]()}\n', text)


def main():
    for path in DOCS.glob('*.md'):
        text = path.read_text()
        if written(text) != text:
            path.write_text(written(text))
            print(path)


if __name__ == '__main__':
    main()
