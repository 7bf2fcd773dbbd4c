"""The benchmarks run, and compare forms that compute the same."""

from unittest import mock

import pytest

from benchmarks import beam_search, merge


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
