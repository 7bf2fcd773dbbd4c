"""Lists of hosts and of tasks, as Slurm writes them."""

import re

import pytest

from estimator_trainer.common.cluster import slurm_lists
from estimator_trainer.common.cluster.slurm_lists import expand_counts, expand_hosts


@pytest.mark.parametrize(
    'text, hosts',
    [
        ('a', 'a'),
        ('n[1-2],m5,o[3-4,6,8-9]', 'n1 n2 m5 o3 o4 o6 o8 o9'),
        ('n[1-2]-ib', 'n1-ib n2-ib'),
        ('c1-n[1,3-4].cluster.local,x', 'c1-n1.cluster.local c1-n3.cluster.local c1-n4.cluster.local x'),
        ('rack[1-2]n[1-2]', 'rack1n1 rack1n2 rack2n1 rack2n2'),
        ('r[1,3][07-08]', 'r107 r108 r307 r308'),
        ('n[008-010]', 'n008 n009 n010'),
        ('n[9-11]', 'n9 n10 n11'),
        ('n[1,01]', 'n1 n01'),
        ('[1-2]', '1 2'),
        ('n[2-1]', ''),
        ('', ''),
    ],
)
def test_hosts_are_expanded_in_their_order_with_what_is_around_the_brackets(text, hosts, monkeypatch):
    monkeypatch.setattr(slurm_lists, '_ask_slurm', pytest.fail)
    assert expand_hosts(text) == hosts.split()


def test_tasks_are_repeated():
    assert expand_counts('3(x2),1,2(x1)') == [3, 3, 1, 2]
    for text in ('', 'x', '1,', '1(x)', '1(2)', '-1'):
        with pytest.raises(ValueError, match=f'^{re.escape(text)} is not a list of tasks per host'):
            expand_counts(text)


def test_a_list_of_another_form_is_expanded_by_slurm_where_it_is_installed(tmp_path, monkeypatch):
    odd = ['n[1-', 'n1]', 'b[00x11]', 'a,,b', 'n[[1-2]]', 'n[1 2]', '-v[']
    monkeypatch.setenv('PATH', str(tmp_path))
    for text in odd:
        with pytest.raises(ValueError, match=f'^{re.escape(text)} is not a list of hosts'):
            expand_hosts(text)
    with pytest.raises(ValueError, match=re.escape('[1-2-3] is not a range of hosts')):
        expand_hosts('n[1-2-3]')
    script = tmp_path / 'scontrol'
    script.write_text('#!/bin/sh\n[ "$1 $2" = "show hostnames" ] && [ "$3" != "n[1-" ] && printf "%s-1\\nb2\\n" "$3"\n')
    script.chmod(0o755)
    assert expand_hosts('b[00x11]') == ['b[00x11]-1', 'b2']
    for text in ('n[1-', '-v['):
        with pytest.raises(ValueError, match='is not a list of hosts'):
            expand_hosts(text)
