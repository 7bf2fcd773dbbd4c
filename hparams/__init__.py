"""Hyper-parameters: their table, layers and sets."""

if __name__ == 'hparams':  # A former name; a second copy of the code would differ in its classes.
    raise ImportError(f'{__name__} is now estimator_trainer.{__name__}', name=__name__)
