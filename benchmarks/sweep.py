"""Trials of a sweep, compared with the time of their steps.

    python -m benchmarks.sweep [STEPS]

20 trials of the polynomial, two at a time, each of STEPS steps, by default 3,000, with one evaluation. For comparison, the
steps alone: two concurrent runs, each with the steps of ten trials, at the rates that they log. Each session call runs one
step, in all. The time of the sweep begins with the command, and includes the imports and the dry run. CPU time is that of all
processes.
"""

from concurrent.futures import ThreadPoolExecutor
import json
import os
import subprocess
import sys
import tempfile
import time

from benchmarks.processes import ROOT, cpu_of_children, run_trainer

TRIALS, JOBS, STEPS = 20, 2, 3000
MODEL = ('--model=polynomial', '--dataset=polynomial', '--steps_per_loop=1')


def seconds_of_steps(steps: int) -> float:
    """Returns the time of training for as many steps in each of JOBS concurrent runs, without starts and ends."""
    flags = (*MODEL, '--schedule=train', f'--train_steps={steps}', f'--save_checkpoints_steps={steps}')
    with ThreadPoolExecutor() as executor:
        runs = list(executor.map(lambda _: run_trainer(*flags), range(JOBS)))
    return max(steps / run['steps_per_second'] for run in runs)


def cpu_of_run(steps: int) -> float:
    """Returns the CPU time of trainer.py for a trial's steps, in a process of its own."""
    cpu = cpu_of_children()
    run_trainer(*MODEL, f'--train_steps={steps}', f'--save_checkpoints_steps={steps}')
    return cpu_of_children() - cpu


def run_sweep(steps: int) -> tuple[float, float]:
    """Returns the time and the CPU time of a sweep."""
    start, cpu = time.perf_counter(), cpu_of_children()
    with tempfile.TemporaryDirectory() as directory:
        space = os.path.join(directory, 'space.json')
        with open(space, 'w', encoding='utf-8') as file:
            json.dump({'learning_rate': {'low': 0.01, 'high': 1.0, 'log': True}}, file)
        flags = [f'--space={space}', f'--trials={TRIALS}', f'--jobs={JOBS}', f'--output_dir={directory}/output']
        steps_of_each = [f'--train_steps={steps}', f'--save_checkpoints_steps={steps}']
        command = [sys.executable, os.path.join(ROOT, 'sweep.py'), *MODEL, *flags, *steps_of_each]
        subprocess.run(command, check=True, capture_output=True)
        with open(os.path.join(directory, 'output', 'trials.json'), encoding='utf-8') as file:
            states = [row['state'] for row in json.load(file)]
        assert len(states) == TRIALS and 'failed' not in states
    return time.perf_counter() - start, cpu_of_children() - cpu


def main() -> None:
    steps = int(sys.argv[1]) if len(sys.argv) > 1 else STEPS
    alone = seconds_of_steps(steps * TRIALS // JOBS)
    run_cpu = cpu_of_run(steps)
    seconds, cpu = run_sweep(steps)
    print('| what | seen |\n| --- | --- |')
    print(f'| {TRIALS} trials of {steps:,} steps, {JOBS} at a time, s | {seconds:.1f} |')
    print(f'| their steps alone, s | {alone:.1f} |')
    print(f'| the ratio | {seconds / alone:.2f} |')
    print(f'| CPU per trial, s | {cpu / TRIALS:.2f} |')
    print(f'| CPU of trainer.py with the same flags, s | {run_cpu:.2f} |')


if __name__ == '__main__':
    main()
