"""The networks of models/ in Keras 3 on TensorFlow: python keras_nets.py NET DATA.npz STEPS BATCH_SIZE VARIANT

A variant is words joined by underscores: float32 or bfloat16; loop for 10 steps in each execution; jit for XLA; single for one
thread within an op.
"""

import json
import os
import resource
import sys
import time

os.environ['KERAS_BACKEND'] = 'tensorflow'
import keras
from keras import layers, ops
import numpy as np
import tensorflow as tf

WARM_UP = 100


class Clock(keras.callbacks.Callback):
    """Records the ends of warm-up and training."""

    def on_train_batch_end(self, batch, logs=None):
        if batch + 1 <= WARM_UP:
            self.step, self.start = batch + 1, time.perf_counter()
        self.last, self.end = batch + 1, time.perf_counter()


def classifier(inputs, outputs, optimizer=None):
    """Returns a compiled classifier, by default with Adam."""
    model = keras.Model(inputs, outputs)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    return model, {'optimizer': optimizer or keras.optimizers.Adam(0.001), 'loss': loss}


def pictures(images, labels):
    return tf.cast(images, tf.float32) / 255, labels


def alexnet(data):
    net = inputs = keras.Input([28, 28, 1])
    for filters in (32, 64, 128):
        net = layers.ReLU()(layers.MaxPooling2D(2)(layers.Conv2D(filters, 3, padding='same')(net)))
    net = layers.Dropout(0.5)(layers.Dense(512, activation='relu')(layers.Flatten()(net)))
    compiled = classifier(inputs, layers.Dense(10, dtype='float32')(net))
    return *compiled, (data['images'], data['labels']), pictures


