"""Tracks a run by MLflow: the server and the experiment are those of its environment variables MLFLOW_*."""

from collections.abc import Mapping
import fcntl
import json
import logging
import os

import mlflow

from estimator_trainer.common.loggers.interface import Run

_STATUSES = {'finished': 'FINISHED', 'failed': 'FAILED', 'stopped': 'KILLED'}
_MAX_TAG = 5000
_MAX_PARAM = 6000  # Longer ones are cut.
_RETRIES = 'MLFLOW_HTTP_REQUEST_MAX_RETRIES'


class Logger:
    """See `interface.Logger`. Hyper-parameters are parameters, flags tags; the trials of a sweep have a parent run."""

    def start(self, run: Run) -> str:
        logging.getLogger('urllib3').setLevel(logging.ERROR)  # It warns of each retry.
        is_set = _RETRIES in os.environ
        os.environ.setdefault(_RETRIES, '2')  # The default takes minutes to say that there is no server.
        try:
            return self._start(run)
        finally:
            if not is_set:
                del os.environ[_RETRIES]

    def _start(self, run):
        name = os.environ.get('MLFLOW_RUN_NAME') or run.name
        parent = _parent(run.group) if run.group and not run.id else None
        active = mlflow.start_run(run_id=run.id, run_name=None if run.id else name, parent_run_id=parent)
        params = {name: _text(value) for name, value in run.hparams.items()}
        found = active.data.params
        mlflow.log_params({name: text for name, text in params.items() if name not in found})
        # MLflow refuses to change a parameter.
        changed = {name: text for name, text in params.items() if found.get(name, text) not in (text, text[:_MAX_PARAM])}
        tags = {
            'output_dir': run.output_dir,
            'mlflow.source.name': 'estimator-trainer',
            **{f'flags.{name}': _text(value) for name, value in run.flags.items()},
            **{f'changed.{name}': text for name, text in changed.items()},
        }
        mlflow.set_tags({name: text[:_MAX_TAG] for name, text in tags.items()})
        return active.info.run_id

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        mlflow.log_metrics(metrics, step=step)

    def end(self, state: str, reason: str, artifacts: Mapping[str, str]) -> None:
        mlflow.set_tags({'reason': reason[:_MAX_TAG], 'best_checkpoint': artifacts.get('best_checkpoint', '')})
        try:
            if 'report' in artifacts:
                mlflow.log_artifact(artifacts['report'])
        finally:
            mlflow.end_run(_STATUSES[state])


def _text(value):
    return value if isinstance(value, str) else json.dumps(value)


def _parent(group):
    """Returns the id of the run of a sweep, which its first trial makes, and keeps in the sweep's directory."""
    with open(os.path.join(group, 'mlflow_run.txt'), 'a+', encoding='utf-8') as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        if not (found := file.read()):
            with mlflow.start_run(run_name='/'.join(group.split('/')[-2:]), tags={'output_dir': group}) as run:
                found = run.info.run_id
            file.write(found)
        return found
