"""The framework's hyper-parameters, one entry each. A model, a dataset, a set and --hparams may each override the defaults."""

from collections.abc import Mapping
import types
from typing import Any, NamedTuple

MAXIMUM = 2**31 - 1  # Of any integer.
MAX_FLOAT = 3.4e38  # Of any float: nearly float32's.


class HParam(NamedTuple):
    """An entry of the table.

    Attributes:
      default: also determines the type.
      help: one line.
      minimum, maximum, above, below: bounds of a number, or of each item of a list, the latter two exclusive; models and
        datasets check their own hyper-parameters.
      choices: the values of a text; empty if any goes.
      may_change: whether --override_hparams may change it on resuming; models add their own by OVERRIDABLE_HPARAMS.
      by_name: whether a dict {name: number} may replace the list.
      words: texts that may replace the value.
      only_with: a hyper-parameter that chooses whether this one counts, and the choices with which it does.
    """

    default: Any
    help: str
    minimum: float | None = None
    may_change: bool = False
    maximum: float | None = None
    above: float | None = None
    below: float | None = None
    by_name: bool = False
    words: tuple[str, ...] = ()
    only_with: tuple[str, ...] = ()
    choices: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The help, after the choices with which the hyper-parameter counts."""
        return ': '.join([*filter(None, [', '.join(self.only_with[1:])]), self.help])


TABLE: Mapping[str, HParam] = types.MappingProxyType(
    {
        # Length of the run.
        'train_steps': HParam(0, 'The step at which training ends; with 0, num_epochs decides. Has its own flag.', minimum=0),
        'num_epochs': HParam(10.0, 'The epochs after which training ends. Has its own flag.', minimum=0),
        'min_steps': HParam(
            0, 'The least number of steps, unless train_steps is set; setting num_epochs alone resets it.', minimum=0
        ),
        # Input.
        'train_split': HParam('train', 'The split to train on.'),
        'exclude': HParam(
            '',
            'A CSV file of training records to leave out, such as suspects.csv; those with a label in the column corrected are '
            'kept, with that label. Has its own flag.',
        ),
        'folds': HParam(
            0, 'The number of parts of the training data, one of which is the split eval; 0 does not divide it.', minimum=0
        ),
        'fold': HParam(1, 'The part to evaluate on; the first is 1. --folds trains a run for each.', minimum=1),
        'batch_size': HParam(
            128, 'Examples per step, over all towers and tasks; with parameter servers, per task.', minimum=1, may_change=True
        ),
        'eval_batch_size': HParam(1000, 'Batch size in evaluation and prediction.', minimum=1, may_change=True),
        'shuffle_buffer': HParam(
            10000,
            'Records shuffled together, at most 256 MB of a stream; a whole epoch is shuffled uniformly if it fits.',
            minimum=1,
        ),
        'cache': HParam(
            True, 'Keep the training records in memory if they take at most 512 MB and a quarter of the available memory.'
        ),
        'group_by_length': HParam(False, 'Batch examples of similar length, to reduce padding.'),
        'class_weights': HParam(
            [1.0],
            'Weights of the classes in the loss: balanced, which is examples / (classes * examples of the class); by '
            'name as in {cat:2,dog:1}, the others 1; or a list of all, in their order.',
            minimum=0,
            may_change=True,
            by_name=True,
            words=('balanced',),
        ),
        'decision_threshold': HParam(
            0.0,
            'Of two classes: predict the second one from this probability on; best is that of the best F1 in the evaluation of '
            'the checkpoint; 0 predicts the more probable one. Evaluation has the metrics at 0.5 and at the best.',
            minimum=0,
            may_change=True,
            below=1,
            words=('best',),
        ),
        'oversample': HParam(
            False, 'Draw all classes equally often in an epoch of the same size: examples of rare ones repeat, others pause.'
        ),
        'loss_weights': HParam(
            [1.0],
            'Weights of the losses of several targets, by name as in {price:2,sold:1}, the others 1; or a list in their order.',
            minimum=0,
            may_change=True,
            by_name=True,
        ),
        # Learning rate; see common/training/learning_rate.py.
        'learning_rate': HParam(
            0.001,
            'The base learning rate, which the schedule scales.',
            minimum=0,
            may_change=True,
            only_with=('learning_rate_schedule',),
        ),
        'learning_rate_schedule': HParam(
            'constant',
            'constant; exponential; piecewise; cosine, to 0 at the end; cyclic, up and down; one_cycle, up, then to 0.',
            may_change=True,
            choices=('constant', 'exponential', 'piecewise', 'cosine', 'cyclic', 'one_cycle'),
        ),
        'warmup_steps': HParam(0, 'Steps over which a factor on the rate rises linearly to 1.', minimum=0, may_change=True),
        'decay_steps': HParam(
            1000,
            'the rate decays continuously, by decay_rate over this many steps.',
            minimum=1,
            may_change=True,
            only_with=('learning_rate_schedule', 'exponential'),
        ),
        'decay_rate': HParam(
            0.9, 'see decay_steps.', minimum=0, may_change=True, only_with=('learning_rate_schedule', 'exponential')
        ),
        'piecewise_boundaries': HParam(
            [1000, 2000],
            'steps from which the factors apply.',
            minimum=0,
            may_change=True,
            only_with=('learning_rate_schedule', 'piecewise'),
        ),
        'piecewise_factors': HParam(
            [0.1, 0.01],
            'factors of learning_rate from each boundary on.',
            minimum=0,
            may_change=True,
            only_with=('learning_rate_schedule', 'piecewise'),
        ),
        'initial_lr_factor': HParam(
            0.04,
            'the starting rate, as a share of learning_rate.',
            minimum=0,
            may_change=True,
            maximum=1,
            only_with=('learning_rate_schedule', 'cyclic', 'one_cycle'),
        ),
        'cycle_steps': HParam(
            1000, 'steps of a cycle.', minimum=1, may_change=True, only_with=('learning_rate_schedule', 'cyclic')
        ),
        'warmup_fraction': HParam(
            0.3,
            'the share of the run in which the rate rises.',
            minimum=0,
            may_change=True,
            maximum=1,
            only_with=('learning_rate_schedule', 'one_cycle'),
        ),
        'learning_rate_factors': HParam(
            [], 'Items REGULAR_EXPRESSION:FACTOR multiply the rates of variables whose names match; the first match counts.'
        ),
        # Optimizer; see common/training/optimizer.py.
        'optimizer': HParam(
            'adam',
            'adam, adamw, adagrad, ftrl (with a constant rate), momentum, rmsprop or sgd.',
            choices=('adam', 'adamw', 'adagrad', 'ftrl', 'momentum', 'rmsprop', 'sgd'),
        ),
        'momentum': HParam(
            0.9, 'decay of the accumulated gradients.', minimum=0, maximum=1, only_with=('optimizer', 'momentum')
        ),
        'adam_beta1': HParam(
            0.9, 'decay of the mean of gradients.', minimum=0, below=1, only_with=('optimizer', 'adam', 'adamw')
        ),
        'adam_beta2': HParam(
            0.999, 'decay of the mean of squared gradients.', minimum=0, below=1, only_with=('optimizer', 'adam', 'adamw')
        ),
        'adam_epsilon': HParam(1e-8, 'added to the denominator.', minimum=0, only_with=('optimizer', 'adam', 'adamw')),
        'adagrad_initial_accumulator': HParam(
            0.1, 'initial value of the sums of squared gradients.', above=0, only_with=('optimizer', 'adagrad')
        ),
        'ftrl_l1': HParam(0.0, 'strength of the L1 regularization.', minimum=0, only_with=('optimizer', 'ftrl')),
        'ftrl_l2': HParam(0.0, 'strength of the L2 regularization.', minimum=0, only_with=('optimizer', 'ftrl')),
        'rmsprop_decay': HParam(
            0.9, 'decay of the mean of squared gradients.', minimum=0, maximum=1, only_with=('optimizer', 'rmsprop')
        ),
        'rmsprop_epsilon': HParam(
            1e-10, 'added to the mean of squares, under the root.', minimum=0, only_with=('optimizer', 'rmsprop')
        ),
        'weight_decay': HParam(
            0.0, 'For matrices and filters: decoupled with adamw, L2 with the others.', minimum=0, may_change=True
        ),
        'gradient_clip_norm': HParam(
            0.0, 'The largest global norm of the gradients; 0 disables clipping.', minimum=0, may_change=True
        ),
        'gradient_accumulation_steps': HParam(
            1, 'Steps whose gradients are averaged for one update, as for a batch this many times larger.', minimum=1
        ),
        'ema_decay': HParam(
            0.0,
            'Decay of moving averages of the weights, such as 0.999, for evaluation, prediction and export; 0 disables them.',
            minimum=0,
            below=1,
        ),
        'swa_start': HParam(
            0,
            'The step from which weights are averaged equally, for evaluation, prediction and export, as at the end of a run '
            'with a constant or cyclic rate; 0 disables it.',
            minimum=0,
        ),
        'swa_every': HParam(0, 'Steps between the weights that swa_start averages; 0 is an epoch.', minimum=0),
        # Augmentation of training images, the feature `image`; see common/ops/random.py.
        'augment_flip': HParam(False, 'Mirror half of the training images, left to right.', may_change=True),
        'augment_shift': HParam(
            0, 'Shift training images by up to this many pixels, in both directions.', minimum=0, may_change=True
        ),
        'augment_crop': HParam(
            1.0,
            'Crop training images to at least this share of their area, and resize them; 1 disables it.',
            may_change=True,
            above=0,
            maximum=1,
        ),
        'augment_rotate': HParam(
            0.0, 'Rotate training images by up to this many degrees, either way.', minimum=0, may_change=True, maximum=180
        ),
        'augment_cutout': HParam(
            0, 'Blank a square of training images whose side has this many pixels.', minimum=0, may_change=True
        ),
        'augment_color': HParam(
            0.0,
            'Scale brightness, contrast and, in color, saturation of training images by factors within 1 plus or minus this.',
            minimum=0,
            may_change=True,
            maximum=1,
        ),
        # Training targets of classifiers; see common/ops/random.py and common/ops/classification.py.
        'mixup_alpha': HParam(
            0.0,
            'Mix pairs of training images and their labels, with shares from Beta(alpha, alpha); 0 disables it.',
            minimum=0,
            may_change=True,
        ),
        'label_smoothing': HParam(
            0.0, 'The share of each training target that is spread over all classes.', minimum=0, may_change=True, below=1
        ),
    }
)
DEFAULTS: Mapping[str, Any] = types.MappingProxyType({name: entry.default for name, entry in TABLE.items()})

# Hyper-parameters that included datasets gained later, with what older runs did.
ADDED: Mapping[str, Any] = types.MappingProxyType(
    {
        'table_file': '',
        'missing': (),
        'decimal': '',
        'dates': '',
        'tokens': 'words',
        'max_length': 400,
        'max_subwords': 4000,
        'embeddings': '',
        'group': '',
        'target': '',
        'other_features': False,
        'embedding_size': 8,
    }
)
# Old names in the files of older runs. A module may define its own hyper-parameters of these names.
RENAMED: Mapping[str, str] = types.MappingProxyType(
    {'low_factor': 'initial_lr_factor', 'rise_share': 'warmup_fraction', 'max_shift': 'augment_shift'}
)
