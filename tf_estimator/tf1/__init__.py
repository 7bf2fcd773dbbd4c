"""TensorFlow 1 for a program's own files: `tensorflow` is compat.v1 without the behavior of TensorFlow 2, and has tf.contrib.

Libraries keep TensorFlow 2. `python -m tf_estimator --tf1` enables this.
"""

import builtins
import importlib

from tf_estimator.tf1.imports import Imports
from tf_estimator.tf1.modules import TensorFlow1


def enable(directory: str | None = None) -> None:
    """Gives TensorFlow 1 to the imports of files outside of site-packages, and to those in a directory.

    tf_estimator.install() must have been called. Enabled twice, it stays as it is.

    Args:
      directory: of a program within site-packages.
    """
    if isinstance(getattr(builtins.__import__, '__self__', None), Imports):
        return
    from tf_estimator.tf1 import dimensions

    import tensorflow.compat.v1 as v1
    from tensorflow.python.autograph.core import config

    v1.disable_v2_behavior()
    # As in TensorFlow 1, AutoGraph converts the program's functions only, not those of tf.contrib.
    config.CONVERSION_RULES = (*map(config.DoNotConvert, ('tf_estimator', 'tf_slim')), *config.CONVERSION_RULES)
    dimensions.mend()
    imports = Imports(TensorFlow1(v1), directory)
    builtins.__import__, importlib.import_module = imports.load, imports.load_module
