"""A real Slurm of two nodes, n1 and n2, each a network, host name and mount namespace of this machine."""

import contextlib
import os
import pathlib
import shutil
import subprocess
import time

import pytest

_NODES = ('n1', 'n2')
_PROGRAMS = ('munged', 'slurmctld', 'slurmd', 'srun', 'sbatch', 'ip', 'nsenter', 'unshare')
_PATH = f'{os.environ["PATH"]}:/usr/sbin:/sbin'
_SECONDS = 100
_CONF = """ClusterName=test
SlurmctldHost=n1
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={directory}/munge.sock
StateSaveLocation={directory}/state
SlurmdSpoolDir={directory}/spool.%n
SlurmdPidFile={directory}/slurmd.%n.pid
SlurmctldPidFile={directory}/slurmctld.pid
SlurmdLogFile={directory}/slurmd.%n.log
SlurmctldLogFile={directory}/slurmctld.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
SchedulerParameters=batch_sched_delay=0,sched_interval=1
NodeName=n[1-2] CPUs=16 RealMemory=32000
PartitionName=main Nodes=ALL Default=YES
"""


class Slurm:
    """Runs commands on the first node, and waits for batch jobs."""

    def __init__(self, directory):
        self._directory = directory
        self.environ = {**os.environ, 'PATH': _PATH, 'SLURM_CONF': f'{directory}/slurm.conf'}
        for name in [name for name in self.environ if name.startswith('SLURM_') and name != 'SLURM_CONF']:
            del self.environ[name]

    def command(self, node, *command):
        """Returns the command that runs another one on a node."""
        # Not "ip netns exec", which hides /sys/fs/cgroup from slurmd.
        enter = f'mount --bind {self._directory}/hosts /etc/hosts && hostname "$0" && exec "$@"'
        return ['nsenter', f'--net=/run/netns/{_space(node)}', 'unshare', '--uts', '--mount', 'sh', '-c', enter, node, *command]

    def run(self, *command, **options):
        """Runs a command on the first node, and returns its output."""
        done = subprocess.run(
            self.command('n1', *command), env=self.environ, capture_output=True, text=True, timeout=300, **options
        )
        assert done.returncode == 0, (command, done.stdout, done.stderr)
        return done.stdout

    def submit(self, *command, **options):
        """Runs sbatch, and returns the states and exit codes of the job's array tasks once they have ended."""
        job = self.run('sbatch', '--parsable', *command, **options).strip()
        deadline = time.monotonic() + 3 * _SECONDS
        while True:
            shown = self.run('scontrol', 'show', '--oneliner', 'job', job).splitlines()
            found = [dict(field.partition('=')[::2] for field in line.split()) for line in shown]
            if not {task['JobState'] for task in found} & {'PENDING', 'CONFIGURING', 'RUNNING', 'COMPLETING'}:
                return [(task['JobState'], task['ExitCode']) for task in found]
            assert time.monotonic() < deadline, shown
            time.sleep(0.1)


@pytest.fixture(scope='module')
def slurm(tmp_path_factory):
    """A Slurm that ends with the module; skips its tests where it is not installed, or this process may not make namespaces."""
    if missing := [program for program in _PROGRAMS if not shutil.which(program, path=_PATH)]:
        pytest.skip(f'{", ".join(missing)}: apt-get install slurm-wlm munge')
    if os.geteuid():
        pytest.skip('needs root')
    directory = tmp_path_factory.mktemp('slurm')
    with contextlib.ExitStack() as stack:
        _connect(stack)
        yield _start(stack, directory)


def _space(node):
    return f'slurm-{os.getpid()}-{node}'


def _connect(stack):
    """Makes the namespaces of the nodes, connected by a bridge in another one."""
    for name in ('hub', *_NODES):
        if subprocess.run(['ip', 'netns', 'add', _space(name)], env={'PATH': _PATH}, capture_output=True).returncode:
            pytest.skip('may not make network namespaces')
        stack.callback(_ip, f'netns delete {_space(name)}')
    hub = f'-n {_space("hub")} link'
    _ip(f'{hub} add bridge type bridge')
    _ip(f'{hub} set bridge up')
    for i, node in enumerate(_NODES, 1):
        own = f'-n {_space(node)}'
        _ip(f'{hub} add {node} type veth peer name eth0 netns {_space(node)}')
        _ip(f'{hub} set {node} master bridge up')
        _ip(f'{own} addr add 10.77.1.{i}/24 dev eth0')
        _ip(f'{own} link set lo up')
        _ip(f'{own} link set eth0 up')


def _ip(arguments):
    subprocess.run(['ip', *arguments.split()], env={'PATH': _PATH}, check=True)


def _start(stack, directory: pathlib.Path):
    """Starts the daemons, as children of this process, and returns the Slurm once its nodes are idle."""
    hosts = '127.0.0.1 localhost\n' + ''.join(f'10.77.1.{i} {node}\n' for i, node in enumerate(_NODES, 1))
    for name, text in (
        ('hosts', hosts),
        ('slurm.conf', _CONF.format(directory=directory)),
        ('munge.key', os.urandom(512).hex()),
    ):
        (directory / name).write_text(text)
    (directory / 'munge.key').chmod(0o400)
    for name in ('state', *(f'spool.{node}' for node in _NODES)):
        (directory / name).mkdir()
    found = Slurm(directory)
    files = [f'--{kind}-file={directory}/munge.{kind}' for kind in ('key', 'pid', 'log', 'seed')]
    log = stack.enter_context(open(directory / 'daemons.log', 'w'))
    for command in (
        ['munged', '--foreground', '--force', f'--socket={directory}/munge.sock', *files],
        found.command('n1', 'slurmctld', '-D'),
        *(found.command(node, 'slurmd', '-D') for node in _NODES),
    ):
        daemon = subprocess.Popen(command, env=found.environ, stdout=log, stderr=log)
        stack.callback(_end, daemon)
    stack.callback(_cancel, found)
    deadline = time.monotonic() + _SECONDS
    while _states(found) != ['idle', 'idle']:
        assert time.monotonic() < deadline, (directory / 'daemons.log').read_text()
        time.sleep(0.05)
    return found


def _states(slurm):
    command = slurm.command('n1', 'sinfo', '--noheader', '--Node', '--format=%T')
    return subprocess.run(command, env=slurm.environ, capture_output=True, text=True).stdout.split()


def _cancel(slurm):
    """Ends what still runs, with its processes."""
    slurm.run('scancel', '--signal=KILL', '--full', '--user=root')
    deadline = time.monotonic() + _SECONDS
    while slurm.run('squeue', '--noheader') and time.monotonic() < deadline:
        time.sleep(0.1)


def _end(daemon):
    daemon.terminate()
    daemon.wait()
