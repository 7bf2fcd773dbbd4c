"""Messages about flags, in the words of a Python program: --overwrite becomes overwrite=True."""

import json
import re

from estimator_trainer.common.options.entry import Trait
from estimator_trainer.common.options.table import TABLE, Options
from estimator_trainer.hparams.text import parse

_SWITCHES = [
    name for name, facts in TABLE.items() if getattr(Options(), name) is False and Trait.COMMAND_LINE not in facts.traits
]
_START = r'(?<![\w-])--'
_VALUE = r'(?:\[[^]]*\]|\{[^}]*\}|[^\s,:;()\[\]{}]*[^\s,:;.()\[\]{}])'
_PAIRS = re.compile(rf'{_START}(hparams|override_hparams)=(\w+={_VALUE}(?:,\w+={_VALUE})*)')
_WEIGHTS = re.compile(rf'{_START}(warm_start_from)=([^\s,;:]+)')
_SWITCH = re.compile(rf'{_START}({"|".join(_SWITCHES)})(?![\w=:])')
_FLAG = re.compile(rf'{_START}([a-z]\w*)')


def to_arguments(text: str) -> str:
    """Returns a message with the arguments of `common.commands.api.train` in place of flags.

    Hyper-parameters become a dict, switches are True, and other flags keep the form NAME=VALUE.
    """
    text = _PAIRS.sub(lambda match: f'{match[1]}={_dict(match[2])}', text)
    text = _WEIGHTS.sub(r"\1='\2'", text)
    text = _SWITCH.sub(r'\1=True', text)
    return _FLAG.sub(r'\1', text)


def _dict(pairs):
    return repr({name: _literal(value) for name, value in parse(pairs).items()})


def _literal(value):
    try:
        return json.loads(value)
    except ValueError:
        return value
