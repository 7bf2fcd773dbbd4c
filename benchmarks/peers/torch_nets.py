"""The networks of models/ in PyTorch: python torch_nets.py NET DATA.npz STEPS BATCH_SIZE VARIANT

A variant is words joined by underscores: float32, bfloat16 or float16; fused for channels_last and fused optimizers; compiled
for torch.compile, which compiles the forward and the backward pass with Inductor; cuda for alexnet on a GPU, with its data.
"""

import contextlib
import json
import resource
import sys
import time

import numpy as np
import torch
from torch import nn
from torch.nn import functional

WARM_UP = 100


class AlexNet(nn.Sequential):
    def __init__(self):
        stack = [
            layer
            for inputs, outputs in ((1, 32), (32, 64), (64, 128))
            for layer in (nn.Conv2d(inputs, outputs, 3, padding=1), nn.MaxPool2d(2), nn.ReLU())
        ]
        super().__init__(*stack, nn.Flatten(), nn.Linear(1152, 512), nn.ReLU(), nn.Dropout(0.5), nn.Linear(512, 10))

    @staticmethod
    def load(data):
        return torch.from_numpy(data['images']).permute(0, 3, 1, 2).contiguous(), torch.from_numpy(data['labels']).long()

    @staticmethod
    def batch(chosen, layout):
        images, labels = chosen
        return (images.float() / 255).contiguous(memory_format=layout), labels

    def loss(self, images, labels):
        return functional.cross_entropy(self(images).float(), labels)

    def optimizer(self, is_fused):
        return torch.optim.Adam(self.parameters(), 0.001, fused=is_fused)


class Block(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.first = nn.Sequential(nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False), nn.BatchNorm2d(outputs, 0.001))
        self.second = nn.Sequential(nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False), nn.BatchNorm2d(outputs, 0.001))
        self.stride, self.added = stride, outputs - inputs

    def forward(self, net):
        shortcut = functional.pad(net[:, :, :: self.stride, :: self.stride], (0, 0, 0, 0, 0, self.added))
        return functional.relu(shortcut + self.second(functional.relu(self.first(net))))


class ResNet(nn.Sequential):
    def __init__(self):
        blocks = [
            Block(inputs if not i else outputs, outputs, stride if not i else 1)
            for inputs, outputs, stride in ((16, 16, 1), (16, 32, 2), (32, 64, 2))
            for i in range(3)
        ]
        start = [nn.Conv2d(3, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16, 0.001), nn.ReLU()]
        super().__init__(*start, *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))

    load = AlexNet.load
    loss = AlexNet.loss

    @staticmethod
    def batch(chosen, layout):
        """Mirrors half of the pictures, and shifts each by up to 4 pixels."""
        images, labels = chosen
        count = len(images)
        padded = functional.pad(images, (4, 4, 4, 4))
        rows = torch.randint(0, 9, (count, 1)) + torch.arange(32)
        columns = torch.randint(0, 9, (count, 1)) + torch.arange(32)
        columns = torch.where(torch.rand(count, 1) < 0.5, columns, columns.flip(1))
        images = padded[torch.arange(count)[:, None, None], :, rows[:, :, None], columns[:, None, :]]  # Channels last.
        return (images.permute(0, 3, 1, 2).float() / 255).contiguous(memory_format=layout), labels

    def optimizer(self, is_fused):
        filters = [parameter for parameter in self.parameters() if parameter.dim() > 1]
        vectors = [parameter for parameter in self.parameters() if parameter.dim() == 1]
        groups = [{'params': filters, 'weight_decay': 1e-4}, {'params': vectors}]
        return torch.optim.SGD(groups, 0.1, 0.9, fused=is_fused)


class MLP(nn.Module):
    def __init__(self, sizes, numeric):
        super().__init__()
        # One table for all columns, each at its offset.
        self.register_buffer('offsets', torch.tensor([0, *np.cumsum(sizes)[:-1]]))
        self.embedding = nn.Embedding(sum(sizes), 8)
        inputs = numeric + 8 * len(sizes)
        self.net = nn.Sequential(nn.Linear(inputs, 256), nn.ReLU(), nn.Linear(256, 128), nn.ReLU(), nn.Linear(128, 2))

    @staticmethod
    def load(data):
        return tuple(torch.from_numpy(data[name]) for name in ('numeric', 'categorical', 'labels'))

    @staticmethod
    def batch(chosen, layout):
        del layout
        numeric, categorical, labels = chosen
        return numeric, categorical.long(), labels.long()

    def logits(self, numeric, categorical):
        embedded = self.embedding(categorical + self.offsets).flatten(1)
        return self.net(torch.cat([numeric, embedded], 1))

    def loss(self, numeric, categorical, labels):
        return functional.cross_entropy(self.logits(numeric, categorical).float(), labels)

    optimizer = AlexNet.optimizer


