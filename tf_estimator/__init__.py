"""Restores `tf.estimator` on TensorFlow 2.16 to 2.21.

Import this package before TensorFlow; afterwards `tf.estimator` and `tf.compat.v1.estimator` exist, as up to TensorFlow 2.15:

    import tf_estimator
    import tensorflow as tf
    tf.estimator.Estimator(...)

An old script runs unchanged, without that import; with --tf1, also one of TensorFlow 1, with tf.contrib:

    python -m tf_estimator [--tf1] SCRIPT ARGS...

With --exact, its runs resume bit for bit after they were stopped or killed.

In a notebook, `tf_estimator.enable(tf1=True)` does what --tf1 does, for what it imports from then on, and
`tf_estimator.enable(exact=True)` what --exact does.

The code behind `tf.estimator` is the package `tensorflow-estimator` 2.15.0. It imports a few modules and constants that
TensorFlow has dropped since, which this package restores. `tf.layers` and the canned estimators need Keras 2, which is the
package `tf-keras`; `tf.keras` is then Keras 2 for the whole program. Moved private names of TensorFlow that libraries import
are restored, too. On 2.15, which still has tf.estimator, this package only does that and quiets the log. If something is
missing, the import raises ImportError and names the package to install.

TensorFlow's own deprecation notices are kept out of the log, as is all output of its native libraries to stderr except fatal
errors: set the environment variable TF_CPP_MIN_LOG_LEVEL to 0 to see it, or if importing TensorFlow ends Python silently.

Not restored, but rejected with an error: TPUs, a `remote_cluster`, and `tf.data.experimental.CheckpointInputPipelineHook`.
"""

from collections.abc import Iterator
import contextlib
import gc
import importlib
import os
import sys
import types

from tf_estimator import moved_names, quiet, requirements, restore

__version__ = '0.2.0'
AS_IT_WAS = 'TF_ESTIMATOR_AS_IT_WAS'  # This environment variable leaves Estimator as it was if it is 1.


def install() -> None:
    """Imports TensorFlow and installs `tf.estimator`; raises ImportError, with the cure, if something is missing."""
    with around_import():
        import tensorflow  # noqa: F401


def enable(tf1: bool = False, exact: bool = False) -> None:
    """Installs `tf.estimator`.

    Args:
      tf1: whether `tensorflow` is TensorFlow 1 in later imports of the program's own files.
      exact: whether runs resume bit for bit from now on.
    """
    install()
    if tf1:
        from tf_estimator.tf1 import enable as enable_tf1

        enable_tf1()
    if exact:
        from tf_estimator.exact import enable as enable_exact

        enable_exact()


@contextlib.contextmanager
def around_import() -> Iterator[None]:
    """Installs `tf.estimator` after the block, which imports TensorFlow; raises ImportError if something is missing."""
    own_estimator = requirements.has_own_estimator()
    if not own_estimator:
        requirements.check_packages()
        os.environ['TF_USE_LEGACY_KERAS'] = '1'  # Read when TensorFlow is imported.
    with _without_collector():
        with quiet.quiet_import():
            yield
        tf = sys.modules['tensorflow']
        requirements.check_version(tf)
        quiet.leave_to_root(tf)
        if not own_estimator and not hasattr(tf, 'estimator'):
            requirements.check_foundation(tf)
            restore.restore(tf)
        restore.name_apis()
        moved_names.restore()
        if os.environ.get(AS_IT_WAS) != '1':
            importlib.import_module('tf_estimator.traps.mended')  # Late, as it imports TensorFlow.


@contextlib.contextmanager
def _without_collector() -> Iterator[None]:
    """Within the block, pauses the garbage collector, which would traverse all of TensorFlow's permanent objects."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _is_imported_by_runpy() -> bool:
    """Whether `python -m tf_estimator` imports this package."""
    frame: types.FrameType | None = sys._getframe(1).f_back  # The frame that executes this module.
    while frame and str(frame.f_globals.get('__name__')).startswith(('importlib.', '_frozen_importlib')):
        frame = frame.f_back
    return frame is not None and frame.f_globals.get('__name__') == 'runpy'


def _is_imported_by_hook() -> bool:
    """Whether the hook of `enable` imports this package while importing TensorFlow."""
    hook = getattr(sys.modules.get('_tf_estimator_hook'), 'Hook', None)
    return hook is not None and hook.is_loading


# With -m, Python imports this before the runner, which calls install() itself: after checking its arguments, as TensorFlow
# takes seconds to import, and with one line in place of a traceback.
if not _is_imported_by_runpy() and not _is_imported_by_hook():
    install()
