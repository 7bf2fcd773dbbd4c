"""What other tools call flags and hyper-parameters, for suggestions."""

from collections.abc import Mapping
import types

ELSEWHERE: Mapping[str, str] = types.MappingProxyType(
    {
        **dict.fromkeys(
            ['epochs', 'epoch', 'num_epoch', 'n_epochs', 'nb_epoch', 'max_epochs', 'num_train_epochs'], 'num_epochs'
        ),
        **dict.fromkeys(
            ['steps', 'step', 'max_steps', 'num_steps', 'num_train_steps', 'max_iter', 'iterations'], 'train_steps'
        ),
        **dict.fromkeys(['lr', 'eta', 'rate', 'initial_lr', 'base_lr', 'init_lr'], 'learning_rate'),
        **dict.fromkeys(
            ['lr_schedule', 'scheduler', 'lr_scheduler', 'lr_scheduler_type', 'lr_policy'], 'learning_rate_schedule'
        ),
        **dict.fromkeys(['bs', 'batch', 'train_batch_size', 'per_device_train_batch_size'], 'batch_size'),
        **dict.fromkeys(['test_batch_size', 'val_batch_size', 'per_device_eval_batch_size'], 'eval_batch_size'),
        **dict.fromkeys(['opt', 'optim'], 'optimizer'),
        'class_weight': 'class_weights',
        **dict.fromkeys(['oversampling', 'balance', 'resample'], 'oversample'),
        **dict.fromkeys(['threshold', 'cutoff'], 'decision_threshold'),
        **dict.fromkeys(['swa', 'swa_epoch_start'], 'swa_start'),
        **dict.fromkeys(['wd', 'l2', 'decay'], 'weight_decay'),
        **dict.fromkeys(['dropout', 'dropout_rate', 'drop'], 'drop_rate'),
        **dict.fromkeys(['warmup', 'num_warmup_steps'], 'warmup_steps'),
        **dict.fromkeys(
            ['clip', 'clip_norm', 'grad_clip', 'clip_grad', 'clip_grad_norm', 'max_grad_norm'], 'gradient_clip_norm'
        ),
        **dict.fromkeys(['accumulation_steps', 'grad_accum', 'accumulate_grad_batches'], 'gradient_accumulation_steps'),
        **dict.fromkeys(['hidden', 'hidden_size', 'hidden_layers', 'layers', 'units'], 'hidden_units'),
        **dict.fromkeys(
            ['model_dir', 'job_dir', 'log_dir', 'logdir', 'save_dir', 'checkpoint_dir', 'ckpt_dir', 'out'], 'output_dir'
        ),
        **dict.fromkeys(['out_dir', 'output', 'output_path', 'export_dir', 'train_dir', 'workdir', 'work_dir'], 'output_dir'),
        **dict.fromkeys(['data_path', 'data_root', 'dataset_dir', 'dataset_path'], 'data_dir'),
        **dict.fromkeys(['arch', 'net', 'network', 'model_name'], 'model'),
        **dict.fromkeys(['data', 'dataset_name'], 'dataset'),
        **dict.fromkeys(['mode', 'task', 'action', 'command'], 'schedule'),
        **dict.fromkeys(['random_seed', 'rng_seed'], 'seed'),
        **dict.fromkeys(['gpus', 'ngpus', 'num_gpu', 'n_gpu'], 'num_gpus'),
        **dict.fromkeys(['patience', 'early_stopping'], 'early_stopping_patience'),
        **dict.fromkeys(['save_steps', 'save_every', 'checkpoint_every', 'save_freq'], 'save_checkpoints_steps'),
        **dict.fromkeys(['log_steps', 'log_every', 'log_interval', 'logging_steps', 'print_freq'], 'save_summary_steps'),
        **dict.fromkeys(['eval_every', 'eval_interval', 'eval_freq'], 'eval_every_steps'),
        **dict.fromkeys(['pretrained', 'init_checkpoint', 'load', 'load_weights', 'weights', 'warm_start'], 'warm_start_from'),
        **dict.fromkeys(['params', 'hparam', 'hp', 'hyperparams', 'hyper_params', 'hyperparameters'], 'hparams'),
        **dict.fromkeys(['config', 'config_file', 'hparams_file'], 'hparams_set'),
        **dict.fromkeys(['fp16', 'amp', 'mixed_precision'], 'precision=float16'),
        **dict.fromkeys(['eval', 'test', 'validate', 'evaluation'], 'schedule=evaluate'),
        **dict.fromkeys(['infer', 'inference', 'prediction'], 'schedule=predict'),
        **dict.fromkeys(['fit', 'training'], 'schedule=train_and_evaluate'),
        'bf16': 'precision=bfloat16',
        **dict.fromkeys(['verbose', 'debug'], 'verbosity=debug'),
        **dict.fromkeys(['cpus', 'threads', 'num_threads'], 'intra_op_threads'),
        **dict.fromkeys(['csv', 'csv_file', 'file', 'data_file', 'train_file'], 'table_file'),
        'log_level': 'verbosity',
    }
)
