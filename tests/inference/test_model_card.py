"""The model card of an exported model, to be read by people."""

from common.inference.model_card import to_markdown
from hparams.build import make_hparams

CARD = {
    'global_step': 60,
    'hparams': dict(make_hparams('m', {'filters': [8, 16], 'learning_rate': 0.5}, 'my|data', {'raw_dir': 'a_b/*c*'})),
    'metrics': {'eval': {'accuracy': 0.9876543, 'loss': 2.0}, 'test': {'loss': float('nan')}},
    'data_sha256': 'ab12',
    'versions': {'python': '3.11.7'},
}


def test_a_card_has_all_that_identifies_a_model():
    assert (
        to_markdown(CARD, ['cat', 'night owl\n<b>'])
        == r"""# m, trained on my\|data

|  |  |
| --- | --- |
| Global step | 60 |
| 2 classes | cat, night owl \<b\> |
| SHA-256 of the training data | ab12 |

## Metrics

| metric | eval | test |
| --- | --- | --- |
| accuracy | 0.987654 |  |
| loss | 2 | nan |

## Hyper-parameters

Those that differ from the framework's defaults; model_card.json has all.

| name | value |
| --- | --- |
| model | m |
| dataset | my\|data |
| seed | 1 |
| learning\_rate | 0.5 |
| filters | \[8, 16\] |
| raw\_dir | a\_b/\*c\* |

## Versions

| package | version |
| --- | --- |
| python | 3.11.7 |
"""
    )


def test_a_card_says_what_is_unknown_and_shortens_many_classes():
    card = to_markdown({**CARD, 'metrics': {}, 'data_sha256': None}, [f'c{i}' for i in range(101)])
    assert 'None: this step was not evaluated.' in card and '| SHA-256 of the training data | unknown |' in card
    assert '| 101 classes | c0, c1,' in card and 'c99, ... |' in card and 'c100' not in card
