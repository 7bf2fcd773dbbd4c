"""Steps shorter than what a framework does between them: the polynomial, beside Keras and a bare loop.

    python -m benchmarks.short_steps

Batches of 100, Adam. trainer.py has its usual hooks and summaries, but saves no checkpoints on the way. The bare loop, 100
steps in a tf.while_loop, has nothing but its input and the step; see benchmarks/bare_loop.py. Keras's virtual environment
is made in .venv-peers, once. All run in turn, each in a process of its own, and the table shows medians.
"""

import functools

from benchmarks.processes import make_environments, median_of_rounds, run_module, run_peer, run_trainer

ROUNDS, STEPS = 3, 30000


def train(*flags):
    run = run_trainer(
        '--model=polynomial',
        '--dataset=polynomial',
        '--schedule=train',
        f'--train_steps={STEPS}',
        f'--save_checkpoints_steps={STEPS}',
        *flags,
    )
    return {'steps_per_second': run['steps_per_second']}


CONTENDERS = {
    'trainer.py': train,
    'trainer.py --steps_per_loop=100': functools.partial(train, '--steps_per_loop=100'),
    'trainer.py --steps_per_loop=100 --save_summary_steps=1000': functools.partial(
        train, '--steps_per_loop=100', '--save_summary_steps=1000'
    ),
    'Keras fit': functools.partial(run_peer, 'keras', 'keras_polynomial.py', STEPS // 5, 1),
    'Keras fit, 100 steps an execution': functools.partial(run_peer, 'keras', 'keras_polynomial.py', STEPS, 100),
    'bare loop, records shuffled one by one': functools.partial(run_module, 'benchmarks.bare_loop', 'shuffled', STEPS),
    "bare loop, the trainer's input": functools.partial(run_module, 'benchmarks.bare_loop', 'trainer', STEPS),
}


def main():
    make_environments()
    results = median_of_rounds(CONTENDERS, ROUNDS)
    ours = results['trainer.py --steps_per_loop=100']['steps_per_second']
    print('| trainer | steps/s | trainer.py --steps_per_loop=100 against it |\n| --- | --- | --- |')
    for name, result in results.items():
        print(f'| {name} | {result["steps_per_second"]:,.0f} | {ours / result["steps_per_second"]:.2f} |')


if __name__ == '__main__':
    main()
