"""The benchmarks run, and compare forms that compute the same."""

from unittest import mock

import pytest

from benchmarks import beam_search, merge, training


@mock.patch.multiple(beam_search, BATCH=2, WIDTH=3, UNITS=8, TOKENS=20, RUNS=1)
def test_both_forms_of_beam_search_find_the_same_texts():
    loop, unrolled = (beam_search.measure(form, 6) for form in ('loop', 'unrolled'))
    assert loop['checksum'] == pytest.approx(unrolled['checksum'], rel=1e-4)
    assert loop.keys() == unrolled.keys() == {'nodes', 'build', 'first', 'run', 'checksum'}
    assert beam_search.measure('loop', 12)['nodes'] == loop['nodes']
    assert beam_search.measure('unrolled', 12)['nodes'] > unrolled['nodes']


@pytest.mark.parametrize('form', merge.FORMS)
@mock.patch.multiple(merge, IMAGES=[2, 4, 4, 3], CONTEXT=[2, 1, 1, 5], UNITS=6, STEPS=2)
def test_the_forms_of_merge_are_measured(form):
    assert merge.measure(form).keys() == {'milliseconds', 'megabytes'}


@mock.patch.multiple(training, STEPS=30, EVERY=10)
def test_what_the_trainer_reaches_is_read_from_its_log(data_dir):
    result = training.train([], data_dir)
    assert result.keys() == {'examples_per_second', 'megabytes', 'parameters', 'loss'}
    # Three convolutions of 3x3, two dense layers, each with biases.
    assert result['parameters'] == 9 * (32 + 32 * 64 + 64 * 128) + 32 + 64 + 128 + 1152 * 512 + 512 + 512 * 10 + 10
    assert result['examples_per_second'] > 0 and result['megabytes'] > 100 and 0 < result['loss'] < 3
