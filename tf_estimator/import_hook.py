"""Installs tf.estimator when TensorFlow is imported. Python loads a copy of this file at each start.

`python -m tf_estimator enable` writes it to site-packages as _tf_estimator_hook.py, beside a .pth file that imports it. It
imports only modules that Python has loaded by then, and does nothing until a program imports TensorFlow.
"""

import _thread
import sys

_OTHERS = ('tf_keras', 'tensorflow_estimator')  # They import TensorFlow, and are imported while installing tf.estimator.


class Hook:
    """Finds these packages. Its loader for TensorFlow installs tf.estimator while loading."""

    is_loading = False  # Then tf_estimator does not install itself.

    def __init__(self):
        self._thread = None

    def find_spec(self, name, path=None, target=None):
        if name != 'tensorflow' and name not in _OTHERS:
            return None
        import importlib.machinery

        if name in _OTHERS:
            return None if self._thread == _thread.get_ident() else _after_tensorflow(name)
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(self, spec.loader)  # type: ignore[assignment]
        return spec

    def load(self, loader, module):
        """Loads TensorFlow into its module."""
        self._thread = _thread.get_ident()
        is_loaded = is_failing = False
        try:
            Hook.is_loading = True
            import tf_estimator

            with tf_estimator.around_import():
                is_failing = True
                loader.exec_module(module)
                is_loaded, is_failing = True, False
        except ImportError as error:
            if is_failing:  # TensorFlow itself.
                raise
            _report(error)
        finally:
            Hook.is_loading = False
            self._thread = None
        if not is_loaded:
            loader.exec_module(module)
        if self in sys.meta_path:
            sys.meta_path.remove(self)


def _report(error):
    cure = f'delete {__file__} and tf_estimator.pth beside it'
    problem = f'the package tf_estimator is no longer installed (to disable it: {cure})'
    if error.name != 'tf_estimator':
        problem = f'{error} (to disable it: python -m tf_estimator disable, or {cure})'
    print(f'tf.estimator is enabled in {sys.prefix}, but does not work: {problem}', file=sys.stderr)


def _after_tensorflow(name):
    """Imports TensorFlow; returns the spec of a package possibly imported with it, or None."""
    import importlib.util

    try:
        importlib.import_module('tensorflow')
    except ImportError:  # The package itself reports missing parts.
        return None
    loaded = sys.modules.get(name)
    return loaded and importlib.util.spec_from_loader(name, _Loaded(loaded), is_package=True)  # type: ignore[arg-type]


class _Loader:
    """TensorFlow's loader, with a replaced method for loading TensorFlow."""

    def __init__(self, hook, loader):
        self._hook = hook
        self._loader = loader

    def __getattr__(self, name):
        return getattr(self._loader, name)

    def create_module(self, spec):
        return self._loader.create_module(spec)

    def exec_module(self, module):
        self._hook.load(self._loader, module)


class _Loaded:
    """A loader of a loaded module."""

    def __init__(self, module):
        self._module = module

    def create_module(self, spec):
        return self._module

    def exec_module(self, module):
        pass


sys.meta_path.insert(0, Hook())
