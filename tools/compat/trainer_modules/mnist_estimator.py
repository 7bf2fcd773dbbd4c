import tf_estimator

import numpy as np

tf_estimator.enable(tf1=True)
from src import mnist_estimator

DATA = dict(np.load('mnist.npz'))
model_fn = mnist_estimator.model_fn


def input_fn(split, params):
    if split == 'train':
        return mnist_estimator.get_train_inputs(8, (DATA['x_train'], DATA['y_train']))
    return mnist_estimator.get_eval_inputs(8, (DATA['x_test'], DATA['y_test']))
