"""tf.contrib.rnn: the cells and functions that tf.nn lacks, with the variables' names of TensorFlow 1."""

from tf_estimator.tf1.rnn.base import LSTMStateTuple
from tf_estimator.tf1.rnn.bidirectional import stack_bidirectional_dynamic_rnn, stack_bidirectional_rnn
from tf_estimator.tf1.rnn.block import CudnnCompatibleLSTMCell, LSTMBlockCell, LSTMBlockFusedCell, TimeReversedFusedRNN
from tf_estimator.tf1.rnn.convolutional import Conv1DLSTMCell, Conv2DLSTMCell, Conv3DLSTMCell, ConvLSTMCell
from tf_estimator.tf1.rnn.dense import Linear, linear
from tf_estimator.tf1.rnn.grid import GridLSTMCell, TimeFreqLSTMCell
from tf_estimator.tf1.rnn.grus import CudnnCompatibleGRUCell, GRUBlockCell, GRUBlockCellV2, SRUCell, UGRNNCell
from tf_estimator.tf1.rnn.independent import IndRNNCell, IndyGRUCell, IndyLSTMCell
from tf_estimator.tf1.rnn.lstms import CoupledInputForgetGateLSTMCell, GLSTMCell, LayerNormBasicLSTMCell, NASCell
from tf_estimator.tf1.rnn.phased import PhasedLSTMCell
from tf_estimator.tf1.rnn.wrappers import (
    AttentionCellWrapper,
    EmbeddingWrapper,
    HighwayWrapper,
    InputProjectionWrapper,
    OutputProjectionWrapper,
)

__all__ = [
    'AttentionCellWrapper',
    'Conv1DLSTMCell',
    'Conv2DLSTMCell',
    'Conv3DLSTMCell',
    'ConvLSTMCell',
    'CoupledInputForgetGateLSTMCell',
    'CudnnCompatibleGRUCell',
    'CudnnCompatibleLSTMCell',
    'EmbeddingWrapper',
    'GLSTMCell',
    'GRUBlockCell',
    'GRUBlockCellV2',
    'GridLSTMCell',
    'HighwayWrapper',
    'IndRNNCell',
    'IndyGRUCell',
    'IndyLSTMCell',
    'InputProjectionWrapper',
    'LSTMBlockCell',
    'LSTMBlockFusedCell',
    'LSTMStateTuple',
    'LayerNormBasicLSTMCell',
    'Linear',
    'NASCell',
    'OutputProjectionWrapper',
    'PhasedLSTMCell',
    'SRUCell',
    'TimeFreqLSTMCell',
    'TimeReversedFusedRNN',
    'UGRNNCell',
    'linear',
    'stack_bidirectional_dynamic_rnn',
    'stack_bidirectional_rnn',
]
