"""What `python -m tf_estimator enable` costs Python programs that do not import TensorFlow.

    python -m benchmarks.python_start

It starts Python in two virtual environments in turn: one where tf.estimator is enabled, and one as it was made.
"""

import os
import pathlib
import statistics
import subprocess
import tempfile
import time
import venv

from tf_estimator import environment

from benchmarks import processes

ROUNDS = 200


def make_environment(directory: str, is_enabled: bool) -> pathlib.Path:
    """Makes a virtual environment, and returns the path of its Python."""
    venv.create(directory, with_pip=False)
    (site_packages,) = pathlib.Path(directory, 'lib').glob('python*/site-packages')
    if is_enabled:
        for path, text in environment.files(site_packages).items():
            path.write_text(text)
    return pathlib.Path(directory, 'bin', 'python')


def start(python: pathlib.Path) -> tuple[float, float]:
    """Returns the wall-clock and the CPU milliseconds of a program that does nothing."""
    before, begin = processes.cpu_of_children(), time.perf_counter()
    subprocess.run([python, '-c', ''], check=True)
    wall, cpu = time.perf_counter() - begin, processes.cpu_of_children() - before
    return 1000 * wall, 1000 * cpu


def measure(rounds: int) -> dict[str, list[float]]:
    """Returns {environment: [median of wall-clock milliseconds, mean of CPU milliseconds]}."""
    with tempfile.TemporaryDirectory() as directory:
        pythons = {
            name: make_environment(os.path.join(directory, name), name == 'enabled') for name in ('as it was made', 'enabled')
        }
        times: dict[str, list[tuple[float, float]]] = {name: [] for name in pythons}
        for _ in range(rounds):
            for name, python in pythons.items():
                times[name].append(start(python))
    return {
        name: [statistics.median(wall for wall, _ in own), statistics.mean(cpu for _, cpu in own)]
        for name, own in times.items()
    }


def main() -> None:
    results = measure(ROUNDS)
    print('| environment | start of Python, ms | CPU, ms |\n| --- | --- | --- |')
    for name, (wall, cpu) in results.items():
        print(f'| {name} | {wall:.2f} | {cpu:.2f} |')
    made, enabled = results.values()
    print(f'| difference | {enabled[0] - made[0]:.2f} | {enabled[1] - made[1]:.2f} |')


if __name__ == '__main__':
    main()
