"""Requests that wait together become batches, whose results are split again."""

from concurrent.futures import Future
import threading

import numpy as np
import pytest

from estimator_trainer.common.serving.batching import Batcher, Job, merge, split, take


def job(size, width=1, **others):
    return Job({'x': np.full([size, width], size, np.float32), **others}, Future())


@pytest.mark.parametrize(
    'jobs, max_size, indices',
    [
        ([job(1)], 4, [0]),
        ([job(1), job(2), job(1), job(1)], 4, [0, 1, 2]),
        ([job(3), job(2), job(1)], 4, [0, 2]),
        ([job(1), job(1, width=2), job(1)], 4, [0, 2]),
        ([job(9), job(1)], 4, [0]),
        ([job(1), job(1)], 0, [0]),
        # Alternative inputs, one of which is empty, are not mixed: the order of the examples would change.
        ([job(1, y=np.zeros([0, 1])), job(0, y=np.zeros([1, 1])), job(2, y=np.zeros([0, 1]))], 9, [0, 2]),
    ],
)
def test_the_first_request_runs_with_later_ones_of_its_shapes_up_to_the_largest_batch(jobs, max_size, indices):
    taken, others = take(jobs, max_size)
    assert [id(job) for job in taken] == [id(jobs[i]) for i in indices]
    assert [id(job) for job in others] == [id(job) for i, job in enumerate(jobs) if i not in indices]


def test_a_merged_batch_is_split_into_the_predictions_of_its_parts():
    merged = merge([{'x': np.array([[1], [2]])}, {'x': np.array([[3]])}])
    assert merged['x'].tolist() == [[1], [2], [3]]
    assert [part['x'].tolist() for part in split(merged, [2, 1])] == [[[1], [2]], [[3]]]


class Gate:
    """A prediction that doubles its input, refuses 13, and waits with the first batch until it may go on."""

    def __init__(self):
        self.has_begun, self.may_go_on, self.sizes = threading.Event(), threading.Event(), []

    def __call__(self, batch):
        self.sizes.append(len(batch['x']))
        self.has_begun.set()
        assert self.may_go_on.wait(100)
        if 13 in batch['x']:
            raise ValueError('13')
        return {'y': 2 * batch['x']}


def test_what_waits_is_one_batch_and_a_request_that_fails_fails_alone():
    gate, sizes = Gate(), []
    batcher = Batcher(gate, 8, sizes.append)
    first = batcher.submit({'x': np.array([0.0])})
    assert gate.has_begun.wait(100)
    futures = [batcher.submit({'x': np.array([value])}) for value in (1.0, 13.0, 2.0, 3.0)]
    assert futures[3].cancel()
    gate.may_go_on.set()
    assert [future.result(100)['y'].tolist() for future in (first, futures[0], futures[2])] == [[0], [2], [4]]
    with pytest.raises(ValueError, match='13'):
        futures[1].result(100)
    batcher.close()
    assert gate.sizes == sizes == [1, 3, 1, 1, 1]


@pytest.mark.parametrize(
    'predict, expected',
    [
        (lambda x: np.stack([x, 10 * x], 1).ravel(), [[1, 10], [2, 20], [3, 30]]),  # As tf.reshape(logits, [-1]).
        (np.sum, [1, 2, 3]),
        (lambda x: x[:1], [[1], [2], [3]]),
    ],
)
def test_requests_whose_predictions_cannot_be_split_are_predicted_alone(predict, expected, caplog):
    has_begun, may_go_on, sizes = threading.Event(), threading.Event(), []

    def wait(size):
        sizes.append(size)
        has_begun.set()
        assert may_go_on.wait(100)

    batcher = Batcher(lambda batch: {'y': predict(batch['x'])}, 8, wait)
    futures = [batcher.submit({'x': np.array([1.0])})]
    assert has_begun.wait(100)
    futures += [batcher.submit({'x': np.array([value])}) for value in (2.0, 3.0)]
    may_go_on.set()
    assert [future.result(100)['y'].tolist() for future in futures] == expected
    may_go_on.clear()
    has_begun.clear()
    futures = [batcher.submit({'x': np.array([1.0])})]
    assert has_begun.wait(100)
    futures += [batcher.submit({'x': np.array([value])}) for value in (2.0, 3.0)]
    may_go_on.set()
    assert [future.result(100)['y'].tolist() for future in futures] == expected
    batcher.close()
    assert sizes == [1, 2, 1, 1, 1, 1, 1]
    assert [message.endswith('from now on, each request is predicted alone.') for message in caplog.messages] == [True]


def test_closing_waits_for_what_was_submitted():
    gate = Gate()
    batcher = Batcher(gate, 1)
    futures = [batcher.submit({'x': np.array([value])}) for value in range(3)]
    gate.may_go_on.set()
    batcher.close()
    assert [future.result(0)['y'].tolist() for future in futures] == [[0], [2], [4]]
