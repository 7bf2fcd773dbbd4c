"""The model_fn of a program's own Estimator, with the hooks and the input of this trainer."""

from collections.abc import Collection, Sequence
import dataclasses
import re
from typing import Any

import tensorflow.compat.v1 as tf

from estimator_trainer.common.cluster.agreement import count_batch
from estimator_trainer.common.errors import UsageError, listed
from estimator_trainer.common.graphs import ancestors
from estimator_trainer.common.monitoring.model_summary import describe
from estimator_trainer.common.monitoring.summaries import measure_wait
from estimator_trainer.common.plugins import class_weights
from estimator_trainer.common.plugins.estimator_contract import ModelFunction, as_in_programs, named
from estimator_trainer.common.plugins.model_contract import RESERVED
from estimator_trainer.common.plugins.traceback_filter import in_a_line, user_traceback
from estimator_trainer.common.training import augmentation, exact_program, program_towers
from estimator_trainer.common.training.class_names import with_class_name
from estimator_trainer.common.training.gradients import merge_duplicates
from estimator_trainer.common.training.parallel import split
from estimator_trainer.common.training.saving import BatchCounts, StepCounts
from estimator_trainer.common.training.training import Step, Training
from estimator_trainer.common.training.warm_start import warm_start
from estimator_trainer.hparams.build import HParams

ModeKeys = tf.estimator.ModeKeys
_DEFAULT = tf.saved_model.signature_constants.DEFAULT_SERVING_SIGNATURE_DEF_KEY

_UPDATES = ('AssignSub', 'AssignSubVariableOp')  # Of moving averages.


