"""Completes command lines in a shell: eval "$(estimator-trainer completion bash)", or zsh"""

from collections.abc import Iterable

from absl import flags

from estimator_trainer.common.commands import sweep
from estimator_trainer.common.commands.command import print_output
from estimator_trainer.common.commands.flags import define
from estimator_trainer.common.errors import UsageError, print_error
from estimator_trainer.common.plugins import loader
from estimator_trainer.hparams.defaults import DEFAULTS
from estimator_trainer.hparams.sets import available_sets

# Readline completes the part after the last `=`, which the shell counts as a word of its own.
_BASH = """\
_estimator_trainer() {
  local line="${COMP_LINE:0:COMP_POINT}" IFS=$'\\n'
  local word="${line##*[[:space:]]}"
  COMPREPLY=($(estimator-trainer completion words "$1" "$word" 2> /dev/null))
  if [[ "$COMP_WORDBREAKS" == *=* && "$word" == *=* ]]; then
    COMPREPLY=("${COMPREPLY[@]#"${word%=*}="}")
  fi
  if [[ "${COMPREPLY[0]}" == *= ]]; then
    compopt -o nospace
  fi
}
complete -o default -F _estimator_trainer estimator-trainer estimator-sweep
"""
_SCRIPTS = {'bash': _BASH, 'zsh': f'autoload -U +X bashcompinit && bashcompinit\n{_BASH}'}


def candidates(FLAGS: flags.FlagValues, word: str) -> list[str]:
    """Returns the words that begin with `word`: flags, or a flag with its possible values; none for paths and numbers."""
    name, is_given, value = word.partition('=')
    if not is_given:
        known = (f'--{name}' if FLAGS[name].boolean else f'--{name}=' for name in sorted(FLAGS))
        return [flag for flag in known if flag.startswith(word)]
    name = name.lstrip('-')
    before, comma, _ = value.rpartition(',')
    start = f'--{name}={before}{comma}'
    return [found for found in (f'{start}{item}' for item in _values(FLAGS, name)) if found.startswith(word)]


def _values(FLAGS: flags.FlagValues, name: str) -> Iterable[str]:
    if name in ('model', 'dataset'):
        return loader.available(name)
    if name == 'hparams_set':
        return available_sets()
    if name in ('hparams', 'override_hparams'):
        return (f'{hparam}=' for hparam in sorted(DEFAULTS))
    return getattr(FLAGS[name].parser, 'enum_values', ()) if name in FLAGS else ()


def main(argv: list[str]) -> int:
    """Prints a shell's script, or, for it, the candidates of a program's word; returns the exit code."""
    if argv[1:2] == ['words'] and len(argv) == 4:
        FLAGS = sweep.define_flags() if argv[2].endswith('sweep') else define()
        print_output('\n'.join(candidates(FLAGS, argv[3])))
        return 0
    if len(argv) == 2 and argv[1] in _SCRIPTS:
        print_output(_SCRIPTS[argv[1]].rstrip())
        return 0
    print_error('completion', UsageError('give the shell: bash or zsh'))
    return 2
