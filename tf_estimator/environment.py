"""Enables tf.estimator in a whole virtual environment: each Python process there finds it when it imports TensorFlow."""

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
# The hook is used first; then the package itself says what is wrong, if something is.
_CHECK = """
import tensorflow as tf
print(hasattr(tf, 'estimator'), tf.__version__)
import tf_estimator
tf_estimator.install()
"""


def enable(is_forced: bool) -> str:
    """Puts the hook into site-packages, tries it out, and returns what to say; CommandError if it does not work there."""
    if _has_own_estimator():
        return _NOTHING_TO_DO
    if sys.prefix == sys.base_prefix and not is_forced:
        raise CommandError(
            f'{sys.prefix} is not a virtual environment: use one (python -m venv DIR), or say --force to '
            'enable tf.estimator for all programs of this Python'
        )
    try:
        for path, text in files(_site_packages()).items():
            _write(path, text)
        py_compile.compile(str(_site_packages() / f'{_HOOK}.py'))  # Also where Python is told to write no bytecode.
        version = _check()
    except CommandError:
        with contextlib.suppress(CommandError):  # The first says what is wrong.
            disable()
        raise
    return (
        f'tf.estimator is enabled in {sys.prefix}: each Python process there finds it when it imports TensorFlow {version}. '
        'tf.keras is Keras 2 for all of them.'
    )


def disable() -> str:
    """Removes what `enable` wrote, and returns what to say."""
    site_packages = _site_packages()
    found = [path for path in reversed(files(site_packages)) if path.exists()]  # First what has Python import the other.
    cache = site_packages / '__pycache__'
    with _errors_named():
        for path in [*found, *cache.glob(f'{_HOOK}.*')]:
            path.unlink()
    with contextlib.suppress(OSError):  # If something else is there, too.
        cache.rmdir()
    return f'tf.estimator is {"no longer" if found else "not"} enabled in {sys.prefix}.'


def status() -> str:
    """Returns that tf.estimator is enabled, having tried it out; CommandError if it is not, or does not work."""
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
    """Returns what lies in site-packages where tf.estimator is enabled, {path: text}."""
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
            beside.write_bytes(text.encode())  # As it is, also where lines of text end otherwise.
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
    """Returns the version of TensorFlow if a process of its own finds tf.estimator; CommandError with the reason if not."""
    environ = {name: value for name, value in os.environ.items() if name not in ('PYTHONPATH', 'TF_USE_LEGACY_KERAS')}
    with tempfile.TemporaryDirectory() as elsewhere:  # Where no package lies by chance.
        process = subprocess.run([sys.executable, '-c', _CHECK], cwd=elsewhere, env=environ, capture_output=True, text=True)
    is_there, _, version = process.stdout.strip().partition(' ')
    if process.returncode or is_there != 'True':
        reason = re.sub(r'^[\w.]+Error: ', '', process.stderr.strip().rpartition('\n')[2])
        if not reason and process.returncode:
            reason = f'importing TensorFlow ends Python with exit code {process.returncode}'
        unread = f'Python does not read the .pth files in {_site_packages()}'
        raise CommandError(f'tf.estimator does not work in {sys.prefix}: {reason or unread}')
    return version
