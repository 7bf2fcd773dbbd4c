"""Warnings of what Estimator left unsaid."""

import logging


def warn(text: str, *values: object) -> None:
    logging.getLogger('tensorflow').warning(text, *values)
