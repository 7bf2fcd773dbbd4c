"""Attention of tf.contrib.seq2seq: mechanisms, and the wrapper that gives a cell what they attend to."""

from tf_estimator.tf1.attention.mechanisms import (
    AttentionMechanism,
    BahdanauAttention,
    LuongAttention,
    _bahdanau_score,
    _BaseAttentionMechanism,
    _luong_score,
    _maybe_mask_score,
)
from tf_estimator.tf1.attention.monotonic import (
    BahdanauMonotonicAttention,
    LuongMonotonicAttention,
    hardmax,
    monotonic_attention,
    safe_cumprod,
)
from tf_estimator.tf1.attention.wrapper import AttentionWrapper, AttentionWrapperState, _compute_attention

__all__ = [
    'AttentionMechanism',
    'AttentionWrapper',
    'AttentionWrapperState',
    'BahdanauAttention',
    'BahdanauMonotonicAttention',
    'LuongAttention',
    'LuongMonotonicAttention',
    '_BaseAttentionMechanism',  # Programs use these private names of TensorFlow 1, too.
    '_bahdanau_score',
    '_compute_attention',
    '_luong_score',
    '_maybe_mask_score',
    'hardmax',
    'monotonic_attention',
    'safe_cumprod',
]
