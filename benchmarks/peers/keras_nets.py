"""The network of models/alexnet.py in Keras 3 on TensorFlow: python keras_fit.py DATA.npz STEPS BATCH_SIZE VARIANT"""

import json
import os
import resource
import sys
import time

os.environ['KERAS_BACKEND'] = 'tensorflow'
import keras
from keras import layers
import numpy as np
import tensorflow as tf

WARM_UP = 100
VARIANTS = {
    'float32': {},
    'bfloat16': {},
    'loop': {'steps_per_execution': 10},
    'bfloat16_loop': {'steps_per_execution': 10},
}


class Clock(keras.callbacks.Callback):
    """Records when the warm-up and the training ended."""

    def on_train_batch_end(self, batch, logs=None):
        if batch + 1 <= WARM_UP:
            self.step, self.start = batch + 1, time.perf_counter()
        self.last, self.end = batch + 1, time.perf_counter()


def main(path: str, steps: int, batch_size: int, variant: str) -> None:
    if variant.startswith('bfloat16'):
        keras.mixed_precision.set_global_policy('mixed_bfloat16')
    keras.utils.set_random_seed(1)
    with np.load(path) as data:
        images, labels = data['images'], data['labels']
    model = keras.Sequential(
        [
            keras.Input([28, 28, 1]),
            *[
                layer
                for filters in (32, 64, 128)
                for layer in (layers.Conv2D(filters, 3, padding='same', activation='relu'), layers.MaxPooling2D(2))
            ],
            layers.Flatten(),
            layers.Dense(512, activation='relu'),
            layers.Dropout(0.5),
            layers.Dense(10, dtype='float32'),
        ]
    )
    model.compile(
        keras.optimizers.Adam(0.001),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        **{'jit_compile': False, **VARIANTS[variant]},
    )
    dataset = tf.data.Dataset.from_tensor_slices((images, labels)).cache().shuffle(10000).repeat().batch(batch_size)
    dataset = dataset.map(lambda x, y: (tf.cast(x, tf.float32) / 255, y), tf.data.AUTOTUNE).prefetch(tf.data.AUTOTUNE)
    clock = Clock()
    history = model.fit(dataset, steps_per_epoch=steps, callbacks=[clock], verbose=0)
    print(
        json.dumps(
            {
                'examples_per_second': (clock.last - clock.step) * batch_size / (clock.end - clock.start),
                'megabytes': resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
                'parameters': model.count_params(),
                'loss': history.history['loss'][-1],
            }
        )
    )


if __name__ == '__main__':
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
