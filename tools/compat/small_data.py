"""Small random data in the formats that public programs read; each function takes the folder of a program."""

import gzip
from pathlib import Path

import numpy as np
import tensorflow as tf


def mnist(folder: Path) -> None:
    """Writes MNIST's four files, plain and compressed, and mnist.npz."""
    arrays = {}
    for split, prefix, count in (('train', 'train', 128), ('test', 't10k', 64)):
        rng = np.random.RandomState(count)
        labels = rng.randint(0, 10, count, np.uint8)
        images = (rng.randint(0, 100, [count, 28, 28]) + 10 * labels[:, None, None]).astype(np.uint8)
        arrays |= {f'x_{split}': images, f'y_{split}': labels}
        for kind, header, values in (('images-idx3', [2051, count, 28, 28], images), ('labels-idx1', [2049, count], labels)):
            content = np.array(header, '>u4').tobytes() + values.tobytes()
            (folder / f'{prefix}-{kind}-ubyte').write_bytes(content)
            (folder / f'{prefix}-{kind}-ubyte.gz').write_bytes(gzip.compress(content))
    np.savez(folder / 'mnist.npz', **arrays)


def libsvm(folder: Path) -> None:
    """Writes tr.libsvm and va.libsvm, with 5 fields of 20 values."""
    for name, count in (('tr', 200), ('va', 100)):
        rng = np.random.RandomState(count)
        with open(folder / f'{name}.libsvm', 'w') as file:
            for ids in rng.randint(0, 20, [count, 5]) + 20 * np.arange(5):
                file.write(' '.join([str(ids[0] % 2), *(f'{i}:{rng.rand():.3f}' for i in ids)]) + '\n')


def adult(folder: Path) -> None:
    """Writes rows of the census data set, adult.data.csv and adult.test.csv, and with spaces, spaced.data and spaced.test."""
    texts = {
        1: ['Private', 'State-gov', '?'],
        3: ['Bachelors', 'HS-grad', 'Masters'],
        5: ['Divorced', 'Widowed'],
        6: ['Sales', 'Tech-support', 'Craft-repair'],
        7: ['Husband', 'Wife', 'Unmarried'],
        8: ['White', 'Black', 'Other'],
        9: ['Male', 'Female'],
        13: ['United-States', 'Cuba'],
        14: ['>50K', '<=50K'],
    }
    for name, count in (('data', 200), ('test', 100)):
        rng = np.random.RandomState(count)
        rows = [[str(rng.choice(texts[i]) if i in texts else rng.randint(1, 60)) for i in range(15)] for _ in range(count)]
        (folder / f'adult.{name}.csv').write_text('\n'.join(map(','.join, rows)) + '\n')
        (folder / f'spaced.{name}').write_text('\n'.join(map(', '.join, rows)) + '\n')


def bert(folder: Path) -> None:
    """Writes examples of sentence pairs as run_classifier.py does, train.tf_record and eval.tf_record, 16 tokens each."""
    for name, count in (('train', 100), ('eval', 50)):
        rng = np.random.RandomState(count)
        with tf.io.TFRecordWriter(str(folder / f'{name}.tf_record')) as writer:
            for ids in rng.randint(0, 100, [count, 16]):
                values = {'input_ids': ids, 'input_mask': np.ones(16, int), 'segment_ids': np.arange(16) // 8}
                values |= {'label_ids': [ids[1] % 2], 'is_real_example': [1]}
                feature = {key: tf.train.Feature(int64_list=tf.train.Int64List(value=value)) for key, value in values.items()}
                writer.write(tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString())


def pictures(folder: Path) -> None:
    """Writes 40 pictures in data/celebA."""
    (folder / 'data' / 'celebA').mkdir(parents=True, exist_ok=True)
    for i, pixels in enumerate(np.random.RandomState(0).randint(0, 256, [40, 128, 128, 3], np.uint8)):
        (folder / 'data' / 'celebA' / f'{i}.jpg').write_bytes(tf.io.encode_jpeg(pixels).numpy())
