"""tf.contrib.learn on tf.estimator."""

import types

from tf_estimator.tf1 import data, mnist
from tf_estimator.tf1.learn.evaluation_metrics import MetricSpec  # noqa: F401
from tf_estimator.tf1.learn.experiments import Experiment, make_export_strategy, run  # noqa: F401
from tf_estimator.tf1.learn.input_data import (  # noqa: F401
    Dataset,
    InputFnOps,
    build_parsing_serving_input_fn,
    infer_real_valued_columns_from_input,
    load_csv_with_header,
    load_csv_without_header,
)
from tf_estimator.tf1.learn.learners import (  # noqa: F401 - names of this package
    DNNClassifier,
    DNNLinearCombinedClassifier,
    DNNLinearCombinedRegressor,
    DNNRegressor,
    Estimator,
    LinearClassifier,
    LinearRegressor,
    ModeKeys,
    ModelFnOps,
    RunConfig,
)
from tf_estimator.tf1.learn.vocabularies import CategoricalVocabulary, VocabularyProcessor, tokenizer

learn_runner = types.SimpleNamespace(run=run)
preprocessing = types.SimpleNamespace(
    VocabularyProcessor=VocabularyProcessor, CategoricalVocabulary=CategoricalVocabulary, tokenizer=tokenizer
)
datasets = types.SimpleNamespace(
    mnist=mnist,
    load_dataset=mnist.load_dataset,
    base=types.SimpleNamespace(
        maybe_download=mnist.maybe_download,
        load_csv_with_header=load_csv_with_header,
        load_csv_without_header=load_csv_without_header,
        Dataset=Dataset,
        Datasets=mnist.Datasets,
    ),
)
monitors = types.SimpleNamespace(replace_monitors_with_hooks=lambda monitors, estimator: list(monitors or ()))
io = types.SimpleNamespace(read_batch_features=data.read_batch_features)
utils = saved_model_export_utils = types.SimpleNamespace(make_export_strategy=make_export_strategy)
utils.saved_model_export_utils = saved_model_export_utils
input_fn_utils = utils.input_fn_utils = types.SimpleNamespace(
    InputFnOps=InputFnOps, build_parsing_serving_input_fn=build_parsing_serving_input_fn
)
