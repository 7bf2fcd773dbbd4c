"""Steps shorter than a framework's overhead: the polynomial, compared with Keras and a bare loop.

    python -m benchmarks.short_steps

Batches of 100, Adam. trainer.py has its usual hooks and summaries, but saves checkpoints only at the start and the end. The
bare loop, 100 steps in a tf.while_loop, has only its input and the step; see benchmarks/bare_loop.py. The first run creates the
virtual environments in .venv-peers. Runs alternate, each in its own process; the table shows medians.
"""

from collections.abc import Callable
import functools
from typing import Any

from benchmarks.processes import make_environments, median_of_rounds, run_module, run_peer, run_trainer

ROUNDS, STEPS = 3, 30000


def train(*flags: str) -> dict[str, Any]:
    run = run_trainer(
        '--model=polynomial',
        '--dataset=polynomial',
        '--schedule=train',
        f'--train_steps={STEPS}',
        f'--save_checkpoints_steps={STEPS}',
        *flags,
    )
    return {'steps_per_second': run['steps_per_second']}


CONTENDERS: dict[str, Callable[[], dict[str, Any]]] = {
    'trainer.py': train,
    'trainer.py --save_summary_steps=1000': functools.partial(train, '--save_summary_steps=1000'),
    'trainer.py --steps_per_loop=1': functools.partial(train, '--steps_per_loop=1'),
    'Keras fit': functools.partial(run_peer, 'keras', 'keras_polynomial.py', STEPS // 5, 1),
    'Keras fit, 100 steps per execution': functools.partial(run_peer, 'keras', 'keras_polynomial.py', STEPS, 100),
    'bare loop, records shuffled one by one': functools.partial(run_module, 'benchmarks.bare_loop', 'shuffled', STEPS),
    "bare loop, the trainer's input": functools.partial(run_module, 'benchmarks.bare_loop', 'trainer', STEPS),
}


def main() -> None:
    make_environments()
    results = median_of_rounds(CONTENDERS, ROUNDS)
    ours = results['trainer.py']['steps_per_second']
    print('| trainer | steps/s | trainer.py relative to it |\n| --- | --- | --- |')
    for name, result in results.items():
        print(f'| {name} | {result["steps_per_second"]:,.0f} | {ours / result["steps_per_second"]:.2f} |')


if __name__ == '__main__':
    main()
