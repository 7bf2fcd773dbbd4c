"""Trainings of Estimator that resume bit for bit, once `enable` has been called; see docs/porting.md."""

import functools


@functools.cache  # Once.
def enable() -> None:
    """Makes each Estimator.train from now on resume exactly."""
    from tf_estimator.exact import session, training

    prepare()
    for module in (session, training):
        module.mend()


@functools.cache  # Once.
def prepare() -> None:
    """Makes the ops and datasets that are created from now on exact in graphs for which `keys.begin` is called."""
    from tf_estimator.exact import datasets, iterators, random_ops, repeats

    for module in (random_ops, datasets, repeats, iterators):
        module.mend()
