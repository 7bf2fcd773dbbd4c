"""Where hyper-parameters were given."""

from collections.abc import Iterable

from estimator_trainer.hparams.build import HParams, load_set
from estimator_trainer.hparams.text import parse


def origins(params: HParams, set_name: str, text: str, given: Iterable[str], overrides: str) -> dict[str, str]:
    """Returns {name: '--hparams_set=SET', '--hparams' or '--override_hparams'} of the hyper-parameters that a user gave.

    The hparams.json of a run, or of a sweep, gives none: it has all values.

    Args:
      params: all of them.
      set_name: of a set that is merged, also by default; '' for none.
      text: of --hparams.
      given: names beside those in `text`.
      overrides: of --override_hparams.
    """
    of_set = load_set(set_name, params) if set_name else {}
    return {
        **({} if 'model' in of_set else dict.fromkeys(of_set, f'--hparams_set={set_name}')),
        **dict.fromkeys([*parse(text), *given], '--hparams'),
        **dict.fromkeys(parse(overrides, '--override_hparams'), '--override_hparams'),
    }
