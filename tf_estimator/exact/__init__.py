"""Trainings of Estimator that resume bit for bit, once `enable` has been called; see docs/porting.md."""

import functools


@functools.cache  # Once.
def enable() -> None:
    """Makes each Estimator.train from now on resume exactly."""
    from tf_estimator.exact import datasets, iterators, random_ops, repeats, session, training

    for module in (random_ops, datasets, repeats, iterators, session, training):
        module.mend()
