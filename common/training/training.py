"""The part of a run that all kinds of models share: its hooks, and the EstimatorSpec with them."""

from collections.abc import Callable, Collection, Mapping, Sequence
import dataclasses
from typing import Any, NamedTuple

from tf_estimator.exact import carried

import tensorflow.compat.v1 as tf

from estimator_trainer.common.cluster.training_task import ALONE, Means, TrainingTask
from estimator_trainer.common.errors import UsageError
from estimator_trainer.common.memory_check import check_fits
from estimator_trainer.common.monitoring.profiler import Profiler
from estimator_trainer.common.monitoring.progress_bar import ProgressBar
from estimator_trainer.common.monitoring.status_file import StatusFile
from estimator_trainer.common.monitoring.summaries import Length, TrainingSummaries
from estimator_trainer.common.monitoring.times import Times
from estimator_trainer.common.options.schedule import SCHEDULES
from estimator_trainer.common.options.table import Options
from estimator_trainer.common.options.values import parse_steps
from estimator_trainer.common.parts import part_size
from estimator_trainer.common.plugins.mentions import unmentioned
from estimator_trainer.common.processor import has_bfloat16
from estimator_trainer.common.stop import StopOnSignal
from estimator_trainer.common.storage.checkpoints import has_checkpoint
from estimator_trainer.common.training import exact_program, saving
from estimator_trainer.common.training.effects import check_effects
from estimator_trainer.common.training.loss_watch import LossWatch
from estimator_trainer.common.training.margins import Margins
from estimator_trainer.common.training.multi_step import LOOP_SECONDS, MultiStepHook
from estimator_trainer.common.training.reproducibility import shared_ops, warn_of_random_ops
from estimator_trainer.common.word_vectors import WordVectors
from estimator_trainer.hparams.build import HParams
from estimator_trainer.hparams.defaults import DEFAULTS
from estimator_trainer.hparams.text import parse

_STEPS_WORTH_A_LOOP = 1000  # Building and optimizing one takes as long as it then saves in some hundred steps.


class Step(NamedTuple):
    """A training step.

    Attributes:
      features: the batch, a structure of tensors [batch, ...].
      predictions: what the model predicts.
      means: its loss.
      train_op: runs the step.
      metrics: {name: (value, update_op)}, for the log and TensorBoard.
      waited: see `measure_wait`.
      hooks: of the model.
      towers: number of parts that a batch has on this machine.
      scaffold: the model's own; None for the framework's.
      before_saving: see CheckpointSaver's `prepare`.
      margins: those of its examples, to be recorded; None if they are not.
      hooks_before_saving: of the model; as in an Estimator, those of the chief see a step before its checkpoint is saved.
    """

    features: Any
    predictions: Any
    means: Means
    train_op: tf.Operation
    metrics: Mapping[str, tuple[Any, Any]]
    waited: tf.Variable
    hooks: Sequence[tf.train.SessionRunHook]
    towers: int = 1
    scaffold: tf.train.Scaffold | None = None
    before_saving: Callable[[tf.Session, int], None] | None = None
    margins: Margins | None = None
    hooks_before_saving: Sequence[tf.train.SessionRunHook] = ()


