"""The framework's hyper-parameters. A model, a dataset, a set and --hparams may each override them, in this order."""

import types

DEFAULTS = types.MappingProxyType({
    # Length of the training: train_steps, or where it is 0, num_epochs. The flags of these names override them.
    'train_steps': 0,
    'num_epochs': 10.0,
    # Input: batch_size is the global batch, which the towers share. shuffle_buffer counts examples; an epoch is
    # shuffled perfectly where the buffer holds all of it. cache keeps the raw training records in memory.
    'batch_size': 128,
    'eval_batch_size': 1000,
    'shuffle_buffer': 10000,
    'cache': True,
    # Learning rate: constant, exponential or cosine, after a linear warmup; see common/learning_rate.py.
    'learning_rate': 0.001,
    'learning_rate_schedule': 'constant',
    'warmup_steps': 0,
    'decay_steps': 1000,
    'decay_rate': 0.9,
    # Optimizer: adam, momentum or sgd; see common/optimizer.py.
    'optimizer': 'adam',
    'momentum': 0.9,
    'adam_beta1': 0.9,
    'adam_beta2': 0.999,
    'adam_epsilon': 1e-8,
})

# What whole numbers may be at most, and what the numbers above may be at least. A model or dataset guards its own.
MAXIMUM = 2**31 - 1
MINIMUM = types.MappingProxyType({
    'train_steps': 0,
    'num_epochs': 0,
    'batch_size': 1,
    'eval_batch_size': 1,
    'shuffle_buffer': 1,
    'learning_rate': 0,
    'warmup_steps': 0,
    'decay_steps': 1,
    'decay_rate': 0,
    'momentum': 0,
    'adam_beta1': 0,
    'adam_beta2': 0,
    'adam_epsilon': 0,
})
