import tf_estimator

tf_estimator.enable(tf1=True)
import estimator_linear

model_fn = estimator_linear.model_fn


def input_fn(split, params):
    if split == 'train':
        return estimator_linear.train_input_fn('adult.data.csv', 16, 100)
    return estimator_linear.eval_input_fn('adult.test.csv', 16)