@dataclasses.dataclass(frozen=True, eq=False)
class Training:
    """What a run needs to know in addition to its model.

    Attributes:
      options: the flags; num_gpus and num_towers are ignored.
      total_steps: the global step at which training ends; learning rate schedules need it.
      num_examples: of an epoch; 0 if the data is infinite.
      checkpoint_periods: checkpoints are saved at multiples of each.
      task: this process's. Only the chief's hooks write.
      has_input_fn: whether the dataset's `input_fn` makes the batches, which may end, and have another size than batch_size.
      on_metrics: see TrainingSummaries.
      status, times: likewise.
      given: see `build.origins`.
      vectors: of words, with which the training starts; see `words.starting_from`.
      modules: the model and dataset modules.
      plain_input_fn: makes the training batches, all examples of each, without keeping them in memory; None if `input_fn` does.
    """

    options: Options
    total_steps: int
    num_examples: int = 0
    checkpoint_periods: Sequence[int] = (1000,)
    task: TrainingTask = ALONE
    has_input_fn: bool = False
    stop: StopOnSignal = dataclasses.field(default_factory=StopOnSignal)
    on_metrics: Callable[[dict[str, Any]], None] | None = None
    status: StatusFile = dataclasses.field(default_factory=StatusFile)
    times: Times = dataclasses.field(default_factory=Times)
    given: Mapping[str, str] = dataclasses.field(default_factory=dict)
    vectors: WordVectors | None = None
    modules: Sequence[Any] = ()
    plain_input_fn: Any = None

    def check_effects(self, model: Any, params: HParams, names_read: Collection[str], output_dir: str) -> None:
        """Checks that hyper-parameters have an effect, see `effects`; only the chief knows whether the run is new."""
        has_begun = not self.task.is_chief or has_checkpoint(output_dir) and not self.options.overwrite
        unread = [name for name in self.given if name not in DEFAULTS and name not in names_read]
        lost = sorted(unmentioned(unread, self.modules))
        check_effects(model, params, names_read, self.has_input_fn, self.given, has_begun, lost)

    def make_spec(self, step: Step, params: HParams, config: tf.estimator.RunConfig) -> tf.estimator.EstimatorSpec:
        """Returns the EstimatorSpec of a step, with its hooks. Adds the step's loss to the mean for the log."""
        with self.task.local():
            mean_loss, count_loss = tf.metrics.mean(step.means.loss)
        fetched = [*tf.get_collection(tf.GraphKeys.SUMMARIES), *(update for _, update in step.metrics.values())]
        step = step._replace(train_op=tf.group(step.train_op, count_loss, *shared_ops(step.train_op, fetched)))
        is_kept = self.task.is_chief and not SCHEDULES[self.options.schedule].is_dry_run
        watch = LossWatch(config.model_dir) if is_kept else None
        has_begun = exact_program.has_begun()
        reasons = carried.reasons(tf.get_default_graph()) if has_begun else []  # A loop may change all variables.
        step_hook = self._step_hook(step, watch)
        state = exact_program.ProgramState(config.model_dir, step_hook, reasons) if has_begun else None
        hooks = self._hooks(step, step_hook, state, watch, mean_loss, params, config.model_dir)
        # For the Estimator, an asynchronous worker is not a chief, and only the chief's own hooks run; these precede others.
        of_chief, others = (hooks, [state.restoring()] if state else []) if config.is_chief else ([], hooks)
        spec = tf.estimator.EstimatorSpec(
            tf.estimator.ModeKeys.TRAIN,
            step.predictions,
            step.means.loss,
            step.train_op,
            scaffold=self.task.scaffold(config.keep_checkpoint_max) or step.scaffold,
            training_chief_hooks=of_chief,
            training_hooks=others,
        )
        if not self.has_input_fn:  # ProgramState warns of its ops.
            warn_of_random_ops(step.train_op)
        self._suggest_bfloat16()
        size = self._batch_size(step.features, params) or params.batch_size
        check_fits([step.train_op, *fetched], part_size(size, step.towers * self.task.batch_parts, 0))
        return spec

    def _suggest_bfloat16(self):
        """Says that bfloat16 may be faster, in runs that are long enough to care, of convolutions, which profit most."""
        is_long = self.total_steps >= _STEPS_WORTH_A_LOOP and self.task.is_chief
        if not is_long or self.options.precision != 'float32' or not has_bfloat16() or tf.config.list_physical_devices('GPU'):
            return
        if any(op.type == 'Conv2D' for op in tf.get_default_graph().get_operations()):
            tf.logging.info('This processor has instructions for bfloat16: --precision=bfloat16 may train faster.')

    def _step_hook(self, step, watch):
        """Returns the hook that knows which steps the others see; it is the last one that sees them."""
        if found := self.task.step_hook(self.stop):
            return found
        options = self.options
        periods = [*self.checkpoint_periods, *([step.margins.period] if step.margins else [])]
        milestones = [self.total_steps, *self._profiled()]
        arguments = options.save_summary_steps, periods, milestones, watch and watch.see
        steps = options.steps_per_loop or (0 if self._may_loop(step) else 1)
        if not steps:
            tf.logging.info('Each session call runs up to %g s of steps; --steps_per_loop=1 runs one.', LOOP_SECONDS)
        try:
            return MultiStepHook(step.train_op, step.means.loss, steps, *arguments)
        except UsageError as error:
            if options.steps_per_loop:
                raise
            tf.logging.info('Each session call runs one step after all: %s.', error)
            return MultiStepHook(step.train_op, step.means.loss, 1, *arguments)

    def _may_loop(self, step):
        """Whether steps may run in a loop that nobody asked for: nobody sees a difference, and it is worth building one."""
        is_of_framework = step.scaffold is None and not self.has_input_fn and not step.hooks
        return (
            is_of_framework
            and self.task.decides_alone
            and not self.options.debug_numerics
            and self.total_steps >= _STEPS_WORTH_A_LOOP
        )

    def _profiled(self):
        return parse_steps(self.options.profile_steps) if self.options.profile_steps else ()

    def _hooks(self, step, step_hook, state, watch, mean_loss, params, output_dir):
        """Returns the training hooks, in the order in which they see a step."""
        options, periods, task = self.options, self.checkpoint_periods, self.task
        hooks: list[tf.train.SessionRunHook] = [state] if state else []
        hooks.append(saving.StepCheck(step.means.loss, self.has_input_fn, watch, step_hook))
        hooks += [step.margins.hook(step_hook)] if step.margins and task.is_chief else []
        hooks += step.hooks_before_saving
        if task.is_chief:
            length = Length(params, self.num_examples, self.total_steps, self._batch_size(step.features, params))
            summaries = TrainingSummaries(
                step.means.loss,
                mean_loss,
                step.metrics,
                step.waited,
                options.save_summary_steps,
                length,
                output_dir,
                step_hook,
                self.on_metrics,
                self.status,
                self.times,
            )
            saver = saving.CheckpointSaver(
                output_dir,
                periods,
                may_drop_variables=_overrides_model(options),
                may_drop_slots=bool(options.freeze),
                scaffold=None if task.has_scaffold else step.scaffold,
                state=state,
                keep_every=options.keep_checkpoint_every,
                times=self.times,
                prepare=step.before_saving,
            )
            hooks += [summaries, saver, ProgressBar(step.means.loss, length)]
            hooks += [Profiler(self._profiled(), output_dir)] if self._profiled() else []
        hooks += step.hooks
        return task.hooks(hooks, step_hook, step.means, self.stop, periods, self.total_steps, max(options.steps_per_loop, 1))

    def _batch_size(self, features, params):
        """Returns the number of examples of a step; 0 if unknown."""
        if not self.has_input_fn:
            return params.batch_size
        shapes = [tensor.shape for tensor in tf.nest.flatten(features)]
        sizes = (shape.as_list()[0] or 0 for shape in shapes if shape.rank)  # shape[0] of TensorFlow 1 is no int.
        return next(sizes, 0)


def _overrides_model(options):
    """Whether hyper-parameters of the model's or the dataset's own are changed on resuming."""
    return any(name not in DEFAULTS for name in parse(options.override_hparams, '--override_hparams'))
