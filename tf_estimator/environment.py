"""tf.estimator for a whole virtual environment: each Python process there finds it when importing TensorFlow."""

import contextlib
import os
import pathlib
import py_compile
import re
import subprocess
import sys
import sysconfig
import tempfile

from tf_estimator import requirements
from tf_estimator.errors import CommandError

_HOOK = '_tf_estimator_hook'
_NOTHING_TO_DO = f'The TensorFlow in {sys.prefix} has tf.estimator itself: there is nothing to enable.'
# Tries the hook first; then the package itself reports the problem, if any.
_CHECK = """
import tensorflow as tf
print(hasattr(tf, 'estimator'), tf.__version__)
import tf_estimator
tf_estimator.install()
"""


def enable(is_forced: bool) -> str:
    """Installs the hook into site-packages, tests it, and returns a message; raises CommandError if it does not work."""
    if _has_own_estimator():
        return _NOTHING_TO_DO
    if sys.prefix == sys.base_prefix and not is_forced:
        raise CommandError(
            f'{sys.prefix} is not a virtual environment: use one (python -m venv DIR), or use --force to '
            'enable tf.estimator for all programs of this Python'
        )
    try:
        for path, text in files(_site_packages()).items():
            _write(path, text)
        py_compile.compile(str(_site_packages() / f'{_HOOK}.py'))  # Even if Python is configured not to write bytecode.
        version = _check()
    except CommandError:
        with contextlib.suppress(CommandError):  # The first error explains the problem.
            disable()
        raise
    return (
        f'tf.estimator is enabled in {sys.prefix}: each Python process there finds it when it imports TensorFlow {version}. '
        'tf.keras is Keras 2 for all of them.'
    )


def disable() -> str:
    """Removes the files of `enable`, and returns a message."""
    site_packages = _site_packages()
    found = [path for path in reversed(files(site_packages)) if path.exists()]  # First the file that imports the other.
    cache = site_packages / '__pycache__'
    with _errors_named():
        for path in [*found, *cache.glob(f'{_HOOK}.*')]:
            path.unlink()
    with contextlib.suppress(OSError):  # There may be other files.
        cache.rmdir()
    return f'tf.estimator is {"no longer" if found else "not"} enabled in {sys.prefix}.'


def status() -> str:
    """Returns a message that tf.estimator is enabled and works; otherwise raises CommandError."""
    if _has_own_estimator():
        return _NOTHING_TO_DO
    wanted = files(_site_packages())
    found = [path for path in wanted if path.exists()]
    if not found:
        raise CommandError(f'tf.estimator is not enabled in {sys.prefix}. To enable it: python -m tf_estimator enable')
    for path, text in wanted.items():
        if not path.is_file() or path.read_bytes() != text.encode():
            raise CommandError(f'{path} is missing or not of this version: run python -m tf_estimator enable')
    return f'tf.estimator is enabled in {sys.prefix}, for TensorFlow {_check()}.'


def _has_own_estimator():
    try:
        return requirements.has_own_estimator()
    except ImportError as error:
        raise CommandError(str(error)) from None


def files(site_packages: pathlib.Path) -> dict[pathlib.Path, str]:
    """Returns the files in site-packages where tf.estimator is enabled, {path: text}."""
    return {
        site_packages / f'{_HOOK}.py': pathlib.Path(__file__).with_name('import_hook.py').read_text(encoding='utf-8'),
        site_packages / 'tf_estimator.pth': f'import {_HOOK}\n',
    }


def _site_packages():
    return pathlib.Path(sysconfig.get_path('purelib'))


def _write(path, text):
    if path.is_file() and path.read_bytes() == text.encode():
        return
    beside = path.with_name(f'.{path.name}.{os.getpid()}')
    with _errors_named():
        try:
            beside.write_bytes(text.encode())  # Unchanged, whatever the platform's line ends.
            os.replace(beside, path)
        finally:
            beside.unlink(missing_ok=True)


@contextlib.contextmanager
def _errors_named():
    try:
        yield
    except OSError as error:
        raise CommandError(f'{error.filename2 or error.filename}: {error.strerror}') from None


def _check():
    """Returns the version of TensorFlow if a new process finds tf.estimator; otherwise raises CommandError."""
    environ = {name: value for name, value in os.environ.items() if name not in ('PYTHONPATH', 'TF_USE_LEGACY_KERAS')}
    with tempfile.TemporaryDirectory() as elsewhere:  # A directory without packages.
        process = subprocess.run([sys.executable, '-c', _CHECK], cwd=elsewhere, env=environ, capture_output=True, text=True)
    is_there, _, version = process.stdout.strip().partition(' ')
    if process.returncode or is_there != 'True':
        reason = re.sub(r'^[\w.]+Error: ', '', process.stderr.strip().rpartition('\n')[2])
        if not reason and process.returncode:
            reason = f'importing TensorFlow ends Python with exit code {process.returncode}'
        unread = f'Python does not read the .pth files in {_site_packages()}'
        raise CommandError(f'tf.estimator does not work in {sys.prefix}: {reason or unread}')
    return version
