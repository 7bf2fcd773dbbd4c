"""The libraries: their packages, tests and known failures."""

from collections.abc import Mapping
import dataclasses


@dataclasses.dataclass(frozen=True)
class Library:
    """A library under test.

    Attributes:
      release: package for pip, without its dependencies, which would reject the tested TensorFlow.
      repository: on GitHub.
      revision: tag or commit of that release.
      tests: regular expression, matched at the beginning of the tests' paths.
      runner: 'script' if the tests are programs, or 'pytest'.
      select: argument of pytest's -k.
      plugin: of pytest, with the tests' fixtures.
      needs: further packages that the library or its tests import.
      needs_alone: further packages installed without dependencies.
      is_apart: whether the tests run against the installed package, which suffices, not the repository's.
      known: {regular expression found in 'TEST: ERROR': reason of the failure}.
    """

    release: str
    repository: str
    revision: str
    tests: str
    runner: str = 'script'
    select: str = ''
    plugin: str = ''
    needs: tuple[str, ...] = ()
    needs_alone: tuple[str, ...] = ()
    is_apart: bool = False
    known: Mapping[str, str] = dataclasses.field(default_factory=dict)


_FLOAT32 = {r'np\.float32\(.*within \d places': 'since NumPy 2, a float32 minus a Python number is a float32 (NEP 50)'}

LIBRARIES = {
    'tensorflow-estimator': Library(
        release='tensorflow-estimator==2.15.0',
        repository='tensorflow/estimator',
        revision='v2.15.0',
        # In the omitted file, five tests with a client for all tasks hang on TensorFlow 2.15.
        tests=r'tensorflow_estimator/python/estimator/(?!tpu/|distribute_strategy_.*training).*_test(_fc)?(_v\d)*\.py',
        needs=('pandas<3', 'portpicker', 'scikit-learn'),
        is_apart=True,
        known={
            **_FLOAT32,
            'canned/rnn_test': 'it expects the variables and the optimizers of Keras before TensorFlow 2.11',
            'test_incompatible_labels_shape': 'TensorFlow words the error differently now',
            'LinearLogitFnV2Test': 'TensorFlow 2.15 has no LinearModel in feature_column_v2',
            'testExportClassInEstimator': 'TensorFlow no longer lists the names that others export',
        },
    ),
    'adanet': Library(
        release='adanet==0.9.0',
        repository='tensorflow/adanet',
        revision='v0.9.0',
        tests=r'adanet/(?!experimental/|modelflow).*_test\.py',
        needs=('mock', 'six'),
        known={
            'AutoEnsembleEstimatorV2Test': 'since TensorFlow 2.11, Estimator refuses the tf.keras.optimizers.SGD that it gives',
        },
    ),
    'tensorflow-ranking': Library(
        release='tensorflow-ranking==0.5.5',
        repository='tensorflow/ranking',
        revision='5b1d1338c1cb76507466d062e2d48bae57b17ac4',
        tests=r'tensorflow_ranking/(python/[a-z_]*|examples/[a-z_]*|python/keras/estimator)_test\.py',
        needs=('six',),
        needs_alone=('tensorflow-serving-api==2.15.1',),
        known=_FLOAT32,
    ),
    'tf-slim': Library(
        release='tf-slim==1.1.0',
        repository='google-research/tf-slim',
        revision='v1.1.0',
        tests=r'tf_slim/.*_test\.py',
        known={
            r'^tf_slim/evaluation_test\.py: ': 'it needs nose, which is no longer maintained',
            **_FLOAT32,
            'selectv2': 'TensorFlow has other ops for dropout now',
            'AssignAddVariableOp': 'TensorFlow 2 has resource variables, whose assignments are variables, too',
            'Devices /job:ps': 'TensorFlow no longer names the CPU of a parameter server',
            'only integers, slices': 'NumPy 1.23 no longer takes a list of slices as an index',
            'tostring': 'NumPy 2.3 has dropped ndarray.tostring',
            'only 0-dimensional arrays can be converted': 'NumPy 2.4 no longer converts arrays of one number to a number',
        },
    ),
    'tensorflow-hub': Library(
        release='tensorflow-hub==0.16.1',
        repository='tensorflow/hub',
        revision='v0.16.1',
        tests=r'tensorflow_hub/(?!feature_column_v2|saved_model_lib).*_test\.py',  # The release lacks these.
        known={'test_load_v1': 'its data is an archive that only the build of the library makes'},
    ),
    'tensorflow-gan': Library(
        release='tensorflow-gan==2.1.0',
        repository='tensorflow/gan',
        revision='723ce1e3627778b979f048d817f834f253611ff4',
        tests=r'tensorflow_gan/.*estimator/.*_test\.py',
        needs=('tensorflow-datasets>=4.9.9', 'tensorflow-metadata>=1.17,<1.18', 'tensorflow-probability==0.23.0'),
        known={'LossTensor is inf or nan': 'the test has Adam with beta1=1, whose bias correction divides 0 by 0'},
    ),
    'tensorflow-addons': Library(
        release='tensorflow-addons==0.23.0',
        repository='tensorflow/addons',
        revision='v0.23.0',
        tests=r'tensorflow_addons/(activations|layers|losses|metrics|optimizers|rnn|seq2seq|text)/tests/(?!run_all).*_test\.py',
        runner='pytest',
        plugin='tensorflow_addons.conftest',
        needs=('scikit-learn', 'scipy', 'typeguard<3'),
        is_apart=True,
        known={
            'undefined symbol|custom_ops': 'its compiled ops are of TensorFlow 2.15',
            'is_symbolic_tensor': 'it takes keras.src.utils.tf_utils, which Keras 3 has, too, for that of Keras 2',
        },
    ),
    'mesh-tensorflow': Library(
        release='mesh-tensorflow==0.1.21',
        repository='tensorflow/mesh',
        revision='da907937e68aa421186f1178d71eb5f736fcb069',
        tests=r'mesh_tensorflow/(transformer/)?[a-z_]*_test\.py',  # The others need TPUs and ortools.
        needs=('gin-config', 'mock', 'scipy', 'six', 'tensorflow-datasets'),
        is_apart=True,
    ),
    'deepctr': Library(
        release='deepctr==0.9.4',
        repository='shenweichen/DeepCTR',
        revision='v0.9.4',
        tests=r'tests/models/(AFM|AutoInt|CCPM|DCN|DeepFEFM|DeepFM|FiBiNET|FNN|FwFM|NFM|PNN|WDL|xDeepFM)_test\.py',
        runner='pytest',
        select='Estimator',
        needs=('requests',),
    ),
}
