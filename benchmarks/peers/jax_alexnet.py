"""The network of models/alexnet.py in JAX (flax.nnx, optax): python jax_alexnet.py DATA.npz STEPS BATCH_SIZE VARIANT

The variant is float32, or bfloat16 for bfloat16 computation with float32 weights.
"""

import json
import resource
import sys
import time

from flax import nnx
import jax
import jax.numpy as jnp
import numpy as np
import optax

WARM_UP = 100


class Net(nnx.Module):
    def __init__(self, dtype: jnp.dtype, rngs: nnx.Rngs):
        channels = (1, 32, 64, 128)
        self.convolutions = nnx.List(
            nnx.Conv(inputs, outputs, (3, 3), dtype=dtype, rngs=rngs)
            for inputs, outputs in zip(channels, channels[1:], strict=False)
        )
        self.dense = nnx.Linear(1152, 512, dtype=dtype, rngs=rngs)
        self.dropout = nnx.Dropout(0.5, rngs=rngs)
        self.logits = nnx.Linear(512, 10, rngs=rngs)

    def __call__(self, net: jax.Array) -> jax.Array:
        for convolution in self.convolutions:
            net = nnx.relu(nnx.max_pool(convolution(net), (2, 2), (2, 2)))
        net = nnx.relu(self.dense(net.reshape(len(net), -1)))
        return self.logits(self.dropout(net).astype(jnp.float32))


@nnx.jit
def train_step(net: Net, optimizer: nnx.Optimizer, images: jax.Array, labels: jax.Array) -> jax.Array:
    def loss_of(net):
        return optax.softmax_cross_entropy_with_integer_labels(net(images.astype(jnp.float32) / 255), labels).mean()

    loss, gradients = nnx.value_and_grad(loss_of)(net)
    optimizer.update(net, gradients)
    return loss


def main(path: str, steps: int, batch_size: int, variant: str) -> None:
    with np.load(path) as data:
        images, labels = data['images'], data['labels']
    net = Net(jnp.bfloat16 if variant == 'bfloat16' else jnp.float32, nnx.Rngs(1))
    optimizer = nnx.Optimizer(net, optax.adam(0.001), wrt=nnx.Param)
    step_of = nnx.cached_partial(train_step, net, optimizer)
    random = np.random.default_rng(1)
    order = np.concatenate([random.permutation(len(labels)) for _ in range(steps * batch_size // len(labels) + 1)])
    for step in range(steps):
        if step == WARM_UP:
            loss.block_until_ready()  # noqa: F821 - of the step before
            start = time.perf_counter()
        chosen = order[step * batch_size : (step + 1) * batch_size]
        loss = step_of(images[chosen], labels[chosen])
    loss.block_until_ready()
    seconds = time.perf_counter() - start
    print(
        json.dumps(
            {
                'examples_per_second': (steps - WARM_UP) * batch_size / seconds,
                'megabytes': resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
                'parameters': sum(array.size for array in jax.tree.leaves(nnx.state(net, nnx.Param))),
                'loss': float(loss),
            }
        )
    )


if __name__ == '__main__':
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
