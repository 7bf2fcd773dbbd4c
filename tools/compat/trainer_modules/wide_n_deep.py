import tf_estimator

tf_estimator.enable(tf1=True)
import model as program


def estimator(config, params):
    return program.build_estimator(config)


def input_fn(split, params):
    if split == 'train':
        return program.input_fn(['spaced.data'], batch_size=16)
    return program.input_fn(['spaced.test'], num_epochs=1, shuffle=False, batch_size=16)
