"""Loggers import large packages, which takes long on a loaded machine."""

import pytest


@pytest.fixture(autouse=True)
def patient(monkeypatch):
    monkeypatch.setattr('estimator_trainer.common.monitoring.tracker._SECONDS', 100)