def resnet(data):
    def convolution(net, filters, stride=1):
        net = layers.Conv2D(filters, 3, stride, padding='same', use_bias=False)(net)
        return layers.BatchNormalization(momentum=0.9, epsilon=0.001)(net)

    def augmented(images, labels):
        """Mirrors half of the pictures, and shifts each by up to 4 pixels."""
        count = tf.shape(images)[0]
        padded = tf.pad(images, [[0, 0], [4, 4], [4, 4], [0, 0]])
        rows = tf.random.uniform([count, 1], 0, 9, tf.int32) + tf.range(32)
        columns = tf.random.uniform([count, 1], 0, 9, tf.int32) + tf.range(32)
        columns = tf.where(tf.random.uniform([count, 1]) < 0.5, columns, columns[:, ::-1])
        shifted = tf.gather(tf.gather(padded, rows, batch_dims=1), columns, axis=2, batch_dims=1)
        return pictures(shifted, labels)

    inputs = keras.Input([32, 32, 3])
    net = layers.ReLU()(convolution(inputs, 16))
    for filters, first_stride in ((16, 1), (32, 2), (64, 2)):
        for stride in (first_stride, 1, 1):
            shortcut = net
            if stride > 1:
                shortcut = ops.pad(net[:, ::stride, ::stride], [[0, 0], [0, 0], [0, 0], [0, filters // 2]])
            net = convolution(layers.ReLU()(convolution(net, filters, stride)), filters)
            net = layers.ReLU()(layers.Add()([shortcut, net]))
    net = layers.GlobalAveragePooling2D()(net)
    optimizer = keras.optimizers.SGD(0.1, 0.9, weight_decay=1e-4)
    compiled = classifier(inputs, layers.Dense(10, dtype='float32')(net), optimizer)
    return *compiled, (data['images'], data['labels']), augmented


def mlp(data):
    sizes = data['sizes'].tolist()
    numeric = keras.Input([data['numeric'].shape[1]], name='numeric')
    categorical = keras.Input([len(sizes)], dtype='int32', name='categorical')
    # One table for all columns, each at its offset.
    offsets = np.array([0, *np.cumsum(sizes)[:-1]], np.int32)
    embedded = layers.Flatten()(layers.Embedding(sum(sizes), 8)(categorical + offsets))
    net = layers.Concatenate()([numeric, embedded])
    for units in (256, 128):
        net = layers.Dense(units, activation='relu')(net)
    compiled = classifier([numeric, categorical], layers.Dense(2)(net))
    return *compiled, ((data['numeric'], data['categorical']), data['labels']), None


class Seq2Seq(keras.Model):
    def __init__(self):
        super().__init__()
        self.embedding = layers.Embedding(256, 32)
        self.encoder = layers.Bidirectional(layers.GRU(128, return_sequences=True, return_state=True, reset_after=False))
        self.summary = layers.Dense(128, activation='tanh')
        self.keys = layers.Dense(128, use_bias=False)
        self.decoder = layers.GRU(128, return_sequences=True, reset_after=False)
        self.merge = layers.Dense(128, activation='tanh')
        self.tokens = layers.Dense(256, dtype='float32')

    def call(self, texts):
        sources, previous = texts
        memory, forward, backward = self.encoder(self.embedding(sources))
        state = self.summary(ops.concatenate([forward, backward], 1))
        outputs = self.decoder(self.embedding(previous), initial_state=state)
        bias = ops.cast(ops.where(sources > 0, 0.0, -1e9)[:, None], outputs.dtype)
        attention = ops.softmax(ops.matmul(outputs, ops.transpose(self.keys(memory), [0, 2, 1])) + bias)
        return self.tokens(self.merge(ops.concatenate([outputs, ops.matmul(attention, memory)], 2)))


def seq2seq(data):
    def loss(targets, logits):
        losses = keras.losses.sparse_categorical_crossentropy(targets, logits, from_logits=True)
        is_text = ops.pad(targets[:, :-1] > 0, [[0, 0], [1, 0]], constant_values=True)  # The end token counts, too.
        return ops.sum(losses * ops.cast(is_text, 'float32'), 1)

    targets = data['targets'].astype(np.int32)
    previous = np.pad(targets[:, :-1], [[0, 0], [1, 0]], constant_values=2)
    settings = {'optimizer': keras.optimizers.Adam(0.001), 'loss': loss}
    return Seq2Seq(), settings, ((data['sources'].astype(np.int32), previous), targets), None


def text_cnn(data):
    inputs = keras.Input([data['texts'].shape[1]], dtype='int32')
    net = layers.Embedding(int(data['texts'].max()) + 1, 128)(inputs)
    found = [layers.GlobalMaxPooling1D()(layers.Conv1D(100, width, activation='relu')(net)) for width in (3, 4, 5)]
    net = layers.Dropout(0.5)(layers.Concatenate()(found))
    return *classifier(inputs, layers.Dense(2)(net)), (data['texts'], data['labels']), None


NETS = {'alexnet': alexnet, 'resnet': resnet, 'mlp': mlp, 'seq2seq': seq2seq, 'text_cnn': text_cnn}


def main(name: str, path: str, steps: int, batch_size: int, variant: str) -> None:
    precision, *options = variant.split('_')
    if 'single' in options:
        tf.config.threading.set_intra_op_parallelism_threads(1)
    if precision == 'bfloat16':
        keras.mixed_precision.set_global_policy('mixed_bfloat16')
    keras.utils.set_random_seed(1)
    with np.load(path) as data:
        model, settings, arrays, convert = NETS[name](data)
    model.compile(**settings, jit_compile='jit' in options, steps_per_execution=10 if 'loop' in options else 1)
    # Gathering whole batches from the arrays is several times faster than batching single examples.
    arrays = tf.nest.map_structure(tf.constant, arrays)
    count = len(arrays[-1])

    def order_of(epoch):
        order = tf.random.shuffle(tf.range(count))[: count // batch_size * batch_size]
        return tf.data.Dataset.from_tensor_slices(tf.reshape(order, [-1, batch_size]))

    def batch_of(chosen):
        found = tf.nest.map_structure(lambda array: tf.gather(array, chosen), arrays)
        return convert(*found) if convert else found

    dataset = tf.data.Dataset.range(2**40).flat_map(order_of).map(batch_of, tf.data.AUTOTUNE).prefetch(tf.data.AUTOTUNE)
    clock = Clock()
    history = model.fit(dataset, steps_per_epoch=steps, callbacks=[clock], verbose=0)
    print(
        json.dumps(
            {
                'examples_per_second': (clock.last - clock.step) * batch_size / (clock.end - clock.start),
                'megabytes': resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
                'parameters': sum(int(np.prod(weight.shape)) for weight in model.trainable_weights),
                'loss': history.history['loss'][-1],
            }
        )
    )


if __name__ == '__main__':
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), sys.argv[5])
