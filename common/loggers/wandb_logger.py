"""Tracks a run by Weights & Biases: project, mode and the rest are those of its environment variables WANDB_*."""

from collections.abc import Mapping
import os
import uuid

import wandb

from estimator_trainer.common.loggers.interface import Run


class Logger:
    """See `interface.Logger`. Hyper-parameters and flags are the config; the trials of a sweep are a group."""

    def start(self, run: Run) -> str:
        group = '/'.join(run.group.split('/')[-2:])
        self._run = wandb.init(
            id=run.id or os.environ.get('WANDB_RUN_ID') or uuid.uuid4().hex[:16],
            name=os.environ.get('WANDB_NAME') or run.name,
            group=os.environ.get('WANDB_RUN_GROUP') or group or None,
            config={**run.hparams, 'output_dir': run.output_dir, 'flags': dict(run.flags)},
            resume='allow',
            allow_val_change=True,
            settings=wandb.Settings(console='off'),
        )
        self._run.define_metric('global_step', hidden=True)
        self._run.define_metric('*', step_metric='global_step')
        return self._run.id

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        self._run.log({'global_step': step, **metrics})

    def end(self, state: str, reason: str, artifacts: Mapping[str, str]) -> None:
        self._run.summary.update({'state': state, 'reason': reason, 'best_checkpoint': artifacts.get('best_checkpoint', '')})
        if report := artifacts.get('report'):
            self._run.save(report, base_path=os.path.dirname(report), policy='now')
        self._run.finish(exit_code=0 if state == 'finished' else 1)
