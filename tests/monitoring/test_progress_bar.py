"""Progress on a terminal."""

from unittest import mock

import tensorflow.compat.v1 as tf

from common.monitoring import progress_bar
from common.monitoring.summaries import Length
from hparams.build import HParams


def test_the_progress_bar_counts_from_the_global_step(monkeypatch, session):
    def make_bar(desc, total, initial, leave):
        bar = mock.Mock(desc=desc, total=total, n=initial, disable=False, format_dict={'rate': 2.5})
        bar.update.side_effect = lambda count: setattr(bar, 'n', bar.n + count)
        bars.append(bar)
        return bar

    class Train(tf.train.SessionRunHook):
        def after_run(self, run_context, run_values):
            run_context.session.run(count)

    bars = []
    monkeypatch.setattr(progress_bar, 'make_bar', make_bar)
    step = tf.train.get_or_create_global_step()
    count = tf.assign_add(step, 4)
    scaffold = tf.train.Scaffold(init_op=tf.assign(step, 7))
    lengths = [Length(HParams({'batch_size': 32}), num_examples, 16) for num_examples in (128, 0)]
    hooks = [progress_bar.ProgressBar(tf.constant(0.12345), length) for length in lengths]
    with tf.train.SingularMonitoredSession([*hooks, Train()], scaffold=scaffold) as training:
        for _ in range(3):
            training.run(step)
    assert [(bar.desc, bar.total, bar.n, bar.close.called) for bar in bars] == [('Training', 16, 16, True)] * 2
    first, second = (bar.set_postfix.call_args.args[0] for bar in bars)
    assert first == {'epoch': '4.00', 'examples/sec': '80', 'loss': '0.1235'} and 'epoch' not in second
