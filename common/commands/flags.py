"""The flags of a command line, built from the table in common/options, and their compatibility."""

from collections.abc import Mapping, Sequence
import math
import os
import typing
from typing import Any

from absl import flags

from estimator_trainer.common import paths
from estimator_trainer.common.cluster import local_tasks
from estimator_trainer.common.errors import UsageError, check_utf8
from estimator_trainer.common.options.entry import Trait, flags_of
from estimator_trainer.common.options.schedule import SCHEDULES
from estimator_trainer.common.options.table import TABLE, Options
from estimator_trainer.common.plugins import loader, module_source
from estimator_trainer.hparams import merge
from estimator_trainer.hparams.sets import missing_set, set_path
from estimator_trainer.hparams.text import nearest, parse


class _PathParser(flags.ArgumentParser):
    """Parses the path of a flag; see `paths.expand`."""

    def parse(self, argument):
        return paths.expand(super().parse(argument) or '')

    def flag_type(self):
        return 'string'


_DEFINE: Mapping[Any, Any] = {
    str: flags.DEFINE_string,
    int: flags.DEFINE_integer,
    float: flags.DEFINE_float,
    bool: flags.DEFINE_bool,
    Sequence[str]: flags.DEFINE_list,
}


def define(FLAGS: flags.FlagValues | None = None, options: Any = Options) -> flags.FlagValues:
    """Adds a dataclass's flags to others and returns all, grouped as in --help."""
    FLAGS = flags.FlagValues() if FLAGS is None else FLAGS
    types, defaults = typing.get_type_hints(options), vars(options())
    for name, entry in flags_of(options).items():
        default, text = defaults[name], entry.help
        if entry.default_text:
            text += f' (default: {entry.default_text})'
        facts: dict[str, Any] = {'flag_values': FLAGS, 'module_name': entry.group, 'short_name': entry.short_name}
        if entry.choices:
            flags.DEFINE_enum(name, default, entry.choices, text, **facts)
            continue
        kind = types[name] if types[name] in _DEFINE else typing.get_args(types[name])[0]  # Of an optional one.
        if (Trait.PATH | Trait.LOCAL_PATH) & entry.traits:
            flags.DEFINE(_PathParser(), name, default, text, serializer=flags.ArgumentSerializer(), **facts)
            continue
        if kind in (int, float):
            facts |= dict(zip(('lower_bound', 'upper_bound'), entry.bounds))
        _DEFINE[kind](name, list(default) if isinstance(default, tuple) else default, text, **facts)
    return FLAGS


def check(FLAGS: flags.FlagValues) -> None:
    """Raises UsageError if flags are empty or incompatible."""
    for name, entry in TABLE.items():
        if FLAGS[name].present and entry.schedules and FLAGS.schedule not in entry.schedules:
            raise UsageError(f'--{name} requires --schedule={" or ".join(entry.schedules)}, not {FLAGS.schedule}')
        if FLAGS[name].value and entry.requires and not FLAGS[entry.requires].value:
            raise UsageError(f'--{name} requires --{entry.requires}')
        _check_value(name, FLAGS[name].value, entry)
    for name in ('predict_split', 'eval_splits'):
        if FLAGS.input and FLAGS[name].present:
            raise UsageError(f'--input={FLAGS.input} excludes {FLAGS[name].serialize()}: give one of the two')
    if FLAGS.runs and FLAGS['output_dir'].present:
        raise UsageError(f'--runs={FLAGS.runs} excludes {FLAGS["output_dir"].serialize()}: give one of the two')
    if FLAGS.debug_numerics and FLAGS.schedule == 'export':
        raise UsageError('--debug_numerics is incompatible with --schedule=export: the checks would become part of the model')
    if FLAGS.local_cluster:
        local_tasks.parse(FLAGS.local_cluster)
        if paths.is_remote(FLAGS.output_dir or ''):
            raise UsageError(f'--output_dir={FLAGS.output_dir}: --local_cluster needs a local directory for its logs')


def _check_value(name, value, entry):
    if Trait.NOT_EMPTY in entry.traits and value in ('', []):
        raise UsageError(f'--{name} is empty')
    if isinstance(value, float) and not math.isfinite(value):
        raise UsageError(f'--{name}={value} must be a finite number')
    if value and entry.check:
        entry.check(value)


def check_names(FLAGS: flags.FlagValues) -> None:
    """Raises UsageError if a model, dataset or set of hyper-parameters does not exist, or --hparams is malformed."""
    for kind in ('model', 'dataset'):
        loader.check_name(kind, FLAGS[kind].value or '')
    name = FLAGS.hparams_set
    if name and not paths.is_remote(name) and not os.path.exists(set_path(name)):
        raise missing_set(name)
    for flag in ('hparams', 'override_hparams'):
        parse(FLAGS[flag].value or '', f'--{flag}')
    if SCHEDULES[FLAGS.schedule].trains:  # Other schedules may take model and dataset from the output_dir.
        _check_hparams(FLAGS)


def _check_hparams(FLAGS):
    """Raises UsageError if --hparams has an unknown name or a wrong value, as far as known without TensorFlow."""
    if not FLAGS.hparams:
        return
    model, dataset = module_source.read('model', FLAGS.model), module_source.read('dataset', FLAGS.dataset)
    if model and dataset:
        merge.add_text(merge.of_modules(FLAGS.model, model.params, FLAGS.dataset, dataset.params), FLAGS.hparams)


def from_values(values: Mapping[str, Any]) -> flags.FlagValues:
    """Returns the flags with the given values, of the flags' types; None keeps a flag's default.

    Raises:
      UsageError: there is no such flag, or the value has another type or is out of range.
    """
    FLAGS = define()
    for name, value in values.items():
        if name not in FLAGS:
            raise UsageError(f'there is no option {name}{nearest(name, FLAGS)}')
        if value is None:
            continue
        if isinstance(value, list) and not all(isinstance(item, str) for item in value):
            raise UsageError(f'{name}={value} must be a list of strings')
        check_utf8(item for item in (value if isinstance(value, list) else [value]) if isinstance(item, str))
        try:
            FLAGS[name].parse(value)
        except flags.Error as error:
            raise UsageError(str(error).removeprefix('flag --')) from None
        except ValueError:
            raise UsageError(f'{name} is out of range') from None  # An integer of more than 4,300 digits.
    FLAGS.mark_as_parsed()
    check(FLAGS)
    return FLAGS


def to_options(FLAGS: flags.FlagValues) -> Options:
    """Returns the values of parsed flags."""
    values: dict[str, Any] = {name: FLAGS[name].value for name in TABLE}
    values |= {name: tuple(value) for name, value in values.items() if isinstance(value, list)}
    return Options(**values)


def arguments(FLAGS: flags.FlagValues, but_for: Trait) -> list[str]:
    """Returns the trainer's given flags as arguments for another process, except those with a trait."""
    given = [name for name, entry in TABLE.items() if FLAGS[name].present and but_for not in entry.traits]
    return [FLAGS[name].serialize() for name in given]
