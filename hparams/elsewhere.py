"""The names that other tools have for flags and hyper-parameters, for suggestions."""

from collections.abc import Mapping
import types

_NAMES = {  # What is meant, a name or NAME=VALUE: the names elsewhere.
    'num_epochs': 'epochs epoch num_epoch n_epochs nb_epoch max_epochs num_train_epochs',
    'train_steps': 'steps step max_steps num_steps num_train_steps max_iter iterations',
    'learning_rate': 'lr eta rate initial_lr base_lr init_lr',
    'learning_rate_schedule': 'lr_schedule scheduler lr_scheduler lr_scheduler_type lr_policy',
    'batch_size': 'bs batch train_batch_size per_device_train_batch_size',
    'eval_batch_size': 'test_batch_size val_batch_size per_device_eval_batch_size',
    'optimizer': 'opt optim',
    'class_weights': 'class_weight',
    'oversample': 'oversampling balance resample',
    'decision_threshold': 'threshold cutoff',
    'swa_start': 'swa swa_epoch_start',
    'weight_decay': 'wd l2 decay',
    'drop_rate': 'dropout dropout_rate drop',
    'warmup_steps': 'warmup num_warmup_steps',
    'gradient_clip_norm': 'clip clip_norm grad_clip clip_grad clip_grad_norm max_grad_norm',
    'gradient_accumulation_steps': 'accumulation_steps grad_accum accumulate_grad_batches',
    'hidden_units': 'hidden hidden_size hidden_layers layers units',
    'output_dir': (
        'model_dir job_dir log_dir logdir save_dir checkpoint_dir ckpt_dir out out_dir output output_path export_dir train_dir '
        'workdir work_dir'
    ),
    'data_dir': 'data_path data_root dataset_dir dataset_path',
    'model': 'arch net network model_name',
    'dataset': 'data dataset_name',
    'schedule': 'mode task action command',
    'seed': 'random_seed rng_seed',
    'num_gpus': 'gpus ngpus num_gpu n_gpu',
    'early_stopping_patience': 'patience early_stopping',
    'save_checkpoints_steps': 'save_steps save_every checkpoint_every save_freq',
    'save_summary_steps': 'log_steps log_every log_interval logging_steps print_freq',
    'eval_every_steps': 'eval_every eval_interval eval_freq',
    'warm_start_from': 'pretrained init_checkpoint load load_weights weights warm_start',
    'hparams': 'params hparam hp hyperparams hyper_params hyperparameters',
    'hparams_set': 'config config_file hparams_file',
    'precision=float16': 'fp16 amp mixed_precision',
    'schedule=evaluate': 'eval test validate evaluation',
    'schedule=predict': 'infer inference prediction',
    'schedule=train_and_evaluate': 'fit training',
    'precision=bfloat16': 'bf16',
    'verbosity=debug': 'verbose debug',
    'intra_op_threads': 'cpus threads num_threads',
    'table_file': 'csv csv_file file data_file train_file',
    'verbosity': 'log_level',
}
ELSEWHERE: Mapping[str, str] = types.MappingProxyType(
    {name: meant for meant, names in _NAMES.items() for name in names.split()}
)
