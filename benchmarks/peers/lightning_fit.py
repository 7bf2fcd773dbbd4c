"""The network of models/alexnet.py in Lightning: python lightning_fit.py DATA.npz STEPS BATCH_SIZE VARIANT"""

import logging
import sys
import time
import warnings

import lightning
import torch
from torch import nn
from torch.utils import data
from torch_loop import WARM_UP, load, make_net, result


class Module(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = make_net().to(memory_format=torch.channels_last)

    def training_step(self, batch, index):
        if index == WARM_UP:
            self.start = time.perf_counter()
        images, labels = batch
        logits = self.net((images.float() / 255).contiguous(memory_format=torch.channels_last))
        loss = nn.functional.cross_entropy(logits.float(), labels)
        self.log('loss', loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), 0.001, fused=True)


def main(path: str, steps: int, batch_size: int, variant: str) -> None:
    warnings.simplefilter('ignore')
    logging.getLogger('lightning.pytorch').setLevel(logging.ERROR)
    lightning.seed_everything(1, verbose=False)
    dataset = data.TensorDataset(*load(path))
    sampler = data.BatchSampler(data.RandomSampler(dataset, num_samples=steps * batch_size), batch_size, drop_last=True)
    loader = data.DataLoader(dataset, sampler=sampler, batch_size=None)
    module = Module()
    trainer = lightning.Trainer(
        accelerator='cpu',
        max_steps=steps,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        precision='bf16-mixed' if variant == 'bfloat16' else '32-true',
    )
    trainer.fit(module, loader)
    seconds = time.perf_counter() - module.start
    print(result(module, steps - WARM_UP, batch_size, seconds, trainer.callback_metrics['loss']))


if __name__ == '__main__':
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
