"""Messages about flags speak of arguments in a Python program."""

import pytest

from estimator_trainer.common.commands.arguments_text import to_arguments


@pytest.mark.parametrize(
    'text, expected',
    [
        (
            'with --override_hparams=rate=0.5,units=[1,2], or --overwrite.',
            "override_hparams={'rate': 0.5, 'units': [1, 2]}, or overwrite=True.",
        ),
        ('use --override_hparams=batch_size=6 or 8', "use override_hparams={'batch_size': 6} or 8"),
        ('give --hparams=decimal=comma.', "give hparams={'decimal': 'comma'}."),
        ('--hparams=table_file=/a/b.csv: no such file', "hparams={'table_file': '/a/b.csv'}: no such file"),
        ('--hparams: rate=x must be a number', 'hparams: rate=x must be a number'),
        ('--overwrite: the run', 'overwrite: the run'),
        ('--overwrites --no-cache a--overwrite', 'overwrites no-cache a--overwrite'),
        ('with --warm_start_from=/a/model.ckpt-5, or', "with warm_start_from='/a/model.ckpt-5', or"),
        ('--steps_per_loop=0: raise it', 'steps_per_loop=0: raise it'),
    ],
)
def test_flags_become_arguments(text, expected):
    assert to_arguments(text).removeprefix('with ') == expected.removeprefix('with ')
