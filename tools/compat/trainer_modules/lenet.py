import tf_estimator

tf_estimator.enable(tf1=True)
import mnist

mnist.FLAGS(['mnist', '--data_dir=.', '--batch_size=8'])
model_fn = mnist.model_function


def input_fn(split, params):
    return mnist.train_data().repeat() if split == 'train' else mnist.eval_data()
