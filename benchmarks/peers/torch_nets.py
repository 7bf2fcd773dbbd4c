"""The network of models/alexnet.py in PyTorch: python torch_loop.py DATA.npz STEPS BATCH_SIZE VARIANT"""

import contextlib
import json
import resource
import sys
import time

import numpy as np
import torch
from torch import nn

WARM_UP = 100


def make_net() -> nn.Sequential:
    stack = [
        layer
        for inputs, outputs in ((1, 32), (32, 64), (64, 128))
        for layer in (nn.Conv2d(inputs, outputs, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2))
    ]
    return nn.Sequential(*stack, nn.Flatten(), nn.Linear(1152, 512), nn.ReLU(), nn.Dropout(0.5), nn.Linear(512, 10))


def load(path: str) -> tuple[torch.Tensor, torch.Tensor]:
    with np.load(path) as data:
        return torch.from_numpy(data['images']).permute(0, 3, 1, 2), torch.from_numpy(data['labels']).long()


def result(net: nn.Module, steps: int, batch_size: int, seconds: float, loss: torch.Tensor) -> str:
    return json.dumps(
        {
            'examples_per_second': steps * batch_size / seconds,
            'megabytes': resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
            'parameters': sum(parameter.numel() for parameter in net.parameters()),
            'loss': float(loss),
        }
    )


def main(path: str, steps: int, batch_size: int, variant: str) -> None:
    torch.manual_seed(1)
    images, labels = load(path)
    net = make_net().train()
    if variant == 'float32':
        layout, autocast = torch.contiguous_format, contextlib.nullcontext()
        optimizer = torch.optim.Adam(net.parameters(), 0.001)
    else:
        layout, autocast = torch.channels_last, contextlib.nullcontext()
        if variant == 'bfloat16':
            autocast = torch.autocast('cpu', torch.bfloat16)
        net = net.to(memory_format=layout)
        optimizer = torch.optim.Adam(net.parameters(), 0.001, fused=True)
    order = torch.cat([torch.randperm(len(labels)) for _ in range(steps * batch_size // len(labels) + 1)])
    for step in range(steps):
        if step == WARM_UP:
            start = time.perf_counter()
        chosen = order[step * batch_size : (step + 1) * batch_size]
        batch = (images[chosen].float() / 255).contiguous(memory_format=layout)
        with autocast:
            loss = nn.functional.cross_entropy(net(batch).float(), labels[chosen])
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
    print(result(net, steps - WARM_UP, batch_size, time.perf_counter() - start, loss))


if __name__ == '__main__':
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
