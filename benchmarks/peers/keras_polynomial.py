"""The polynomial of models/polynomial.py in Keras 3 on TensorFlow: python keras_polynomial.py STEPS STEPS_PER_EXECUTION"""

import json
import os
import sys
import time

os.environ['KERAS_BACKEND'] = 'tensorflow'
import keras
import numpy as np


class Clock(keras.callbacks.Callback):
    """Measures time after a warm-up of a tenth of the epochs."""

    def __init__(self, epochs: int):
        super().__init__()
        self.warm_up = epochs // 10

    def on_epoch_begin(self, epoch, logs=None):
        if epoch == self.warm_up:
            self.start = time.perf_counter()

    def on_train_end(self, logs=None):
        self.end = time.perf_counter()


def main(steps: int, steps_per_execution: int) -> None:
    x = np.random.RandomState(1).uniform(-10, 10, [100000, 1]).astype(np.float32)
    inputs = keras.Input([1])
    powers = keras.layers.Concatenate()([keras.ops.square(inputs), inputs])
    model = keras.Model(inputs, keras.layers.Dense(1)(powers))
    model.compile(keras.optimizers.Adam(0.01), 'mse', jit_compile=False, steps_per_execution=steps_per_execution)
    epochs = steps * 100 // len(x)
    clock = Clock(epochs)
    model.fit(x, 5 * x**2 + 3, batch_size=100, epochs=epochs, callbacks=[clock], verbose=0)
    print(json.dumps({'steps_per_second': (epochs - clock.warm_up) * len(x) / 100 / (clock.end - clock.start)}))


if __name__ == '__main__':
    main(int(sys.argv[1]), int(sys.argv[2]))
