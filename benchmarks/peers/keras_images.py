"""JPEG files to batches in Keras: python keras_images.py DIRECTORY EPOCHS RESIZED CROPPED BATCH_SIZE"""

import json
import os
import sys
import time

os.environ['KERAS_BACKEND'] = 'tensorflow'
import keras
import tensorflow as tf


def main(directory: str, epochs: str, resized: str, cropped: str, batch_size: str) -> None:
    augment = keras.Sequential(
        [
            keras.layers.RandomCrop(int(cropped), int(cropped)),
            keras.layers.RandomFlip('horizontal'),
            keras.layers.Rescaling(1 / 255),
        ]
    )
    batches = keras.utils.image_dataset_from_directory(
        directory, image_size=(int(resized), int(resized)), batch_size=int(batch_size), verbose=False
    )
    batches = batches.map(lambda images, labels: (augment(images, training=True), labels), tf.data.AUTOTUNE)
    batches = batches.prefetch(tf.data.AUTOTUNE)
    count = 0
    for epoch in range(1 + int(epochs)):
        if epoch == 1:
            start = time.perf_counter()
        for images, _ in batches:
            count += len(images) if epoch else 0
    print(json.dumps({'images_per_second': count / (time.perf_counter() - start)}))


if __name__ == '__main__':
    main(*sys.argv[1:])
