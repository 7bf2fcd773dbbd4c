"""The variables of a layer: a warm start loads all of them or none, as a bias is of no use without its kernel."""

from collections.abc import Collection, Mapping

# As tf.layers, tf.keras and usual programs name the variables of a layer, which share its scope. Others stand alone, such as
# the tables of embeddings, and the layers within a layer have scopes of their own.
_PARTS = {
    *('kernel', 'bias', 'depthwise_kernel', 'pointwise_kernel', 'recurrent_kernel', 'weights', 'biases', 'w', 'b', 'W'),
    *('gamma', 'beta', 'moving_mean', 'moving_variance'),
}


def layer_of(name: str, names: Collection[str]) -> str:
    """Returns the scope that a variable shares with the others of its layer; '' if it stands alone.

    Args:
      name: of the variable. One of an optimizer, such as dense/kernel/Adam, is of the layer of its variable.
      names: of all variables.
    """
    scope, _, part = name.rpartition('/')
    if scope in names:
        return layer_of(scope, names)
    return scope if part in _PARTS else ''


def incomplete(problems: Mapping[str, str]) -> dict[str, list[str]]:
    """Returns {layer: its variables that cannot be loaded}, for the layers of which some can be, and others cannot.

    Args:
      problems: {name of a variable: why it cannot be loaded, or ''}.
    """
    layers: dict[str, list[str]] = {}
    for name in problems:
        scope, _, part = name.rpartition('/')
        if scope and part in _PARTS and scope not in problems:
            layers.setdefault(scope, []).append(name)
    found = {layer: [name for name in names if problems[name]] for layer, names in layers.items()}
    return {layer: names for layer, names in found.items() if 0 < len(names) < len(layers[layer])}
