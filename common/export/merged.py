"""One SavedModel of several: their inputs are the same, and its outputs are the averages of theirs."""

from collections.abc import Mapping, Sequence
import os

import tensorflow.compat.v1 as tf
from tensorflow.python.saved_model import loader_impl

from estimator_trainer.common.console import errors_only
from estimator_trainer.common.errors import RunError
from estimator_trainer.common.files import write
from estimator_trainer.common.inference.ensemble import CLASS_IDS, CLASS_NAME, CLASSES, PREDICTED, source_of

_SERVING = tf.saved_model.tag_constants.SERVING
_DEFAULT = tf.saved_model.signature_constants.DEFAULT_SERVING_SIGNATURE_DEF_KEY
_OF_ASSETS = (tf.GraphKeys.ASSET_FILEPATHS, 'saved_model_assets')  # Collections, which a new SavedModel gets anew.
_INITS = ('saved_model_main_op', 'legacy_init_op')


def merge(paths: Sequence[str], target: str, class_names: Mapping[str, Sequence[str]]) -> None:
    """Writes a SavedModel to a new directory.

    Its outputs are those of `ensemble.average`. A signature with one that can neither be averaged nor follows from averages is
    left out.

    Args:
      paths: of SavedModels with the same signatures.
      class_names: {key of a target: the names of its classes}, for 'class_name'.

    Raises:
      RunError: the signatures differ, or the default one cannot be averaged.
    """
    with tf.Graph().as_default() as graph, tf.Session() as session, errors_only():
        members: list[Mapping[str, tuple]] = []
        assets: list[tf.Tensor] = []
        for number, path in enumerate(paths, 1):
            members.append(_load(session, path, f'fold_{number}', members[0] if members else {}, assets))
        inits = [op for name in _INITS for op in graph.get_collection(name)]
        for name in (*_INITS, *_OF_ASSETS):
            graph.clear_collection(name)
        for asset in assets:
            tf.add_to_collection(tf.GraphKeys.ASSET_FILEPATHS, asset)
        signatures = {key: _signature(key, [member[key] for member in members], class_names) for key in members[0]}
        if signatures[_DEFAULT] is None:
            raise RunError('--schedule=export: the outputs of the folds are no numbers that could be averaged: export one fold')
        builder = tf.saved_model.builder.SavedModelBuilder(target)
        builder.add_meta_graph_and_variables(
            session,
            [_SERVING],
            {key: signature for key, signature in signatures.items() if signature},
            assets_collection=graph.get_collection(tf.GraphKeys.ASSET_FILEPATHS),
            main_op=tf.group(*inits),
        )
        builder.save()


def leave_out(path: str, signature: str) -> None:
    """Removes the signatures of this name, as of `signatures_of`, from a SavedModel; their ops stay, and are never run."""
    saved = loader_impl.parse_saved_model(path)
    for definition in saved.meta_graphs:
        for key in [key for key in definition.signature_def if key.startswith(f'{signature}:')]:
            definition.signature_def.pop(key)
    write(os.path.join(path, tf.saved_model.constants.SAVED_MODEL_FILENAME_PB), saved.SerializeToString())


def _load(session, path, scope, first, assets):
    """Loads a SavedModel with the inputs of the first, if that is loaded; returns its signatures, {key: (inputs, outputs)}.

    Adds a tensor with the path of each of its assets to `assets`.
    """
    graph = session.graph
    (definition,) = loader_impl.parse_saved_model(path).meta_graphs
    fed = {}
    for key, signature in definition.signature_def.items() if first else ():
        inputs = first.get(key, ({}, {}))[0]
        kinds = [{name: (info.dtype, str(info.tensor_shape)) for name, info in signature.inputs.items()}]
        kinds.append({name: (tensor.dtype.as_datatype_enum, str(tensor.shape.as_proto())) for name, tensor in inputs.items()})
        if kinds[0] != kinds[1]:
            raise RunError(f'--schedule=export: the inputs of {scope} differ from those of fold_1: export one fold')
        fed.update({signature.inputs[name].name: tensor for name, tensor in inputs.items()})
    for name, asset in loader_impl.get_asset_tensors(path, definition).items():
        fed[name] = tf.constant(asset, name=f'{scope}_asset')
        assets.append(fed[name])
    for node in definition.graph_def.node:  # Its variables and tables are its own.
        if 'shared_name' in node.attr and node.attr['shared_name'].s:
            node.attr['shared_name'].s = f'{scope}/'.encode() + node.attr['shared_name'].s
    saver = tf.train.import_meta_graph(definition, import_scope=scope, input_map=fed)
    if saver:
        saver.restore(session, os.path.join(path, 'variables', 'variables'))
    if init := loader_impl.get_init_op(definition, scope):
        session.run(init)

    def tensor(info):
        return fed[info.name] if info.name in fed else graph.get_tensor_by_name(f'{scope}/{info.name}')

    return {
        key: tuple({name: tensor(info) for name, info in side.items()} for side in (signature.inputs, signature.outputs))
        for key, signature in definition.signature_def.items()
    }


def _signature(key, members, class_names):
    """Returns the SignatureDef of the averages of the members' outputs, or None if one cannot be averaged."""
    inputs, first = members[0]
    outputs: dict[str, tf.Tensor] = {}
    for name, output in first.items():
        if output.dtype.is_floating:
            values = [of_member[name] for _, of_member in members]
            outputs[name] = tf.cast(tf.add_n([tf.cast(value, tf.float64) for value in values]) / len(values), output.dtype)
    for name in first.keys() - outputs.keys():
        made = _of_class(name, first, outputs, class_names)
        if made is None:
            return None
        outputs[name] = made
    build = tf.saved_model.signature_def_utils.build_signature_def
    infos: list[Mapping] = [
        {name: tf.saved_model.utils.build_tensor_info(tensor) for name, tensor in side.items()} for side in (inputs, outputs)
    ]
    return build(*infos, method_name=tf.saved_model.signature_constants.PREDICT_METHOD_NAME)


def _of_class(name, first, averaged, class_names):
    """Returns an output that is not of floats from the averages; None if it does not follow from them."""
    if name.rpartition('/')[2] in ('all_class_ids', 'all_classes'):
        return first[name]
    if not (source := source_of(name, averaged)):
        return None
    probabilities, threshold = averaged[source.probabilities], averaged.get(source.threshold)
    if source.kind == PREDICTED:
        return tf.cast(probabilities >= 0.5, first[name].dtype)
    rank = probabilities.shape.rank
    if rank is not None and (rank < 2 or probabilities.shape[-1] == 1):  # Of one class alone.
        return None
    best = tf.argmax(probabilities, -1) if threshold is None else tf.cast(probabilities[..., 1] >= threshold, tf.int64)
    if source.kind == CLASS_NAME:
        return tf.gather(tf.constant(class_names[source.key]), best) if source.key in class_names else None
    if source.kind == CLASSES:
        known = source.all_classes in first
        return tf.gather(first[source.all_classes], best[..., None], batch_dims=1) if known else None
    made = tf.cast(best, first[name].dtype)
    return made[..., None] if source.kind == CLASS_IDS else made
