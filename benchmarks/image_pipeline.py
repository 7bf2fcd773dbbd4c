"""JPEG files to training batches, compared with PyTorch and Keras: images per second, without a model.

    python -m benchmarks.image_pipeline

1,000 pictures of 500 by 375 pixels are decoded, resized to 144 by 144, randomly cropped to 128 by 128, randomly mirrored and
batched, in shuffled epochs. The trainer reads them with datasets/image_folder.py. PyTorch's DataLoader has two worker
processes, which reimplement torchvision's transforms with Pillow; Keras uses image_dataset_from_directory and its layers. The
first run creates the virtual environments in .venv-peers. Runs alternate, each in its own process; the first epoch is warm-up.
A ratio is the median over the rounds.
"""

import functools
import json
import os
import statistics
import sys
import tempfile
import time

import tf_estimator  # noqa: F401 - before TensorFlow

import numpy as np
from PIL import Image
import tensorflow.compat.v1 as tf

from benchmarks.processes import instruction_sets, make_environments, run_module, run_peer
from estimator_trainer.common.pipeline.data_source import DataSource
from estimator_trainer.common.pipeline.input import make_input_fn
from estimator_trainer.common.pipeline.size import count_examples
from estimator_trainer.datasets import image_folder
from estimator_trainer.hparams import build

ROUNDS, COUNT, EPOCHS = 5, 1000, 3
WIDTH, HEIGHT, RESIZED, CROPPED, BATCH_SIZE = 500, 375, 144, 128, 64


def generate(directory: str, count: int) -> None:
    """Writes JPEG files in two class folders: smooth colors and noise, in files as large as photographs."""
    random = np.random.RandomState(0)
    for name in ('a', 'b'):
        os.makedirs(os.path.join(directory, name))
    for i in range(count):
        colors = Image.fromarray(random.randint(0, 256, [HEIGHT // 20, WIDTH // 20, 3], np.uint8))
        smooth = np.asarray(colors.resize((WIDTH, HEIGHT), Image.Resampling.BICUBIC), np.float32)
        noisy = np.uint8(np.clip(smooth + random.normal(0, 7, smooth.shape), 0, 255))
        Image.fromarray(noisy).save(os.path.join(directory, 'ab'[i % 2], f'{i:05d}.jpg'), quality=85)


def augment(images: tf.Tensor) -> tf.Tensor:
    """Crops and mirrors a batch [batch, RESIZED, RESIZED, 3], each image independently."""
    batch = tf.shape(images)[0]
    first = tf.random.uniform([batch, 2], 0, RESIZED - CROPPED + 1, tf.int32)
    mirrored = tf.random.uniform([batch, 1], 0, 2, tf.int32)
    columns = first[:, 1:] + mirrored * (CROPPED - 1) + (1 - 2 * mirrored) * tf.range(CROPPED)
    rows = tf.gather(images, first[:, :1] + tf.range(CROPPED), axis=1, batch_dims=1)
    return tf.gather(rows, columns, axis=2, batch_dims=1)


def measure(directory: str, epochs: int) -> dict[str, float]:
    """Returns the images per second of the trainer's input pipeline."""
    text = f'image_dir={directory},image_size={RESIZED},batch_size={BATCH_SIZE},eval_share=0.000001'
    params = build.make_hparams('benchmark', {}, 'image_folder', image_folder.get_params(), text=text)
    data_dir = os.path.join(os.path.dirname(directory), 'data')
    image_folder.prepare(data_dir, params)
    source = DataSource(image_folder, data_dir, params)
    count = count_examples(source, 'train')
    steps = count // BATCH_SIZE
    with tf.Graph().as_default(), tf.Session() as session:
        dataset = make_input_fn(source, tf.estimator.ModeKeys.TRAIN, 'train', count, cache=True)()
        iterator = tf.data.make_initializable_iterator(dataset)
        step = augment(iterator.get_next()[0]['image']).op
        session.run(tf.global_variables_initializer())
        session.run(iterator.initializer)
        for _ in range(steps):
            session.run(step)
        start = time.perf_counter()
        for _ in range(epochs * steps):
            session.run(step)
        return {'images_per_second': epochs * steps * BATCH_SIZE / (time.perf_counter() - start)}


def main() -> None:
    make_environments()
    with tempfile.TemporaryDirectory() as directory:
        pictures = os.path.join(directory, 'pictures')
        generate(pictures, COUNT)
        arguments = (pictures, EPOCHS, RESIZED, CROPPED, BATCH_SIZE)
        contenders = {
            'trainer.py': functools.partial(run_module, 'benchmarks.image_pipeline', pictures, EPOCHS),
            'PyTorch, DataLoader with 2 workers': functools.partial(run_peer, 'torch', 'torch_images.py', *arguments),
            'Keras, image_dataset_from_directory': functools.partial(run_peer, 'keras', 'keras_images.py', *arguments),
        }
        for run in contenders.values():
            run()  # Converts the files and fills the page cache.
        speeds = {name: [] for name in contenders}
        for _ in range(ROUNDS):
            for name, run in contenders.items():
                speeds[name].append(run()['images_per_second'])
    print(f'{COUNT} JPEG files, {os.cpu_count()} cores, {ROUNDS} rounds; {instruction_sets()}\n')
    print('| input | images/s | trainer.py relative to it | least to most |\n| --- | --- | --- | --- |')
    for name, values in speeds.items():
        ratios = [ours / theirs for ours, theirs in zip(speeds['trainer.py'], values)]
        print(
            f'| {name} | {statistics.median(values):,.0f} | {statistics.median(ratios):.2f} | '
            f'{min(ratios):.2f} to {max(ratios):.2f} |'
        )


if __name__ == '__main__':
    if sys.argv[1:]:
        print(json.dumps(measure(sys.argv[1], int(sys.argv[2]))))
    else:
        main()
