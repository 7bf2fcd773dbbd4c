"""Evaluation of many checkpoints on one graph."""

from collections.abc import Callable, Iterator, Sequence
import contextlib
import itertools
from typing import Any

from google.protobuf.message import DecodeError
import numpy as np
import tensorflow.compat.v1 as tf
from tensorflow.python.training.monitored_session import _HookedSession

from estimator_trainer.common.console import make_bar
from estimator_trainer.common.errors import RunError, UsageError
from estimator_trainer.common.inference.checkpoint_estimator import at
from estimator_trainer.common.inference.evaluated_input import open_input, running_queues
from estimator_trainer.common.memory_check import check_fits
from estimator_trainer.common.plugins.estimator_contract import named
from estimator_trainer.common.records.elements import INFINITE
from estimator_trainer.common.storage.event_files import events_dir, flush
from estimator_trainer.common.storage.restore import make_saver, make_session, restore

ModeKeys = tf.estimator.ModeKeys


class Evaluator:
    """Evaluates checkpoints of an Estimator on one split, like `Estimator.evaluate`.

    Creates graph and session once, at the first use; later evaluations only restore weights. `Estimator.evaluate` creates both
    each time, which costs half a second and some memory. Event files are written to the same directory: output_dir/eval for the
    split 'eval', output_dir/eval_NAME for another. If model_fn returns hooks, or input_fn tensors, each evaluation creates its
    graph: hooks belong to one graph, and such inputs start once.

    Args:
      estimator: provides the model_fn and the directory.
      input_fn: returns a tf.data.Dataset of (features, labels), or such tensors.
      steps: maximum number of batches to evaluate; 0 for all.
      at_least: minimum number of batches in the split.
      batch_size: number of examples per tower in the largest batch.
      writes_events: whether to write event files.
    """

    def __init__(
        self,
        estimator: tf.estimator.Estimator,
        input_fn: Callable[[], tf.data.Dataset],
        split: str,
        steps: int,
        at_least: int,
        batch_size: int = 1,
        writes_events: bool = True,
    ):
        self.split = split
        self.events_dir = events_dir(estimator.model_dir, split)
        self._estimator = estimator
        self._input_fn = input_fn
        self._steps = steps
        self._at_least = at_least
        self._batch_size = batch_size
        self._writes_events = writes_events
        self._session: Any = None
        self._hooks: Sequence[tf.train.SessionRunHook] = ()
        self._is_used = False

    def metric_names(self) -> list[str]:
        """Returns the names of the scalar numeric metrics, sorted."""
        self._build()
        return sorted(name for name, value in self._values.items() if value.dtype != tf.string and value.shape.rank == 0)

    def evaluate(self, checkpoint_path: str) -> dict[str, Any]:
        """Returns {name: value} of the metrics and 'global_step', for a checkpoint's path without suffix: model.ckpt-100.

        Raises:
          RunError: the checkpoint is corrupt or belongs to another model, or the split ends early.
        """
        if self._is_used and not self._can_restart:
            self._session.close()
            self._session = None
        self._build(checkpoint_path)
        self._is_used = True
        restore(self._saver, self._session, checkpoint_path)
        with self._session.graph.as_default(), self._started():
            session = _HookedSession(self._session, self._hooks)
            for hook in self._hooks:
                hook.after_create_session(self._session, tf.train.Coordinator())
            done = 0
            with contextlib.suppress(tf.errors.OutOfRangeError):  # The split may have fewer batches.
                for _ in make_bar(self._numbers(), desc='Evaluating', leave=False):
                    session.run(self._updates)
                    done += 1
                    if session.should_stop():
                        break
            if not done:
                raise RunError(
                    f'the split {self.split} has no batch to evaluate, or a Python function of the dataset raises StopIteration'
                )
            if done < self._at_least and not session.should_stop():
                raise RunError(
                    f'the split {self.split} ended after {done} of {self._at_least} batches: a Python function of the dataset '
                    'may have raised StopIteration'
                )
            self._end_hooks()
            step, values = self._session.run((self._global_step, self._values))
            self._write(step, values)
        return {'global_step': int(step), **values}

    def _end_hooks(self):
        for hook in self._hooks:
            try:
                hook.end(self._session)
            except tf.errors.OutOfRangeError:
                raise UsageError(
                    f'the evaluation hook {type(hook).__name__} computes tensors of a batch in end(), after the last batch '
                    f'of the split {self.split}: use after_run(), or leave out at_end=True, or set --eval_steps'
                ) from None

    def batches(self, choose: Callable[..., dict[str, tf.Tensor]]) -> Iterator[dict[str, np.ndarray]]:
        """Yields chosen tensors of the evaluated batches as {name: array}, computed with the last evaluated weights.

        Args:
          choose: function of (features, labels, predictions) that returns the tensors to yield, {name: tensor}, or an empty
            dict for none.
        """
        self._build()
        chosen = choose(*self._examples)
        if not chosen:
            return
        with self._session.graph.as_default(), self._started(), contextlib.suppress(tf.errors.OutOfRangeError):
            for _ in self._numbers():
                yield self._session.run(chosen)

    def _numbers(self):
        return range(self._steps) if self._steps else itertools.count()

    @contextlib.contextmanager
    def _started(self):
        """Within the block, the session is at the first batch."""
        self._session.run(self._reset)
        if not self._steps and self._session.run(self._cardinality) == INFINITE:
            raise UsageError(f'the split {self.split} is infinite: set --eval_steps')
        with running_queues(self._session):
            yield

    def _build(self, checkpoint_path=None):
        if self._session:
            return
        estimator = at(self._estimator, checkpoint_path)
        config = self._estimator.config
        with tf.Graph().as_default() as graph:
            tf.set_random_seed(config.tf_random_seed)
            self._global_step = tf.train.create_global_step()
            self._input = open_input(self._input_fn())
            features, labels = self._input.features, self._input.labels
            spec = estimator.model_fn(features, labels, ModeKeys.EVAL, config)
            self._examples = (named(features, 'features'), named(labels, 'label'), named(spec.predictions, 'predictions'))
            metrics = {'loss': tf.metrics.mean(spec.loss), **spec.eval_metric_ops}
            self._values = {name: value for name, (value, _) in metrics.items()}
            self._updates = [update for _, update in metrics.values()]
            check_fits(self._updates, self._batch_size, 'eval_batch_size')
            self._hooks = spec.evaluation_hooks
            for hook in self._hooks:
                hook.begin()
            has_one_graph = estimator is self._estimator
            self._can_restart = not self._hooks and self._input.can_restart and has_one_graph
            self._reset = [*filter(None, [spec.scaffold.local_init_op]), tf.local_variables_initializer()]
            self._reset += [tf.tables_initializer(), self._input.initializer]
            if not self._steps:
                self._cardinality = self._input.cardinality()
            self._session, self._saver = make_session(config), make_saver(spec)
            self._is_used = not has_one_graph  # Another checkpoint may have another one.
            graph.finalize()

    def _write(self, step, values):
        """Logs the values and writes them to the event file; bytes are serialized summaries, such as images."""
        numbers = {name: value for name, value in values.items() if not isinstance(value, bytes)}
        text = ', '.join(f'{name} = {value}' for name, value in sorted({'global_step': step, **numbers}.items()))
        tf.logging.info(f'Saving dict for global step {step}: {text}')
        if not self._writes_events:
            return
        summary = tf.Summary()
        for name, value in sorted(values.items()):
            if isinstance(value, bytes):
                with contextlib.suppress(DecodeError):  # A string that is not a summary.
                    parts = tf.Summary.FromString(value).value
                    for i, part in enumerate(parts):
                        part.tag = f'{name}/{i}'
                    summary.value.extend(parts)
            elif np.ndim(value):
                summary.value.add(tag=name, tensor=tf.make_tensor_proto(value))
            else:
                summary.value.add(tag=name, simple_value=value)
        writer = tf.summary.FileWriterCache.get(self.events_dir)
        writer.add_summary(summary, step)
        flush(writer)
