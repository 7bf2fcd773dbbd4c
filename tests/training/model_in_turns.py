"""A model module whose two losses are minimized in turn, for tests.cluster.tiny_data."""

from tests.training import model_with_parts

get_params, model = model_with_parts.get_params, model_with_parts.model


def variables(params):
    return {'square': 'hidden/', 'absolute': 'output/'}


def loss_steps(params):
    return {'square': 2, 'absolute': 1}
