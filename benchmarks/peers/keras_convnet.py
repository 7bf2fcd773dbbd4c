"""Trains Keras's MNIST example to a test accuracy of 0.99: python keras_convnet.py TRAIN.npz TEST.npz"""

import json
import os
import sys

os.environ['KERAS_BACKEND'] = 'tensorflow'
import keras
from keras import layers
import numpy as np


class Stop(keras.callbacks.Callback):
    """Stops training at a test accuracy of 0.99."""

    def on_epoch_end(self, epoch, logs=None):
        self.accuracy, self.epochs = logs['val_accuracy'], epoch + 1
        self.model.stop_training = self.accuracy >= 0.99


def load(path: str) -> tuple[np.ndarray, np.ndarray]:
    with np.load(path) as data:
        return data['images'].astype(np.float32) / 255, data['labels']


def main(train: str, test: str) -> None:
    keras.utils.set_random_seed(1)
    model = keras.Sequential(
        [
            keras.Input([28, 28, 1]),
            layers.Conv2D(32, 3, activation='relu'),
            layers.MaxPooling2D(2),
            layers.Conv2D(64, 3, activation='relu'),
            layers.MaxPooling2D(2),
            layers.Flatten(),
            layers.Dropout(0.5),
            layers.Dense(10, activation='softmax'),
        ]
    )
    model.compile('adam', 'sparse_categorical_crossentropy', metrics=['accuracy'])
    stop = Stop()
    model.fit(*load(train), batch_size=128, epochs=15, validation_data=load(test), callbacks=[stop], verbose=0)
    print(json.dumps({'accuracy': stop.accuracy, 'epochs': stop.epochs}))


if __name__ == '__main__':
    main(*sys.argv[1:])
