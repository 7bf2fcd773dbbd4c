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
        input_names = {name: info.name for name, info in found.inputs.items()}
        output_names = {name: info.name for name, info in found.outputs.items()}
    return Predictor(graph, session, *(_tensors(graph, names) for names in (input_names, output_names)))


def from_estimator(estimator, serving_input_receiver_fn, output_key=None, graph=None, config=None):
    """Returns the Predictor of the latest checkpoint of an Estimator.

    Args:
      output_key: of export_outputs; by default serving_default.
    """
    graph = graph or tf.Graph()
    checkpoint = tf.train.latest_checkpoint(estimator.model_dir)
    if checkpoint is None:
        tf.logging.warning('%s has no checkpoint: it predicts by the initial weights.', estimator.model_dir)
    with graph.as_default():
        tf.train.create_global_step(graph)
        receiver = serving_input_receiver_fn()
        spec = estimator.model_fn(receiver.features, None, tf.estimator.ModeKeys.PREDICT, estimator.config)
        key = output_key or tf.saved_model.signature_constants.DEFAULT_SERVING_SIGNATURE_DEF_KEY
        outputs = dict(spec.predictions) if isinstance(spec.predictions, dict) else {'output': spec.predictions}
        if spec.export_outputs:
            if key not in spec.export_outputs and output_key is not None:
                raise ValueError(f'Requested output key {key}, but the keys are {sorted(spec.export_outputs)}')
            signature = spec.export_outputs.get(key) or next(iter(spec.export_outputs.values()))
            outputs = {
                name: graph.get_tensor_by_name(info.name)
                for name, info in signature.as_signature_def(receiver.receiver_tensors).outputs.items()
            }
        creator = tf.train.ChiefSessionCreator(spec.scaffold, config=config, checkpoint_filename_with_path=checkpoint)
        session = tf.train.MonitoredSession(creator)
    return Predictor(graph, session, dict(receiver.receiver_tensors), outputs)


def _tensors(graph, names):
    return {name: graph.get_tensor_by_name(tensor) for name, tensor in names.items()}
