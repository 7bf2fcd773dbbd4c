"""Loggers import large packages, at a low priority: on a loaded machine, only the limit of a test ends them."""

import pytest


@pytest.fixture(autouse=True)
def patient(monkeypatch):
    monkeypatch.setattr('estimator_trainer.common.monitoring.tracker._SECONDS', 1000)
