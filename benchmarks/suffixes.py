"""Writes texts in an invented language, in which subwords matter: the class is the suffix of a word that rarely occurs twice.

    python -m benchmarks.suffixes FILE COUNT

Each text has six words: five of 200 frequent ones, and a random stem with the suffix of the class, at a random place.
"""

import random
import sys

_SYLLABLES = 'ba ko ti lu re sa mi no du ga pe vi fo zu'.split()
_SUFFIXES = {'plural': 'ten', 'past': 'ler', 'person': 'mur'}


def write(path: str, count: int) -> None:
    """Writes a file of --dataset=text."""
    chance = random.Random(0)

    def stem():
        return ''.join(chance.choices(_SYLLABLES, k=chance.randint(2, 4)))

    frequent = [stem() for _ in range(200)]
    with open(path, 'w', encoding='utf-8') as file:
        for number in range(count):
            label = [*_SUFFIXES][number % len(_SUFFIXES)]
            words = chance.choices(frequent, k=5)
            words.insert(chance.randint(0, 5), stem() + _SUFFIXES[label])
            print(label, ' '.join(words), sep='\t', file=file)


if __name__ == '__main__':
    write(sys.argv[1], int(sys.argv[2]))
