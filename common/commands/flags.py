"""The flags of a command line, built from the table in common/options, and their compatibility."""

from collections.abc import Collection, Mapping, Sequence
import functools
import math
import os
import typing
from typing import Any

from absl import flags

from estimator_trainer.common import paths
from estimator_trainer.common.cluster import local_tasks, membership
from estimator_trainer.common.cluster.tf_config import PS
from estimator_trainer.common.commands import guidance
from estimator_trainer.common.errors import UsageError, check_all, check_utf8
from estimator_trainer.common.options.entry import Trait, flags_of
from estimator_trainer.common.options.schedule import SCHEDULES
from estimator_trainer.common.options.table import TABLE, Options, names_with
from estimator_trainer.common.plugins import loader, logger_modules, module_source
from estimator_trainer.common.storage.objective import parse_objective
from estimator_trainer.hparams import merge
from estimator_trainer.hparams.sets import missing_set, set_path
from estimator_trainer.hparams.text import parse

DEFAULT_DIR = 'output/{dataset}/{model}'
SWEEP_DIR = f'{DEFAULT_DIR}_sweep'


class _PathParser(flags.ArgumentParser):
    """Parses the path of a flag; see `paths.expand`."""

    def parse(self, argument):
        return paths.expand(super().parse(argument) or '')

    def flag_type(self):
        return 'string'


class _StepParser(flags.ArgumentParser):
    """Parses a step, or `best`."""

    def parse(self, argument):
        text = str(argument)
        if text != 'best' and not (text.isascii() and text.isdecimal()):
            raise ValueError('must be the step of a checkpoint, such as 2000, or best')
        return text if text == 'best' else int(text)

    def flag_type(self):
        return 'step'


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
        is_path = (Trait.PATH | Trait.LOCAL_PATH) & entry.traits
        if is_path or types[name] == int | str | None:
            flags.DEFINE(
                _PathParser() if is_path else _StepParser(), name, default, text, serializer=flags.ArgumentSerializer(), **facts
            )
            continue
        if kind in (int, float):
            facts |= dict(zip(('lower_bound', 'upper_bound'), entry.bounds))
        _DEFINE[kind](name, list(default) if isinstance(default, tuple) else default, text, **facts)
    return FLAGS


def check(FLAGS: flags.FlagValues) -> None:
    """Raises UsageError if flags are empty or incompatible."""
    check_all(functools.partial(_check_flag, FLAGS, name, entry) for name, entry in TABLE.items())


def check_values(FLAGS: flags.FlagValues) -> None:
    """Raises UsageError if the value of a flag is wrong, whatever the others are."""
    check_all(functools.partial(_check_value, name, FLAGS[name].value, entry) for name, entry in TABLE.items())


def _check_flag(FLAGS, name, entry):
    flag = FLAGS[name]
    if flag.present and entry.schedules and FLAGS.schedule not in entry.schedules:
        raise UsageError(f'--{name} requires --schedule={" or ".join(entry.schedules)}, not {FLAGS.schedule}')
    if flag.value and entry.requires and not FLAGS[entry.requires].value:
        raise UsageError(f'--{name} requires --{entry.requires}')
    for other in [FLAGS[other] for other in entry.excludes] if flag.value else ():
        if other.present and other.value:
            raise UsageError(f'{flag.serialize()} excludes {other.serialize()}: give one of the two')
    _check_value(name, flag.value, entry)
    if name == 'best_metric' and flag.value:
        parse_objective(flag.value)
    if name == 'runs' and FLAGS.schedule == 'compare' and not flag.value:
        raise UsageError("--schedule=compare needs --runs, a pattern of output_dirs, such as --runs='output/mnist/*'")
    if name == 'overwrite' and flag.value and FLAGS.from_step is not None:
        raise UsageError('--overwrite starts over, and --from_step goes on from a checkpoint: give one of the two')
    if name == 'debug_numerics' and flag.value and FLAGS.schedule == 'export':
        raise UsageError('--debug_numerics is incompatible with --schedule=export: the checks would become part of the model')
    if name == 'quantize' and flag.value and {*FLAGS.format} <= {'saved_model'}:
        raise UsageError(f'--quantize={flag.value} makes ONNX and TFLite files smaller: add --format=onnx or --format=tflite')
    if name == 'local_cluster' and flag.value:
        counts = local_tasks.parse(flag.value)
        if FLAGS.min_tasks:
            membership.check(FLAGS.min_tasks, local_tasks.num_trainers(counts), counts.get(PS, 0))
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
    """Raises UsageError if a model, dataset or set of hyper-parameters does not exist, or --hparams is malformed or wrong."""
    modules = {'model': FLAGS.model, 'dataset': FLAGS.dataset}  # `check` names an empty one.
    check_all(
        [
            *(functools.partial(loader.check_name, *module) for module in modules.items() if module[1]),
            lambda: _check_set(FLAGS.hparams_set),
            lambda: _check_hparams(FLAGS),
            lambda: logger_modules.check_names(FLAGS.loggers),
            lambda: parse(FLAGS.override_hparams or '', '--override_hparams'),
        ]
    )


