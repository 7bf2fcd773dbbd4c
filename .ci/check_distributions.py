"""Checks the contents of the wheels and sdists of both distributions: python .ci/check_distributions.py DIRECTORY"""

import pathlib
import sys
import tarfile
import zipfile

ROOT = pathlib.Path(__file__).parents[1]
NOT_INSTALLED = {'.ci', 'benchmarks', 'build', 'deploy', 'docs', 'output', 'tests', 'tools'}


def files(pattern):
    """Returns {path: content} of the only wheel or sdist of that name, and asserts that no large file is in it twice."""
    (path,) = pathlib.Path(sys.argv[1]).glob(pattern)
    if path.suffix == '.whl':
        with zipfile.ZipFile(path) as archive:
            found = {name: archive.read(name) for name in archive.namelist()}
    else:
        with tarfile.open(path) as archive:
            found = {member.name: archive.extractfile(member).read() for member in archive if member.isfile()}
    large = [content for name, content in found.items() if len(content) > 10_000 and '.egg-info/' not in name]
    assert len(large) == len(set(large)), f'{path.name}: a file is included twice'
    assert (ROOT / 'LICENSE').read_bytes() in large, f'{path.name}: LICENSE is missing'
    return found


def check_alone():
    """Checks that the distribution of tf_estimator has all of that package, and nothing else."""
    folder = ROOT / 'tf_estimator'
    found = (path for path in folder.glob('**/*') if path.suffix in ('.py', '.typed') and 'build' not in path.parts)
    package = {path.relative_to(folder).as_posix(): path.read_bytes() for path in found}
    wheel = {path: content for path, content in files('estimator_restored-*.whl').items() if '.dist-info/' not in path}
    assert wheel == {f'tf_estimator/{name}': content for name, content in package.items()}, sorted(wheel)
    sdist = {path.partition('/')[2]: content for path, content in files('estimator_restored-*.tar.gz').items()}
    assert package.items() <= sdist.items(), sorted(sdist)


def check_trainer():
    """Checks that the trainer's distribution has MNIST, and neither tests nor tf_estimator; a test compares its packages."""
    for pattern in ('estimator_trainer-*.whl', 'estimator_trainer-*.tar.gz'):
        paths = list(files(pattern))
        assert sum(path.endswith('-ubyte.gz') for path in paths) == 4, f'{pattern}: MNIST is not complete'
        wrong = [path for path in paths if {*path.split('/')} & {*NOT_INSTALLED, 'tf_estimator'}]
        assert not wrong, f'{pattern}: {wrong}'


check_alone()
check_trainer()