@dataclasses.dataclass(frozen=True, eq=False)
class EstimatorFn:
    """Wraps the model_fn of an Estimator, for all three modes.

    Its training step, loss, metrics, hooks and exports stay as they are; of the framework's datasets, it gets what
    `as_in_programs` returns.

    Attributes:
      model_fn: function of (features, labels, mode, config).
      dataset: a dataset module.
      training: how it is trained.
      params: hyper-parameters.
      names_read: of those that the module has read.
      devices: of the towers.
      has_own_train: whether the Estimator trains in its own way: its hooks may add to the global step, and not in each run.
    """

    model_fn: ModelFunction
    dataset: Any
    training: Training
    params: HParams
    names_read: Collection[str]
    devices: Sequence[str] = ()
    has_own_train: bool = False

    def __call__(self, features, labels, mode, params, config) -> tf.estimator.EstimatorSpec:
        """Builds the EstimatorSpec for tf.estimator.Estimator, whose own params the wrapped function knows."""
        del params
        is_training, has_weight = mode == ModeKeys.TRAIN, False
        if not self.training.has_input_fn:
            is_done = is_training and self.has_own_train  # Its `train` gets such batches.
            has_weight = 'weight' in ((features if is_done else labels) or {})
            features, labels = (dict(features), labels) if is_done else self.program_batch(features, labels, is_training)
            if is_training:
                augmentation.warn_of_unchanged(features, labels, self.params)
                labels = augmentation.change_image(features, labels, self.params)
        if is_training:
            return self._train_spec(features, labels, has_weight, config)
        spec = self._call(features, labels, mode, config)
        if mode == ModeKeys.PREDICT:
            return self._with_outputs(spec)
        self._check_metrics(spec.eval_metric_ops)
        return spec

    def program_batch(self, features, labels, is_training) -> tuple[dict[str, Any], Any]:
        """Returns a batch of the framework's datasets as the program expects it, with the weights of classes if it has any."""
        class_weight = self._class_weight(labels, is_training) if labels else None
        features, labels = as_in_programs(self.dataset, self.params, features, labels)
        if class_weight is not None:
            features[class_weights.FEATURE] = class_weight
        return features, labels

    def _train_spec(self, features, labels, has_weight, config):
        if self.training.task.shares_steps:
            exact_program.begin()
        spec, weight, updates = self._step(features, labels, config)
        if has_weight and not _is_read(features['weight']) and not self._weighs_classes():
            tf.logging.warning(
                '--model=%s: does not read the feature weight, so the weights of the examples have no effect.',
                self.params.model,
            )
        for line in describe(named(features, 'features'), named(labels, 'label'), tf.trainable_variables()):
            tf.logging.info(line)
        self._warn_of_updates(spec.train_op, updates)
        return self._with_hooks(spec, weight, features, config)

    def _step(self, features, labels, config):
        """Builds the program's training step.

        Returns:
          Its spec; the weight of this process's share of the batch, None for its part of batch_size; the ops that belong to the
          tower that is run.
        """
        task, source = self.training.task, f'--model={self.params.model}: its training step'
        weight, counts = None, []
        if not self.devices and task.batch_parts == 1:
            return self._call(features, labels, ModeKeys.TRAIN, config), weight, tf.get_default_graph().get_operations()
        parts = f'--num_towers={len(self.devices)}' if self.devices else 'a cluster without parameter servers'
        program_towers.check_divisible(f'--dataset={self.params.dataset}', (features, labels), parts)
        if self.training.has_input_fn and task.batch_parts > 1:
            counts = [count_batch((features, labels))]
            shares, sizes, _ = split((features, labels), task.batch_parts)
            features, labels = shares[task.index]
            weight = tf.cast(sizes[task.index], tf.float32) / tf.cast(tf.add_n(sizes), tf.float32)

        def over_tasks(gradients):
            # One process does not merge the slices that it clips; GPUs add them in an order that may differ between tasks.
            merge = merge_duplicates if tf.config.list_physical_devices('GPU') else tf.identity
            return task.mean_gradients(gradients, merge, self.params, weight)

        def call(features, labels):
            return self._call(features, labels, ModeKeys.TRAIN, config)

        spec, gradients, ops = program_towers.build(source, call, self.devices, (features, labels), over_tasks)
        gradients.check(spec.train_op, (features, labels), parts)
        tf.logging.warning(
            '--model=%s: its model_fn gets each batch in %d parts, and a step takes the means of their losses and gradients, '
            'weighted by their numbers of examples. So a loss that is summed over a batch, or divided by a fixed batch size, '
            'shrinks; one divided by a sum of weights uses the sum of each part. Moving averages, as of batch norm, follow one '
            'part.',
            self.params.model,
            max(len(self.devices), 1) * task.batch_parts,
        )
        return spec._replace(train_op=tf.group(spec.train_op, *counts)), weight, ops

    def _weighs_classes(self):
        """Whether the module has asked for `weight_column`, or the class_weights, and there are some."""
        return 'class_weights' in self.names_read and class_weights.are_given(self.params)

    def _class_weight(self, labels, is_training):
        """Returns the feature of `weight_column`, float32 [batch], for class_weights; None if it is not asked for."""
        if not self._weighs_classes():
            return None
        of_class = class_weights.of_examples(labels, self.params) if is_training else 1.0
        of_example = labels['weight'] if 'weight' in labels else tf.ones_like(labels['label'], tf.float32)
        return tf.cast(of_example, tf.float32) * of_class

    def _call(self, features, labels, mode, config):
        """Calls the program's model_fn.

        Raises:
          UsageError: it raises an exception in which no line of the program is involved, or its spec is of another mode.
        """
        try:
            spec = self.model_fn(features, labels, mode, config)
        except (ValueError, TypeError, LookupError, AttributeError, tf.errors.OpError) as error:
            if user_traceback(error):
                raise
            text = re.sub(r'\w+: in user code: .*(?=\b\w+Error: )', '', in_a_line(error))  # Keras means its own code.
            raise UsageError(f'--model={self.params.model}: its Estimator raises {text}') from error
        if spec.mode != mode:
            raise UsageError(f'--model={self.params.model}: model_fn() returns a spec of mode {spec.mode} where mode is {mode}')
        return spec

    def _check_metrics(self, metrics):
        """Raises UsageError if a metric has the name of a column that each evaluation has."""
        for name in RESERVED:
            if name in metrics:
                raise UsageError(
                    f'--model={self.params.model}: eval_metric_ops has {name}, which each evaluation has anyway: rename it'
                )

    def _warn_of_updates(self, train_op, ops):
        """Warns if the training step leaves out updates, such as those of batch norm, without which evaluation is wrong.

        Args:
          ops: among which the updates are.
        """
        parts = {*ancestors([train_op])}
        weights = {variable.handle.op for variable in tf.trainable_variables() if hasattr(variable, 'handle')}
        if not parts & weights:  # Hooks train, as those of TF-GAN.
            return
        updates = [getattr(update, 'op', update) for update in tf.get_collection(tf.GraphKeys.UPDATE_OPS)]
        updates += [op for op in ops if op.type in _UPDATES]  # Of Keras layers.
        left = {*updates} - parts
        if left:
            tf.logging.warning(
                '--model=%s: its train_op leaves out %s, as of the averages of batch norm: call minimize() under '
                'tf.control_dependencies() of tf.get_collection(tf.GraphKeys.UPDATE_OPS), or of the updates of Keras layers.',
                self.params.model,
                'an update' if len(left) == 1 else f'{len(left)} updates',
            )

    def _with_hooks(self, spec, weight, features, config):
        task, source = self.training.task, f'--model={self.params.model}'
        if exact_program.has_begun():
            exact_program.read_before_changes(spec.train_op)
        self.training.check_effects(None, self.params, self.names_read, config.model_dir)
        warm_start(self.training.options)
        if task.has_scaffold and not _is_plain(spec.scaffold):
            raise UsageError(f'{source}: a Scaffold of its own excludes a cluster: leave it out')
        _check_saver(source, spec.scaffold.saver)
        of_program = {variable.op.name for variable in tf.local_variables()}
        with task.local():
            waited, count_wait = measure_wait(features)
        hooks, of_chief = [*spec.training_hooks], spec.training_chief_hooks if task.is_chief else []
        if not self.has_own_train:
            hooks.insert(0, StepCounts(source, not task.shares_steps))
        elif not self.training.has_input_fn:
            hooks.append(BatchCounts(source))
        means = task.means(spec.loss, self.params, weight)
        means([], merge_duplicates)  # Of the loss; the program has those of the gradients.
        step = Step(
            features,
            spec.predictions,
            means,
            tf.group(spec.train_op, count_wait),
            spec.eval_metric_ops,
            waited,
            [hook for hook in hooks if not _saves(hook)],
            max(len(self.devices), 1),
            spec.scaffold,
            hooks_before_saving=[hook for hook in of_chief if not _saves(hook)],
        )
        made = self.training.make_spec(step, self.params, config)
        if (own := spec.scaffold.local_init_op) is not None:  # It knows the program's variables only.
            others = [variable for variable in tf.local_variables() if variable.op.name not in of_program]
            tables = [tf.tables_initializer()] if self.devices else []  # It is the first tower's, and knows no others' tables.
            spec.scaffold._local_init_op = tf.group(own, tf.variables_initializer(others), *tables)
        return made

    def _with_outputs(self, spec):
        """Returns a spec for prediction with a dict of predictions, with a 'class' if it has 'class_ids', and with outputs.

        If the framework makes the inputs of an exported model, it has only signatures that predict: those for classification
        and regression take serialized examples.
        """
        predictions = named(spec.predictions, 'predictions')
        if 'class_ids' in predictions and predictions['class_ids'].shape.rank == 2:  # Of a canned classifier.
            predictions.setdefault('class', predictions['class_ids'][:, 0])
        outputs = dict(spec.export_outputs or {})
        if not outputs or not hasattr(self.dataset, 'serving_input_receiver_fn'):
            predict_output = tf.estimator.export.PredictOutput
            outputs = {name: output for name, output in outputs.items() if isinstance(output, predict_output)}
            outputs[_DEFAULT] = predict_output(with_class_name(predictions, self.params))
        return spec._replace(predictions=predictions, export_outputs=outputs)


