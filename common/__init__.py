"""The framework: modules that all code may import, and the wings; pyproject.toml lists the allowed imports."""

if __name__ == 'common':  # A former name; a second copy of the code would differ in its classes.
    raise ImportError(f'{__name__} is now estimator_trainer.{__name__}', name=__name__)
