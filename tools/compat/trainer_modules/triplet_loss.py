import tf_estimator

tf_estimator.enable(tf1=True)
import train

PARAMS = train.Params('experiments/batch_all/params.json')
PARAMS.dict.update(num_channels=4, use_batch_norm=True, batch_size=16, num_epochs=1000)


def model_fn(features, labels, mode):
    return train.model_fn(features, labels, mode, PARAMS)


def input_fn(split, params):
    return train.train_input_fn('.', PARAMS) if split == 'train' else train.test_input_fn('.', PARAMS)