def _is_read(tensor):
    """Whether an op reads a tensor, or a part of it."""
    return any(op.type != 'SplitV' or any(map(_is_read, op.outputs)) for op in tensor.consumers())


def _check_saver(source, saver):
    """Raises UsageError if a Scaffold's saver leaves out variables, without which a run cannot resume."""
    items = tf.nest.flatten(saver._var_list or []) if saver else []
    if not items or not all(hasattr(item, 'op') for item in items):  # Not known yet.
        return
    saved = {item.op.name for item in items}
    if left := [variable.op.name for variable in tf.global_variables() if variable.op.name not in saved]:
        raise UsageError(
            f'{source}: the saver of its Scaffold leaves out {listed(left, 3)}: make it after minimize(), of all variables'
        )


def _is_plain(scaffold):
    """Whether a tf.train.Scaffold, not yet finalized, leaves all to TensorFlow."""
    own = (scaffold.init_op, scaffold.init_fn, scaffold.ready_op, scaffold.local_init_op, scaffold.saver)
    return all(value is None for value in own)


def _saves(hook):
    if not isinstance(hook, tf.train.CheckpointSaverHook):
        return False
    tf.logging.warning('A CheckpointSaverHook of the model is left out: --save_checkpoints_steps decides when to save.')
    return True
