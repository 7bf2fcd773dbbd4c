"""Predicts with AlexNet in PyTorch: python torch_answers.py DATA.npz BATCH_SIZE VARIANT

A variant is eager, compiled, or lines=FILE to write the predictions.
"""

import sys

from answer_times import measure, write
import numpy as np
import torch
from torch_nets import AlexNet


def main(path: str, batch_size: int, variant: str) -> None:
    with np.load(path) as data:
        images = data['images']
    net = AlexNet().eval().to(memory_format=torch.channels_last)

    def probabilities(batch):
        # With one channel, the memory has both formats.
        return torch.softmax(net(batch.permute(0, 3, 1, 2).float() / 255), 1)

    if variant == 'compiled':
        probabilities = torch.compile(probabilities)
    with torch.inference_mode():
        if variant.startswith('lines='):
            batches = torch.from_numpy(images).split(batch_size)
            print(write(variant.partition('=')[2], torch.cat([probabilities(batch) for batch in batches]).numpy()))
            return
        print(measure(lambda batch: probabilities(torch.from_numpy(batch)).numpy(), images, batch_size))


if __name__ == '__main__':
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3])
