"""Damages TFRecord files in many ways, and reads them with the framework.

    python -m tools.soak.mutations --times=10000

Every other file has valid checksums. They are read in separate processes, none of which may die.
"""

import argparse
import collections
import json
import os
import random
import re
import subprocess
import sys
import tempfile

import tf_estimator  # noqa: F401 - before TensorFlow

import tensorflow.compat.v1 as tf

from estimator_trainer.common.errors import RunError
from estimator_trainer.common.records import manifest, records, tfrecord
from tests.shared import ROOT
from tests.tfrecords import header, record
from tools.soak.bounded import end_after

_SHARE = 500  # Files a process.


def mutate(content, offsets, rng):
    """Returns the bytes of a damaged TFRecord file, with wrong checksums or truncated."""
    at = rng.randrange(len(content))
    few = rng.randbytes(rng.choice([1, 1, 1, 4, 8, 100]))
    length = rng.choice(offsets)
    return rng.choice(
        [
            lambda: content[:at],
            lambda: content[:at] + bytes([content[at] ^ 1 << rng.randrange(8)]) + content[at + 1 :],
            lambda: content[:at] + few + content[at + len(few) :],
            lambda: content[:at] + few + content[at:],
            lambda: content[:at] + content[at + len(few) :],
            lambda: content[:length] + rng.randbytes(8) + content[length + 8 :],
            lambda: content + few,
            lambda: rng.randbytes(len(content)),
        ]
    )()


def forge(content, offsets, rng):
    """Returns the bytes of a modified TFRecord file with valid checksums."""
    whole = [content[begin:end] for begin, end in zip(offsets, [*offsets[1:], len(content)])]
    i = rng.randrange(len(whole))
    data = whole[i][12:-4]
    at = rng.randrange(len(data))
    huge = rng.choice([2**62, 2**64 - 1, 2**63, 2**31, 2**32, 2**40, len(content), rng.randrange(2**64)])
    return b''.join(
        rng.choice(
            [
                lambda: [
                    *whole[:i],
                    record(data[:at] + bytes([data[at] ^ 1 << rng.randrange(8)]) + data[at + 1 :]),
                    *whole[i + 1 :],
                ],
                lambda: [*whole[:i], record(data[:at] + rng.randbytes(5) + data[at:]), *whole[i + 1 :]],
                lambda: [*whole[:i], record(data[:at]), *whole[i + 1 :]],
                lambda: [*whole[:i], record(rng.randbytes(len(data))), *whole[i + 1 :]],
                lambda: [*whole[:i], *whole[i + 1 :]],
                lambda: [*whole[:i], whole[i], *whole[i:]],
                lambda: whole[:i],
                lambda: [*whole[i:], *whole[:i]],
                lambda: [*whole[:i], header(huge), whole[i][12:], *whole[i + 1 :]],
            ]
        )()
    )


def read_damaged(times, seed):
    """Damages and reads files; counts errors 'named' with file and byte, 'not named', and 'silent' ones."""
    rng = random.Random(seed)
    found = collections.Counter()
    with tempfile.TemporaryDirectory() as directory:
        examples = [{'id': i, 'text': f'the {i}th', 'image': rng.randbytes(rng.randrange(300))} for i in range(20)]
        records.write(directory, {'train': examples}, num_shards=1)
        path = os.path.join(directory, 'train-00000-of-00001.tfrecord')
        with open(path, 'rb') as file:
            content = file.read()
        offsets = tfrecord.scan(path).offsets
        for i in range(times):
            damaged = content
            while damaged == content:
                damaged = (mutate, forge)[i % 2](content, offsets, rng)
            with open(path, 'wb') as file:
                file.write(damaged)
            manifest.clear_cache()
            try:
                _read(directory)
                found['silent'] += 1
            except RunError as error:
                found['named' if re.match(rf'{re.escape(path)}: .*\bbyte \d+', str(error)) else 'not named'] += 1
    return found


def _read(directory):
    with tf.Graph().as_default(), tf.Session() as session:
        element = tf.data.make_one_shot_iterator(records.read(directory, 'train')).get_next()
        for _ in range(20):
            session.run(element)


def read_in_processes(times, seed=0):
    """Returns the counts of `read_damaged`, and the 'signal deaths', of processes that share the work."""
    found = collections.Counter({'named': 0, 'not named': 0, 'silent': 0, 'signal deaths': 0})
    for begin in range(0, times, _SHARE):
        process = subprocess.run(
            [
                sys.executable,
                '-m',
                'tools.soak.mutations',
                '--share',
                f'--times={min(_SHARE, times - begin)}',
                f'--seed={seed + begin}',
            ],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            text=True,
            check=False,
        )
        if process.returncode < 0:
            found['signal deaths'] += 1
        elif process.returncode:
            raise AssertionError(f'exit code {process.returncode}')
        else:
            found.update(json.loads(process.stdout))
    return dict(found)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--times', type=int, default=10000)
    parser.add_argument('--seed', type=int, default=0)
    parser.add_argument('--share', action='store_true', help='Be one of the processes.')
    options = parser.parse_args()
    end_after(60)
    print(json.dumps((read_damaged if options.share else read_in_processes)(options.times, options.seed)))


if __name__ == '__main__':
    main()
