import tf_estimator

tf_estimator.enable(tf1=True)
import DCN

DCN.FLAGS(['DCN', '--batch_norm'])
model_fn = DCN.model_fn


def get_params():
    sizes = dict(field_size=5, feature_size=100, embedding_size=4, cross_layers=3, deep_layers='8,4')
    return dict(sizes, dropout='0.5,0.5', l2_reg=1e-4, learning_rate=5e-4)


def input_fn(split, params):
    return DCN.input_fn('tr.libsvm', 8, None, True) if split == 'train' else DCN.input_fn('va.libsvm', 8)
