"""JPEG files to batches in PyTorch: python torch_images.py DIRECTORY EPOCHS RESIZED CROPPED BATCH_SIZE

The transforms reimplement torchvision's Resize, RandomCrop, RandomHorizontalFlip and ToTensor for Pillow images.
"""

import json
import os
import random
import sys
import time

import numpy as np
from PIL import Image
import torch
from torch.utils import data


class ImageFolder(data.Dataset):
    def __init__(self, directory: str, resized: int, cropped: int):
        names = sorted(os.listdir(directory))
        self._files = [
            (os.path.join(directory, name, file), label)
            for label, name in enumerate(names)
            for file in sorted(os.listdir(os.path.join(directory, name)))
        ]
        self._resized, self._cropped = resized, cropped

    def __len__(self) -> int:
        return len(self._files)

    def __getitem__(self, i: int) -> tuple[torch.Tensor, int]:
        path, label = self._files[i]
        with open(path, 'rb') as file:
            image = Image.open(file).convert('RGB')
        image = image.resize((self._resized, self._resized), Image.Resampling.BILINEAR)
        left, top = (random.randint(0, self._resized - self._cropped) for _ in range(2))
        image = image.crop((left, top, left + self._cropped, top + self._cropped))
        if random.random() < 0.5:
            image = image.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
        return torch.from_numpy(np.array(image)).permute(2, 0, 1).contiguous().float().div(255), label


def main(directory: str, epochs: str, resized: str, cropped: str, batch_size: str) -> None:
    images = ImageFolder(directory, int(resized), int(cropped))
    batches = data.DataLoader(
        images, batch_size=int(batch_size), shuffle=True, num_workers=2, persistent_workers=True, drop_last=True
    )
    count = 0
    for epoch in range(1 + int(epochs)):
        if epoch == 1:
            start = time.perf_counter()
        for batch, _ in batches:
            count += len(batch) if epoch else 0
    print(json.dumps({'images_per_second': count / (time.perf_counter() - start)}))


if __name__ == '__main__':
    main(*sys.argv[1:])
