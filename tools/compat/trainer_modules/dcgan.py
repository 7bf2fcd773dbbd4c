import tf_estimator

tf_estimator.enable(tf1=True)
import train_or_generate as program

PARAMS = dict(g_depths=[8, 8, 4, 4], d_depths=[4, 4, 8, 8], s_size=4, z_dim=10, batch_size=4, learning_rate=2e-4, beta1=0.5)


def model_fn(features, labels, mode):
    return program.DCGAN(features, labels, mode, PARAMS)


def input_fn(split, params):
    return program.train_input_fn(program.get_celeb_a_features() * 20, None, PARAMS['batch_size'])
