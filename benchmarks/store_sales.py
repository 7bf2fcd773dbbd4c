"""Writes a table of daily sales of stores, with a trend, a weekly season and noise, whose best forecast is known by formula.

    python -m benchmarks.store_sales sales.csv

of 10 stores on 1,000 days. sales = level + trend · day + season of the weekday + NOISE · a standard normal number, with another
level, trend and season in each store. But for chance, no forecast has an RMSE below NOISE; `expected` has those of the two
baselines.
"""

import datetime
import math
import sys

import numpy as np

NOISE = 10.0
_FIRST = datetime.date(2022, 1, 3)
_SIZES = 10, 1000


def components(num_stores: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns levels [stores], trends per day [stores], and seasons [stores, 7] of Monday to Sunday."""
    random = np.random.RandomState(0)
    season = np.array([0, -10, 0, 10, 30, 50, -80]) + random.uniform(-15, 15, [num_stores, 7])
    return random.uniform(200, 800, num_stores), random.uniform(-0.05, 0.1, num_stores), season


def write(path: str, num_stores: int = _SIZES[0], num_days: int = _SIZES[1]) -> None:
    """Writes the table, a row for each store and day: date, store, sales."""
    random, parts = np.random.RandomState(1), components(num_stores)
    with open(path, 'w') as file:
        print('date,store,sales', file=file)
        for store, (level, trend, season) in enumerate(zip(*parts)):
            noise = NOISE * random.normal(size=num_days)
            for day in range(num_days):
                sales = level + trend * day + season[day % 7] + noise[day]
                print(f'{_FIRST + datetime.timedelta(day)},store {store + 1},{sales:.2f}', file=file)


def expected(num_stores: int = _SIZES[0], horizon: int = 7) -> dict[str, float]:
    """Returns the RMSE to expect of the last value and of the same time last season, for a horizon of at most a week.

    The error k days ahead is the difference of two noises, of variance 2 NOISE²; of the trend, k or 7 days of it; and, of the
    last value, the difference of the seasons of the two weekdays.
    """
    _, trends, seasons = components(num_stores)
    steps = np.arange(1, horizon + 1)
    changes = np.stack([np.roll(seasons, -k, axis=1) - seasons for k in steps], 2)  # [stores, weekdays, steps]
    last_value = np.mean((changes + trends[:, None, None] * steps) ** 2)
    last_season = np.mean((7 * trends) ** 2)
    return {
        'rmse_last_value': math.sqrt(2 * NOISE**2 + last_value),
        'rmse_last_season': math.sqrt(2 * NOISE**2 + last_season),
    }


if __name__ == '__main__':
    write(*sys.argv[1:2])
    print(expected())
