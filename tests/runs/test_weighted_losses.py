"""Runs of older versions, whose evaluations have weighted losses."""

import pytest

from estimator_trainer.common.files import write_json
from estimator_trainer.common.options.table import Options
from estimator_trainer.common.runs import weighted_losses
from estimator_trainer.common.storage.metrics import add_metrics
from tests.shared import refused

OLD = {'class_weights': [1.0, 5.0]}


def start(directory, hparams, is_evaluated=True):
    write_json(str(directory / 'hparams.json'), hparams)
    if is_evaluated:
        add_metrics(str(directory), {'global_step': 1, 'eval': {'loss': 3.0}})
    return str(directory)


@pytest.mark.parametrize('changes', [{'best_metric': 'loss:min'}, {'early_stopping_patience': 2}])
def test_losses_of_two_meanings_are_not_compared(tmp_path, changes):
    assert refused(weighted_losses.check, start(tmp_path, OLD), Options(**changes)) == (
        'class_weights=[1.0,5.0]: the losses of later evaluations are not weighted, unlike those of earlier ones: compare '
        'another metric, such as --best_metric=accuracy:max, or start over with --overwrite'
    )


@pytest.mark.parametrize('changes', [{}, {'best_metric': 'accuracy:max', 'early_stopping_patience': 2}])
def test_a_run_that_compares_no_losses_is_warned(tmp_path, caplog, changes):
    weighted_losses.check(start(tmp_path, OLD), Options(**changes))
    assert len(caplog.messages) == 1 and caplog.messages[0].endswith('not weighted, unlike those of earlier ones.')


@pytest.mark.parametrize(
    'hparams, is_evaluated', [({**OLD, 'oversample': False}, True), ({'class_weights': [1.0]}, True), ({}, True), (OLD, False)]
)
def test_other_runs_go_on(tmp_path, caplog, hparams, is_evaluated):
    weighted_losses.check(start(tmp_path, hparams, is_evaluated), Options(early_stopping_patience=2))
    assert not caplog.messages
