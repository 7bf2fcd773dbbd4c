"""Writes sentences with tagged names of persons, places and firms, and dates, made up by a seed.

    python -m benchmarks.tagged_sentences DIRECTORY COUNT

train.conll has COUNT sentences, and eval.conll half as many. The names in the latter are others, made of the same syllables,
whatever they name: only the words around a name tell what it is; in four of the 21 templates, not even these.
"""

import os
import random
import sys

_SYLLABLES = 'bar bel cor dan den fal gor hal ker lan lin mar mon nor ral ros sel tan tor val ver win'.split()
_ENDINGS = 'a en in o on or us y'.split()
_MONTHS = 'January February March April May June July August September October November December'.split()
_ADVERBS = 'often never already later quietly suddenly hardly still'.split()
_TEMPLATES = [
    line.split()
    for line in """PER ADV met PER in LOC on DATE .
On DATE , PER left LOC for LOC .
PER , who grew up near LOC , ADV writes about ORG .
ORG hired PER in DATE .
The mayor of LOC , PER , ADV spoke with ORG .
Shares of ORG fell after PER resigned .
" We leave LOC , " said PER on DATE .
LOC lies north of LOC and has a bridge .
LOC ADV floods when the snow melts .
ORG builds ships in LOC , PER said .
PER laughed , and ADV told PER of the harbour at LOC .
Since DATE , trains from LOC to LOC stop at night .
PER and PER founded ORG , which ADV pays its debts .
The river flows past LOC , LOC and LOC .
In LOC , ORG and ORG ADV compete for orders .
ORG ADV sued ORG over a patent of PER .
Nobody remembers PER .
Nobody remembers LOC .
The letter mentions PER twice .
The letter mentions ORG twice .
Rain fell on DATE , and the harvest was lost .""".splitlines()
]


def write(directory: str, count: int) -> None:
    """Writes the files."""
    chance = random.Random(1)
    names = sorted({_name(chance) for _ in range(3000)})
    chance.shuffle(names)
    os.makedirs(directory, exist_ok=True)
    for split, size, known in (('train', count, names[::2]), ('eval', count // 2, names[1::2])):
        with open(os.path.join(directory, f'{split}.conll'), 'w', encoding='utf-8') as file:
            for _ in range(size):
                for word in chance.choice(_TEMPLATES):
                    for number, token in enumerate(_tokens(word, known, chance)):
                        tag = f'{"I" if number else "B"}-{word}' if word.isupper() and word != 'ADV' else 'O'
                        file.write(f'{token}\t{tag}\n')
                file.write('\n')


def _name(chance):
    return ''.join(chance.choice(_SYLLABLES) for _ in range(chance.choice([1, 2]))).capitalize() + chance.choice(_ENDINGS)


def _tokens(word, names, chance):
    """Returns the tokens that take the place of a word of a template."""
    if word == 'ADV':
        return [chance.choice(_ADVERBS)] if chance.random() < 0.5 else []
    if word == 'DATE':
        year = str(chance.randint(1950, 2030))
        return chance.choice(
            [[year], [chance.choice(_MONTHS), year], [str(chance.randint(1, 28)), chance.choice(_MONTHS), year]]
        )
    if word not in ('PER', 'LOC', 'ORG'):
        return [word]
    return [chance.choice(names) for _ in range(chance.choice([1, 1, 2]))]


if __name__ == '__main__':
    write(sys.argv[1], int(sys.argv[2]))
