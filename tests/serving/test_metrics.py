"""The metrics of a server in Prometheus' text format."""

from estimator_trainer.common.serving.metrics import Histogram, Metrics


def test_a_histogram_counts_values_up_to_each_bound():
    histogram = Histogram((1, 2.5))
    for value in (0.5, 1, 2, 9):
        histogram.add(value)
    assert histogram.lines('h') == [
        'h_bucket{le="1"} 2',
        'h_bucket{le="2.5"} 3',
        'h_bucket{le="+Inf"} 4',
        'h_sum 12.5',
        'h_count 4',
    ]


def test_requests_are_counted_by_code_beside_batches_and_the_step():
    metrics = Metrics()
    for code in (200, 404, 200):
        metrics.answered(code, 0.01)
    metrics.batch(3)
    lines = metrics.text(7, 2).splitlines()
    assert {
        'serving_requests_total{code="200"} 2',
        'serving_requests_total{code="404"} 1',
        'serving_request_seconds_bucket{le="0.005"} 0',
        'serving_request_seconds_bucket{le="0.01"} 3',
        'serving_batch_examples_bucket{le="2"} 0',
        'serving_batch_examples_sum 3.0',
        '# TYPE serving_request_seconds histogram',
        'serving_model_step 7',
        'serving_requests_in_progress 2',
    } <= {*lines}
    types = [line.split()[2] for line in lines if line.startswith('# TYPE')]
    assert len(types) == len({*types}) == sum(line.startswith('# HELP') for line in lines) == 5
