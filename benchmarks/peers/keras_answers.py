"""Predicts with AlexNet in Keras 3 on TensorFlow: python keras_answers.py DATA.npz BATCH_SIZE VARIANT

A variant is call, function, predict, or lines=FILE to write the predictions.
"""

import os
import statistics
import sys
import time

os.environ['KERAS_BACKEND'] = 'tensorflow'
from answer_times import PASSES, measure, result, write
import keras
from keras import layers
from keras_nets import alexnet
import numpy as np
import tensorflow as tf


def main(path: str, batch_size: int, variant: str) -> None:
    with np.load(path) as data:
        images, logits = data['images'], alexnet(data)[0]
    inputs = keras.Input([28, 28, 1], dtype='uint8')
    model = keras.Model(inputs, layers.Softmax()(logits(layers.Rescaling(1 / 255)(inputs))))
    if variant.startswith('lines='):
        print(write(variant.partition('=')[2], model.predict(images, batch_size, verbose=0)))
        return
    if variant == 'predict':  # Designed for all examples at once.
        speeds = []
        for _ in range(PASSES + 1):
            start = time.perf_counter()
            model.predict(images, batch_size, verbose=0)
            speeds.append(len(images) / (time.perf_counter() - start))
        print(result(statistics.median(speeds[1:]), lambda batch: model.predict_on_batch(batch), images))
        return
    call = tf.function(model) if variant == 'function' else model
    print(measure(lambda batch: call(tf.constant(batch)).numpy(), images, batch_size))


if __name__ == '__main__':
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3])