def _check_set(name):
    if name and not paths.is_remote(name) and not os.path.exists(set_path(name)):
        raise missing_set(name)


def _check_hparams(FLAGS):
    """Raises UsageError if --hparams or --override_hparams is wrong, as far as known without TensorFlow."""
    given, override = parse(FLAGS.hparams or ''), FLAGS.override_hparams or ''
    names_model = FLAGS['model'].present or FLAGS['dataset'].present or not FLAGS.output_dir
    if not (given or override) or not SCHEDULES[FLAGS.schedule].trains or not names_model:  # The run there may have others.
        return
    model, dataset = module_source.read('model', FLAGS.model), module_source.read('dataset', FLAGS.dataset)
    if model and dataset:
        values = merge.of_modules(FLAGS.model, model.params, FLAGS.dataset, dataset.params)
        check_all([lambda: merge.add_text(values, FLAGS.hparams or ''), lambda: merge.add_overrides(values, override)])


def without_effect(FLAGS: flags.FlagValues, hparams: Collection[str] = ()) -> list[str]:
    """Returns a line for each given flag or hyper-parameter that has no effect beside other flags.

    Args:
      hparams: the names that --hparams gives.
    """
    schedule = SCHEDULES[FLAGS.schedule]
    idle = [] if schedule.trains else names_with(Trait.OF_TRAINING)
    idle += [] if schedule.trains or schedule.evaluates else names_with(Trait.OF_EVALUATION)
    lines = [f'--{name} has no effect with --schedule={FLAGS.schedule}' for name in idle if FLAGS[name].present]
    if FLAGS.early_stopping_min_delta and not FLAGS.early_stopping_patience:
        lines.append('--early_stopping_min_delta has no effect without --early_stopping_patience')
    if FLAGS['jobs'].present and not FLAGS.folds:
        lines.append('--jobs has no effect without --folds')
    lengths = ('train_steps', 'num_epochs')
    if all(name in hparams or FLAGS[name].present for name in lengths):
        lines.append('num_epochs has no effect: train_steps takes precedence')
    twice = [name for name in lengths if name in hparams and FLAGS[name].present]
    return lines + [f'--hparams: {name} has no effect: --{name} takes precedence' for name in twice]


def from_values(values: Mapping[str, Any]) -> flags.FlagValues:
    """Returns the flags with the given values, see `set_value`; raises UsageError if one is wrong, or they are incompatible."""
    FLAGS = define()
    settings = [functools.partial(set_value, FLAGS, name, value) for name, value in values.items()]
    try:
        check_all(settings)
    except UsageError:
        check_all([*settings, lambda: check_values(FLAGS)])
    FLAGS.mark_as_parsed()
    check(FLAGS)
    return FLAGS


def set_value(FLAGS: flags.FlagValues, name: str, value: Any) -> None:
    """Gives a flag a value of its type; None keeps its default.

    Raises:
      UsageError: there is no such flag, or the value has another type or is out of range.
    """
    if name not in FLAGS:
        raise UsageError(f'there is no option {name}{guidance.option(name, value, FLAGS)}')
    if value is None:
        return
    if isinstance(value, list) and not all(isinstance(item, str) for item in value):
        raise UsageError(f'{name}={value} must be a list of strings')
    check_utf8(item for item in (value if isinstance(value, list) else [value]) if isinstance(item, str))
    try:
        FLAGS[name].parse(value)
    except flags.Error as error:
        raise UsageError(guidance.flag_error(error).removeprefix('flag --')) from None
    except ValueError:
        raise UsageError(f'{name} is out of range') from None  # An integer of more than 4,300 digits.


def to_options(FLAGS: flags.FlagValues) -> Options:
    """Returns the values of parsed flags."""
    values: dict[str, Any] = {name: FLAGS[name].value for name in TABLE}
    values |= {name: tuple(value) for name, value in values.items() if isinstance(value, list)}
    return Options(**values)


def output_dir(FLAGS: flags.FlagValues, default: str = DEFAULT_DIR) -> str:
    """Returns the output_dir that the flags select."""
    return FLAGS.output_dir or default.format(dataset=FLAGS.dataset, model=FLAGS.model)


def has_output_dir(FLAGS: flags.FlagValues) -> bool:
    """Whether a command is about an output_dir, be it the default one: those that use a temporary directory must name one."""
    return bool(FLAGS.output_dir) or FLAGS.schedule not in ('dry_run', 'find_batch_size')


def arguments(FLAGS: flags.FlagValues, but_for: Trait) -> list[str]:
    """Returns the trainer's given flags as arguments for another process, except those with one of some traits."""
    given = [name for name, entry in TABLE.items() if FLAGS[name].present and not but_for & entry.traits]
    return [FLAGS[name].serialize() for name in given]
