"""Trains PyTorch's MNIST example to a test accuracy of 0.99: python torch_convnet.py TRAIN.npz TEST.npz"""

import json
import sys

import numpy as np
import torch
from torch import nn
from torch.utils import data


def load(path: str) -> data.TensorDataset:
    with np.load(path) as arrays:
        images = torch.from_numpy(arrays['images']).permute(0, 3, 1, 2).float() / 255
        return data.TensorDataset((images - 0.1307) / 0.3081, torch.from_numpy(arrays['labels']).long())


def main(train: str, test: str) -> None:
    torch.manual_seed(1)
    net = nn.Sequential(
        nn.Conv2d(1, 32, 3),
        nn.ReLU(),
        nn.Conv2d(32, 64, 3),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Dropout(0.25),
        nn.Flatten(),
        nn.Linear(9216, 128),
        nn.ReLU(),
        nn.Dropout(0.5),
        nn.Linear(128, 10),
    )
    optimizer = torch.optim.Adadelta(net.parameters(), lr=1.0)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.7)
    batches = data.DataLoader(load(train), batch_size=64, shuffle=True)
    tests = data.DataLoader(load(test), batch_size=1000)
    for epoch in range(1, 15):  # noqa: B007 - printed at the end
        net.train()
        for images, labels in batches:
            optimizer.zero_grad()
            nn.functional.cross_entropy(net(images), labels).backward()
            optimizer.step()
        schedule.step()
        net.eval()
        with torch.no_grad():
            correct = sum(int((net(images).argmax(1) == labels).sum()) for images, labels in tests)
        if correct >= 9900:
            break
    print(json.dumps({'accuracy': correct / 10000, 'epochs': epoch}))


if __name__ == '__main__':
    main(*sys.argv[1:])
