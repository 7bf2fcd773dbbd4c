"""Loggers import large packages, which takes long on a loaded machine."""

import pytest

from estimator_trainer.common.monitoring import tracker


@pytest.fixture(autouse=True)
def patient(monkeypatch):
    monkeypatch.setattr(tracker, '_SECONDS', 100)
