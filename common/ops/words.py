"""The vectors of words, which may start from pretrained ones."""

from collections.abc import Callable, Collection, Iterator
import contextlib
import contextvars
import dataclasses
from typing import Any

import tensorflow.compat.v1 as tf

from estimator_trainer.common.errors import UsageError
from estimator_trainer.common.word_vectors import FACTS, SCOPE, WordVectors
from estimator_trainer.hparams.build import HParams


@dataclasses.dataclass
class _Start:
    vectors: WordVectors
    given: Collection[str]
    is_used: bool = False


_start: contextvars.ContextVar[_Start | None] = contextvars.ContextVar('start', default=None)


def get_params() -> dict[str, Any]:
    """Returns the hyper-parameters of `table`, for the `get_params` of a model."""
    return {
        'embeddings': '',  # A file of pretrained word vectors as text: of word2vec, fastText (.vec) or GloVe.
    }


@contextlib.contextmanager
def starting_from(vectors: WordVectors | None, given: Collection[str]) -> Iterator[None]:
    """Within the block, `table` makes variables that start from vectors, if there are any.

    Args:
      given: the names of the hyper-parameters that the user gave.

    Raises:
      UsageError: the block makes no `table`.
    """
    start = vectors and _Start(vectors, given)
    token = _start.set(start)
    try:
        yield
    finally:
        _start.reset(token)
    if start and not start.is_used:
        raise UsageError('embeddings: the model has no table of words for these features: omit it')


def table(params: HParams, name: str, size: int, initializer: Callable[..., tf.Tensor], size_name: str = '') -> tf.Variable:
    """Returns the variable of the vectors of words, float32 [vocabulary_size, size], by the ids of a dataset's `text`.

    With pretrained vectors, the size is theirs, and the words that have one start from it.

    Args:
      params: hyper-parameters; their metadata has the 'vocabulary_size', of which the 'vocabulary' has the last ids.
      name: of the variable.
      size: of a vector.
      initializer: of the vectors, but for pretrained ones.
      size_name: the hyper-parameter that gives the size, if one does.

    Raises:
      UsageError: the user gave another size than that of the pretrained vectors.
    """
    count, start = params.metadata['vocabulary_size'], _start.get()
    size = params.metadata.get(FACTS, {}).get('size', size)
    if not start:
        return tf.get_variable(name, [count, size], initializer=initializer)
    if size_name in start.given and params[size_name] != size:
        raise UsageError(
            f'{size_name}={params[size_name]}: the vectors of embeddings={params.embeddings} have {size} numbers: omit it'
        )
    start.is_used = True
    vectors, first = start.vectors, count - len(params.metadata['vocabulary'])

    def initial(shape, dtype):
        with tf.name_scope(SCOPE):
            return tf.tensor_scatter_nd_update(initializer(shape, dtype), vectors.places[:, None] + first, vectors.values)

    return tf.get_variable(name, [count, size], initializer=initial)
