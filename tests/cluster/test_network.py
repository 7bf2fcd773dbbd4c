"""A cluster whose network fails, in network namespaces."""

import os
import shutil
import signal

import pytest

from tests.cluster.tasks import Run, TINY
from tests.cluster.conftest import FLAGS
from tests.shared import assert_equal
from tools.soak.network import Network

HOSTS = {'chief0': '10.76.0.1', 'worker0': '10.76.0.2'}
CLUSTER = {'chief': ['10.76.0.1:2222'], 'worker': ['10.76.0.2:2222']}


def has_namespaces():
    return os.geteuid() == 0 and shutil.which('ip') and not os.system('ip netns add test-0 2>&- && ip netns delete test-0')
