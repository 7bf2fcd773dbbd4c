"""The network of models/alexnet.py in Lightning: python lightning_fit.py DATA.npz STEPS BATCH_SIZE VARIANT"""

import logging
import sys
import time
import warnings

import lightning
import numpy as np
import torch
from torch.utils import data
from torch_nets import WARM_UP, AlexNet, result


class Module(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = AlexNet().to(memory_format=torch.channels_last)

    def training_step(self, batch, index):
        if index == WARM_UP:
            self.start = time.perf_counter()
        loss = self.net.loss(*AlexNet.batch(batch, torch.channels_last))
        self.log('loss', loss)
        return loss

    def configure_optimizers(self):
        return self.net.optimizer(is_fused=True)


def main(path: str, steps: int, batch_size: int, variant: str) -> None:
    warnings.simplefilter('ignore')
    logging.getLogger('lightning.pytorch').setLevel(logging.ERROR)
    lightning.seed_everything(1, verbose=False)
    with np.load(path) as arrays:
        dataset = data.TensorDataset(*AlexNet.load(arrays))
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
