"""Progress on a terminal."""

import tensorflow.compat.v1 as tf

from common.monitoring import progress_bar
from common.monitoring.summaries import Length
from hparams.build import HParams


def test_the_progress_bar_counts_from_the_global_step(monkeypatch, session):
    bars = []
    monkeypatch.setattr(progress_bar, 'make_bar', lambda **options: bars.append(Bar(options)) or bars[-1])

    class Bar:
        disable, format_dict = False, {'rate': 2.5}

        def __init__(self, options):
            self.options, self.n, self.closed = options, options['initial'], False

        def update(self, count):
            self.n += count

        def set_postfix(self, values, refresh):
            self.postfix = values

        def close(self):
            self.closed = True

    class Train(tf.train.SessionRunHook):
        def after_run(self, run_context, run_values):
            run_context.session.run(count)

    step = tf.train.get_or_create_global_step()
    count = tf.assign_add(step, 4)
    scaffold = tf.train.Scaffold(init_op=tf.assign(step, 7))
    lengths = [Length(HParams({'batch_size': 32}), num_examples, 16) for num_examples in (128, 0)]
    hooks = [progress_bar.ProgressBar(tf.constant(0.12345), length) for length in lengths]
    with tf.train.SingularMonitoredSession([*hooks, Train()], scaffold=scaffold) as training:
        for _ in range(3):
            training.run(step)
    assert [(bar.options['desc'], bar.options['total'], bar.n) for bar in bars] == [('Training', 16, 16)] * 2
    assert bars[0].postfix == {'epoch': '4.00', 'examples/sec': '80', 'loss': '0.1235'}
    assert 'epoch' not in bars[1].postfix
    assert all(bar.closed for bar in bars)
