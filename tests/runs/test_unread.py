"""Hyper-parameters of a module's own that nothing reads are refused."""

from tests import own_module

READERS = """
NAMES = ['read', 'parsed', 'evaluated', 'predicted', 'metric', 'beam', 'lost']
INFERENCE_HPARAMS = ['beam']


def get_params():
    return {'batch_size': 4, 'eval_batch_size': 4, **dict.fromkeys(NAMES, 0)}


_read, _parse, _model, _eval_metrics = read, parse, model, eval_metrics


def read(split, data_dir, params):
    params.read
    return _read(split, data_dir, params)


def parse(mode, params, record):
    if mode == tf.estimator.ModeKeys.EVAL:
        params['parsed']
    return _parse(mode, params, record)


def model(features, labels, mode, params):
    if mode == tf.estimator.ModeKeys.EVAL:
        params.evaluated
    if mode == tf.estimator.ModeKeys.PREDICT:
        params.predicted
    return _model(features, labels, mode, params)


def eval_metrics(features, labels, predictions, params):
    params.metric
    return _eval_metrics(features, labels, predictions, params)


"""


def test_only_what_no_function_reads_in_any_mode_is_refused():
    flags = ('--train_steps=1', '--schedule=train')
    names = ('read', 'parsed', 'evaluated', 'predicted', 'metric', 'beam')
    assert own_module.run(READERS, *flags, f'--hparams={",".join(f"{name}=1" for name in names)}')[:2] == (0, '')
    code, err, _ = own_module.run(READERS, *flags, '--hparams=read=1,evaluated=1,predicted=1,lost=2')
    assert (code, err) == (2, 'trainer.py: --hparams: lost=2 has no effect, as nothing reads it: omit it\n')
