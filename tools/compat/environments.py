"""Test environments: a virtual environment per TensorFlow, and each library's repository at its release."""

from pathlib import Path
import re
import subprocess
import venv

from tools.compat.libraries import LIBRARIES, Library

ROOT = Path(__file__).parents[2]
NIGHTLY = 'nightly'


def python(work: Path, tensorflow: str) -> Path:
    """Returns the Python of an environment with this project, a TensorFlow and the libraries; creates it if necessary."""
    folder = work / f'tensorflow-{tensorflow}'
    found = folder / 'bin' / 'python'
    done = folder / 'done'
    needs = sorted({need for library in LIBRARIES.values() for need in library.needs})
    alone = [name for library in LIBRARIES.values() for name in (library.release, *library.needs_alone)]
    content = '\n'.join([*needs, *alone])
    if not done.exists() or done.read_text() != content:
        venv.create(folder, with_pip=True, clear=True)
        project = ['--editable', str(ROOT / 'tf_estimator'), '--editable', str(ROOT)]
        if tensorflow == NIGHTLY:  # None of these lists it as supported.
            _pip(found, '--pre', 'tf-nightly')
            _pip(found, 'h5py', 'pillow', 'tensorboard', 'tqdm')
            _pip(found, '--no-deps', 'tensorflow-estimator==2.15.0', 'tf-keras', *project)
        else:
            _pip(found, f'tensorflow=={tensorflow}', *project)
        _pip(found, 'pytest', *needs)
        _pip(found, '--no-deps', *alone)
        done.write_text(content)
    return found


def _pip(found, *arguments):
    subprocess.run([found, '-m', 'pip', 'install', '--quiet', *arguments], check=True)


def checkout(work: Path, library: Library) -> tuple[Path, list[str]]:
    """Returns the folder of a library's repository, cloned if necessary, and the paths of its tests."""
    folder = work / library.repository.replace('/', '-')
    done = folder / '.git' / 'done'
    if not done.exists() or done.read_text() != library.revision:
        folder.mkdir(parents=True, exist_ok=True)
        url = f'https://github.com/{library.repository}'
        git(folder, 'init')
        git(folder, 'fetch', '--depth=1', url, library.revision)
        git(folder, 'checkout', '--force', 'FETCH_HEAD')
        done.write_text(library.revision)
    git(folder, 'checkout', '--force')  # Restores files deleted below by a run of other tests.
    paths = {path.relative_to(folder).as_posix(): path for path in sorted(folder.rglob('*.py'))}
    files = [name for name in paths if re.fullmatch(library.tests, name)]
    if library.is_apart:
        for name in paths.keys() - set(files):
            paths[name].unlink()
    return folder, files


def git(folder: Path, command: str, *arguments: str) -> None:
    """Runs a command of git in a folder."""
    subprocess.run(['git', command, '--quiet', *arguments], cwd=folder, check=True)
