"""`rnn_beam_search` compared with the same search unrolled in Python: graph size, time to build the graph, time to run it.

    python -m benchmarks.beam_search

takes about eight minutes, most of them for the unrolled graph of 1,000 steps.
"""

from collections.abc import Callable
import json
import statistics
import sys
import time

import tf_estimator  # noqa: F401 - before TensorFlow

import numpy as np
import tensorflow.compat.v1 as tf

from benchmarks.processes import compare
from estimator_trainer.common.ops.beam_search import rnn_beam_search
from estimator_trainer.common.ops.shapes import reshape

BATCH, WIDTH, UNITS, TOKENS, BEGIN, END = 32, 8, 256, 1000, 0, 1
ROUNDS, RUNS = 3, 5
LENGTHS = (10, 100, 1000)


def unrolled(
    update_fn: Callable,
    initial_state: tf.Tensor,
    sequence_length: int,
    beam_width: int,
    begin_token_id: int,
    end_token_id: int,
) -> tuple[tf.Tensor, tf.Tensor]:
    """Beam search as a Python loop, with separate ops for each step. Finished sequences are extended by end tokens only."""
    batch = initial_state.shape[0]
    state = tf.tile(initial_state[:, None], [1, beam_width, 1])
    total = tf.tile([[0.0] + [-1e9] * (beam_width - 1)], [batch, 1])
    ids = tf.fill([batch, beam_width], begin_token_id)
    sequences = tf.zeros([batch, beam_width, 0], tf.int32)
    finished = tf.zeros([batch, beam_width], tf.bool)
    only_the_end = tf.one_hot(end_token_id, TOKENS, 0.0, -1e9)
    for _ in range(sequence_length):
        state, logits = update_fn(state, ids)
        log_probs = tf.where_v2(finished[:, :, None], only_the_end, tf.nn.log_softmax(logits)) + total[:, :, None]
        total, best = tf.nn.top_k(reshape(log_probs, [0, [1, 2]]), beam_width)
        parents, ids = best // TOKENS, best % TOKENS
        state = tf.gather(state, parents, batch_dims=1)
        finished = tf.equal(ids, end_token_id)
        sequences = tf.concat([tf.gather(sequences, parents, batch_dims=1), ids[:, :, None]], axis=2)
    return sequences, total


FORMS = {'loop': rnn_beam_search, 'unrolled': unrolled}


def decode(search: Callable, length: int) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the result of `search` for a GRU with fixed random weights that never emits the end token."""
    random = np.random.RandomState(0)
    embedding = tf.constant(random.normal(size=[TOKENS, UNITS]), tf.float32)
    kernel = tf.constant(random.normal(size=[UNITS, TOKENS]) / 8, tf.float32)
    bias = -1e4 * tf.one_hot(END, TOKENS)
    cell = tf.nn.rnn_cell.GRUCell(UNITS, kernel_initializer=tf.initializers.orthogonal(seed=1))
    cell.build([None, UNITS])

    def update(state, ids):
        output, _ = cell(reshape(tf.gather(embedding, ids), [[0, 1], 2]), reshape(state, [[0, 1], 2]))
        state = tf.reshape(output, [BATCH, WIDTH, UNITS])
        return state, tf.reshape(tf.matmul(output, kernel), [BATCH, WIDTH, TOKENS]) + bias

    state = tf.constant(random.normal(size=[BATCH, UNITS]), tf.float32)
    return search(update, state, length, WIDTH, BEGIN, END)


def measure(name: str, length: int) -> dict[str, float]:
    """Returns the number of nodes, the seconds to build the graph, of the first run and of later runs, and a checksum."""
    with tf.Graph().as_default() as graph, tf.Session() as session:
        start = time.perf_counter()
        output = decode(FORMS[name], length)
        build = time.perf_counter() - start
        session.run(tf.global_variables_initializer())
        start = time.perf_counter()
        ids, log_probs = session.run(output)
        first = time.perf_counter() - start
        seconds = []
        for _ in range(RUNS):
            start = time.perf_counter()
            session.run(output)
            seconds.append(time.perf_counter() - start)
        definition = graph.as_graph_def()
    nodes = len(definition.node) + sum(len(function.node_def) for function in definition.library.function)
    return {
        'nodes': nodes,
        'build': build,
        'first': first,
        'run': statistics.median(seconds),
        'checksum': float(np.mean(ids * np.arange(1, length + 1)) + log_probs.mean()),
    }


def main() -> None:
    print(f'batch {BATCH}, width {WIDTH}, GRU {UNITS}, {TOKENS} tokens\n')
    print('| steps | form | nodes | build, s | first run, s | run, s |\n| --- | --- | --- | --- | --- | --- |')
    for length in LENGTHS:
        results = compare('benchmarks.beam_search', [f'{name}:{length}' for name in FORMS], ROUNDS)
        loop, other = results.values()
        assert abs(loop['checksum'] - other['checksum']) < 1e-3 * abs(other['checksum']), 'the two found different texts'
        for name, result in zip(FORMS, (loop, other)):
            print(
                f'| {length} | {name} | {result["nodes"]:.0f} | {result["build"]:.2f} | {result["first"]:.2f} | '
                f'{result["run"]:.3f} |'
            )
        ratios = ' | '.join(f'{other[key] / loop[key]:.2f}' for key in ('nodes', 'build', 'first', 'run'))
        print(f'| {length} | ratio | {ratios} |', flush=True)


if __name__ == '__main__':
    if len(sys.argv) == 1:
        main()
    else:
        form, steps = sys.argv[1].split(':')
        print(json.dumps(measure(form, int(steps))))