class Seq2Seq(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(256, 32)
        self.encoder = nn.GRU(32, 128, batch_first=True, bidirectional=True)
        self.summary = nn.Linear(256, 128)
        self.keys = nn.Linear(256, 128, bias=False)
        self.decoder = nn.GRU(32, 128, batch_first=True)
        self.merge = nn.Linear(384, 128)
        self.tokens = nn.Linear(128, 256)

    @staticmethod
    def load(data):
        return tuple(torch.from_numpy(data[name]) for name in ('sources', 'targets'))

    @staticmethod
    def batch(chosen, layout):
        del layout
        return tuple(array.long() for array in chosen)

    def loss(self, sources, targets):
        memory, state = self.encoder(self.embedding(sources))
        state = torch.tanh(self.summary(state.transpose(0, 1).flatten(1)))
        previous = functional.pad(targets[:, :-1], (1, 0), value=2)
        outputs, _ = self.decoder(self.embedding(previous), state[None])
        bias = torch.where(sources > 0, 0.0, -1e9)[:, None]
        attention = torch.softmax(outputs @ self.keys(memory).transpose(1, 2) + bias, 2)
        merged = torch.tanh(self.merge(torch.cat([outputs, attention @ memory], 2)))
        losses = functional.cross_entropy(self.tokens(merged).transpose(1, 2), targets, reduction='none')
        is_text = functional.pad(targets[:, :-1] > 0, (1, 0), value=True)  # The end token counts, too.
        return (losses * is_text).sum(1).mean()

    optimizer = AlexNet.optimizer


class TextCNN(nn.Module):
    def __init__(self, vocabulary_size):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary_size, 128)
        self.filters = nn.ModuleList([nn.Conv1d(128, 100, width) for width in (3, 4, 5)])
        self.classes = nn.Sequential(nn.Dropout(0.5), nn.Linear(300, 2))

    @staticmethod
    def load(data):
        return tuple(torch.from_numpy(data[name]) for name in ('texts', 'labels'))

    batch = staticmethod(Seq2Seq.batch)

    def loss(self, texts, labels):
        net = self.embedding(texts).transpose(1, 2)
        found = torch.cat([functional.relu(filters(net)).amax(2) for filters in self.filters], 1)
        return functional.cross_entropy(self.classes(found).float(), labels)

    optimizer = AlexNet.optimizer


NETS = {'alexnet': AlexNet, 'resnet': ResNet, 'mlp': MLP, 'seq2seq': Seq2Seq, 'text_cnn': TextCNN}


def make_net(name: str, data: np.lib.npyio.NpzFile) -> nn.Module:
    if name == 'mlp':
        return MLP(data['sizes'].tolist(), data['numeric'].shape[1])
    return TextCNN(int(data['texts'].max()) + 1) if name == 'text_cnn' else NETS[name]()


def result(net: nn.Module, steps: int, batch_size: int, seconds: float, loss: torch.Tensor) -> str:
    return json.dumps(
        {
            'examples_per_second': steps * batch_size / seconds,
            'megabytes': resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
            'parameters': sum(parameter.numel() for parameter in net.parameters()),
            'loss': loss.item(),
        }
    )


def finish(device: str) -> None:
    """Waits until a device has done all that it was given."""
    if device == 'cuda':
        torch.cuda.synchronize()


def main(name: str, path: str, steps: int, batch_size: int, variant: str) -> None:
    torch.manual_seed(1)
    precision, *options = variant.split('_')
    with np.load(path) as data:
        arrays = NETS[name].load(data)
        net = make_net(name, data)
    device = 'cuda' if 'cuda' in options else 'cpu'
    arrays = [array.to(device) for array in arrays]
    layout = torch.channels_last if 'fused' in options else torch.contiguous_format
    net = net.train().to(device, memory_format=layout)
    optimizer = net.optimizer(is_fused='fused' in options)
    scaler = torch.amp.GradScaler(device, enabled=precision == 'float16')

    def loss_of(*batch):
        with torch.autocast(device, getattr(torch, precision)) if precision != 'float32' else contextlib.nullcontext():
            return net.loss(*batch)

    if 'compiled' in options:
        loss_of = torch.compile(loss_of)
    count = len(arrays[0])
    order = torch.cat([torch.randperm(count) for _ in range(steps * batch_size // count + 1)]).to(device)
    for step in range(steps):
        if step == WARM_UP:
            finish(device)
            start = time.perf_counter()
        chosen = order[step * batch_size : (step + 1) * batch_size]
        loss = loss_of(*net.batch([array[chosen] for array in arrays], layout))
        optimizer.zero_grad(set_to_none=True)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    finish(device)
    print(result(net, steps - WARM_UP, batch_size, time.perf_counter() - start, loss))


if __name__ == '__main__':
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), sys.argv[5])
