"""Has tf_estimator imported before TensorFlow. A copy of this file lies where Python looks for it at each start.

`python -m tf_estimator enable` puts it there, as _tf_estimator_hook.py, beside a .pth file that imports it. It imports nothing
that Python has not imported by then, and does nothing but wait until a program imports TensorFlow.
"""

import sys

# The last two import TensorFlow, and tf_estimator imports them when it has.
_PACKAGES = ('tensorflow', 'tf_keras', 'tensorflow_estimator')


class Hook:
    """Finds these packages where they are, and has tf_estimator imported before the first of them."""

    def find_spec(self, name, path=None, target=None):
        if name not in _PACKAGES:
            return None
        import importlib.machinery

        spec = importlib.machinery.PathFinder.find_spec(name, path)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(self, spec.loader)  # type: ignore[assignment]
        return spec


class _Loader:
    """A package's loader, but for what it does when it is to load the package."""

    def __init__(self, hook, loader):
        self._hook = hook
        self._loader = loader

    def __getattr__(self, name):
        return getattr(self._loader, name)

    def create_module(self, spec):
        return self._loader.create_module(spec)

    def exec_module(self, module):
        import importlib

        name = module.__name__
        del sys.modules[name]
        if self._hook in sys.meta_path:
            sys.meta_path.remove(self._hook)
        try:
            import tf_estimator  # noqa: F401 - it imports TensorFlow
        except ImportError as error:
            problem = 'the package tf_estimator is no longer installed' if error.name == 'tf_estimator' else error
            print(
                f'tf.estimator is enabled in {sys.prefix}, but does not work: {problem} (to disable it: python -m tf_estimator '
                f'disable, or delete {__file__} and tf_estimator.pth beside it)',
                file=sys.stderr,
            )
        importlib.import_module(name)  # The import system takes it from sys.modules.


sys.meta_path.insert(0, Hook())
