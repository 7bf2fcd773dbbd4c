"""The framework's hyper-parameters. A model, a dataset, a set and --hparams may each override them, in this order."""

from collections.abc import Mapping
import types
from typing import Any

DEFAULTS: Mapping[str, Any] = types.MappingProxyType(
    {
        # Length of the training: train_steps, or num_epochs if it is 0. The flags of these names override them.
        'train_steps': 0,
        'num_epochs': 10.0,
        # Input: train_split is the split to train on. batch_size is the global batch size; the batch is split among the
        # towers. shuffle_buffer is in examples; the shuffle is uniform if the buffer holds a whole epoch. cache keeps the
        # training records in memory, raw or parsed, if they take at most 512 MB there, and a quarter of what is available.
        # group_by_length batches examples of similar length, to pad less.
        'train_split': 'train',
        'batch_size': 128,
        'eval_batch_size': 1000,
        'shuffle_buffer': 10000,
        'cache': True,
        'group_by_length': False,
        # Weights of the classes in the loss, in the order of the labels; a single one is for all.
        'class_weights': [1.0],
        # Learning rate: constant, exponential, piecewise, cosine, cyclic or one_cycle, after a linear warmup; see
        # common/training/learning_rate.py.
        'learning_rate': 0.001,
        'learning_rate_schedule': 'constant',
        'warmup_steps': 0,
        # exponential: multiplied by decay_rate every decay_steps.
        'decay_steps': 1000,
        'decay_rate': 0.9,
        # piecewise: from each boundary on, learning_rate is multiplied by its factor.
        'piecewise_boundaries': [1000, 2000],
        'piecewise_factors': [0.1, 0.01],
        # cyclic and one_cycle start at learning_rate * initial_lr_factor; one_cycle rises for warmup_fraction of the training.
        'initial_lr_factor': 0.04,
        'cycle_steps': 1000,
        'warmup_fraction': 0.3,
        # By layer: REGULAR_EXPRESSION:FACTOR, as in [conv:0.1,dense:2], multiplies the rate of the variables whose names match.
        # The first that matches counts.
        'learning_rate_factors': [],
        # Optimizer: adam, adamw, adagrad, ftrl, momentum, rmsprop or sgd; see common/training/optimizer.py.
        'optimizer': 'adam',
        'momentum': 0.9,
        'adam_beta1': 0.9,
        'adam_beta2': 0.999,
        'adam_epsilon': 1e-8,
        'adagrad_initial_accumulator': 0.1,
        'ftrl_l1': 0.0,
        'ftrl_l2': 0.0,
        'rmsprop_decay': 0.9,
        'rmsprop_epsilon': 1e-10,
        # For any optimizer: weight_decay applies to matrices and filters; gradient_clip_norm=0 disables clipping; the weights
        # are updated every gradient_accumulation_steps steps, as with a batch that many times as large.
        'weight_decay': 0.0,
        'gradient_clip_norm': 0.0,
        'gradient_accumulation_steps': 1,
        # If not 0, such as 0.999: moving averages of the weights are used for evaluation, prediction and export.
        'ema_decay': 0.0,
        # Augmentation of training images, the feature image: mirrored; shifted by up to so many pixels; cropped to at least
        # this share of the area; rotated by up to so many degrees; a square of so many pixels blanked; brightness, contrast
        # and saturation multiplied by up to 1 plus or minus this. See common/ops/augmentation.py.
        'augment_flip': False,
        'augment_shift': 0,
        'augment_crop': 1.0,
        'augment_rotate': 0.0,
        'augment_cutout': 0,
        'augment_color': 0.0,
        # Training targets of classifiers: images are mixed with shares from Beta(mixup_alpha, mixup_alpha); a share of each
        # target is spread over all classes. See common/ops/mixup.py and common/ops/classification.py.
        'mixup_alpha': 0.0,
        'label_smoothing': 0.0,
    }
)

# What a training may resume with another value of: --override_hparams. A model adds its own by OVERRIDABLE_HPARAMS.
OVERRIDABLE = (
    'batch_size',
    'eval_batch_size',
    'class_weights',
    'learning_rate',
    'learning_rate_schedule',
    'warmup_steps',
    'decay_steps',
    'decay_rate',
    'piecewise_boundaries',
    'piecewise_factors',
    'initial_lr_factor',
    'cycle_steps',
    'warmup_fraction',
    'weight_decay',
    'gradient_clip_norm',
    'augment_flip',
    'augment_shift',
    'augment_crop',
    'augment_rotate',
    'augment_cutout',
    'augment_color',
    'mixup_alpha',
    'label_smoothing',
)

# Old names in the files of older runs. A module may define hyper-parameters of these names for itself.
RENAMED: Mapping[str, str] = types.MappingProxyType(
    {'low_factor': 'initial_lr_factor', 'rise_share': 'warmup_fraction', 'max_shift': 'augment_shift'}
)

# The maximum of any integer, and the minima of the numbers above. Models and datasets check their own hyper-parameters.
MAXIMUM = 2**31 - 1
MINIMUM: Mapping[str, int] = types.MappingProxyType(
    {
        'train_steps': 0,
        'num_epochs': 0,
        'batch_size': 1,
        'eval_batch_size': 1,
        'shuffle_buffer': 1,
        'learning_rate': 0,
        'warmup_steps': 0,
        'decay_steps': 1,
        'decay_rate': 0,
        'initial_lr_factor': 0,
        'cycle_steps': 1,
        'warmup_fraction': 0,
        'momentum': 0,
        'adam_beta1': 0,
        'adam_beta2': 0,
        'adam_epsilon': 0,
        'adagrad_initial_accumulator': 0,
        'ftrl_l1': 0,
        'ftrl_l2': 0,
        'rmsprop_decay': 0,
        'rmsprop_epsilon': 0,
        'weight_decay': 0,
        'gradient_clip_norm': 0,
        'gradient_accumulation_steps': 1,
        'ema_decay': 0,
        'augment_shift': 0,
        'augment_crop': 0,
        'augment_rotate': 0,
        'augment_cutout': 0,
        'augment_color': 0,
        'mixup_alpha': 0,
        'label_smoothing': 0,
    }
)
