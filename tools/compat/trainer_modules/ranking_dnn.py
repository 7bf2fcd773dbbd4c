import tensorflow as tf
from tensorflow_ranking.examples import tf_ranking_tfrecord as program

program.FLAGS(['program', '--list_size=10'])


def estimator(config, params):
    columns, context = program.example_feature_columns(), program.context_feature_columns()
    make = program.tfr.estimator.make_dnn_ranking_estimator
    made = make(columns, [8, 4], context, dropout=0.5, use_batch_norm=True, model_dir=config.model_dir)
    return tf.estimator.Estimator(made.model_fn, config=config)


def input_fn(split, params):
    return program.make_input_fn(
        f'tensorflow_ranking/examples/data/{split}_elwc.tfrecord', 4, num_epochs=None if split == 'train' else 1
    )()
