"""tf.contrib.predictor: repeated predictions in one session."""

import tensorflow.compat.v1 as tf


class Predictor:
    """Args:
    graph: of the session.
    session: with initialized variables.
    feed_tensors: {name of an input: tensor}.
    fetch_tensors: {name of an output: tensor}.
    """

    def __init__(self, graph, session, feed_tensors, fetch_tensors):
        self.graph, self.session = graph, session
        self.feed_tensors, self.fetch_tensors = feed_tensors, fetch_tensors

    def __call__(self, input_dict):
        """Returns {name of an output: array} for {name of an input: array}; raises ValueError for an unknown input."""
        unknown = input_dict.keys() - self.feed_tensors.keys()
        if unknown:
            raise ValueError(f'Got unexpected keys in input_dict: {unknown}; expected: {set(self.feed_tensors)}')
        feeds = {self.feed_tensors[name]: value for name, value in input_dict.items()}
        return self.session.run(self.fetch_tensors, feeds)


def from_saved_model(
    export_dir,
    signature_def_key=None,
    signature_def=None,
    input_names=None,
    output_names=None,
    tags=None,
    graph=None,
    config=None,
):
    """Returns the Predictor of a SavedModel, by default of its signature serving_default."""
    graph = graph or tf.Graph()
    with graph.as_default():
        session = tf.Session(config=config)
        tags = tags.split(',') if isinstance(tags, str) else tags or [tf.saved_model.tag_constants.SERVING]
        model = tf.saved_model.load(session, tags, export_dir)
    if input_names is None or output_names is None:
        key = signature_def_key or tf.saved_model.signature_constants.DEFAULT_SERVING_SIGNATURE_DEF_KEY
        if signature_def is None and key not in model.signature_def:
            raise ValueError(f'Got signature_def_key {key}. Available signatures are {", ".join(sorted(model.signature_def))}')
        found = signature_def or model.signature_def[key]
        input_names, output_names = _names(found.inputs), _names(found.outputs)
    return Predictor(graph, session, *(_tensors(graph, names) for names in (input_names, output_names)))


def from_estimator(estimator, serving_input_receiver_fn, output_key=None, graph=None, config=None):
    """Returns the Predictor of the latest checkpoint of an Estimator.

    Args:
      output_key: of export_outputs; by default serving_default.
    """

    def build():
        receiver = serving_input_receiver_fn()
        spec = _predicting(estimator, receiver.features)
        key = output_key or tf.saved_model.signature_constants.DEFAULT_SERVING_SIGNATURE_DEF_KEY
        if not spec.export_outputs:
            return spec, receiver.receiver_tensors, _by_name(spec.predictions)
        if key not in spec.export_outputs and output_key is not None:
            raise ValueError(f'Requested output key {key}, but the keys are {sorted(spec.export_outputs)}')
        signature = spec.export_outputs.get(key) or next(iter(spec.export_outputs.values()))
        found, graph = signature.as_signature_def(receiver.receiver_tensors), tf.get_default_graph()
        inputs = {
            name: graph.get_tensor_by_name(info.name) if info.name else receiver.receiver_tensors[name]  # If it is sparse.
            for name, info in found.inputs.items()
        }
        return spec, inputs, _tensors(graph, _names(found.outputs))

    return _of_checkpoint(estimator, build, graph, config)


def from_contrib_estimator(
    estimator, prediction_input_fn, input_alternative_key=None, output_alternative_key=None, graph=None, config=None
):
    """Returns the Predictor of the latest checkpoint of an Estimator of tf.contrib.learn.

    Args:
      prediction_input_fn: function to InputFnOps.
      input_alternative_key: 'features_input_alternative' to feed the features rather than the default_inputs.
      output_alternative_key: of the model's output_alternatives, if there are several.
    """
    if input_alternative_key not in (None, 'default_input_alternative', 'features_input_alternative'):
        raise ValueError(f'there is no input_alternative_key {input_alternative_key}')

    def build():
        features, _, inputs = prediction_input_fn()
        if inputs is None or input_alternative_key == 'features_input_alternative':
            inputs = features if isinstance(features, dict) else {'features': features}
        spec = _predicting(estimator, features)
        outputs = {} if hasattr(estimator, 'predictions_of_old') else spec.export_outputs or {}
        keys = {id(each): key for key, each in reversed(outputs.items()) if isinstance(each, tf.estimator.export.PredictOutput)}
        found = {key: outputs[key].outputs for key in keys.values()}  # Without the serving_default that Estimator adds.
        if output_alternative_key is not None and output_alternative_key not in found:
            raise ValueError(f'Requested output_alternative_key {output_alternative_key}, but the keys are {sorted(found)}')
        if len(found) > 1 and output_alternative_key is None:
            raise ValueError(f'Please specify an output_alternative_key: one of {sorted(found)}')
        default = next(iter(found.values()), _by_name(spec.predictions))
        return spec, inputs, dict(found.get(output_alternative_key, default))

    return _of_checkpoint(estimator, build, graph, config)


def _predicting(estimator, features):
    return estimator.model_fn(features, None, tf.estimator.ModeKeys.PREDICT, estimator.config)


def _by_name(predictions):
    return dict(predictions) if isinstance(predictions, dict) else {'output': predictions}


def _of_checkpoint(estimator, build, graph, config):
    """Returns the Predictor of the latest checkpoint of an Estimator.

    Args:
      build: function to the EstimatorSpec, and the tensors of inputs and of outputs, {name: tensor}.
    """
    graph = graph or tf.Graph()
    checkpoint = tf.train.latest_checkpoint(estimator.model_dir)
    if checkpoint is None:
        tf.logging.warning('%s has no checkpoint: it predicts by the initial weights.', estimator.model_dir)
    with graph.as_default():
        tf.train.create_global_step(graph)
        spec, inputs, outputs = build()
        creator = tf.train.ChiefSessionCreator(spec.scaffold, config=config, checkpoint_filename_with_path=checkpoint)
        return Predictor(graph, tf.train.MonitoredSession(creator), dict(inputs), outputs)


def _names(infos):
    return {name: info.name for name, info in infos.items()}


def _tensors(graph, names):
    return {name: graph.get_tensor_by_name(tensor) for name, tensor in names.items()}
