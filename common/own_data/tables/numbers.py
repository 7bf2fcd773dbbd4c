"""Styles of written numbers: decimal points or commas, separators of thousands, currencies, percent signs and units."""

from collections.abc import Collection
import dataclasses
import re
import unicodedata

POINT, COMMA = DECIMALS = ('point', 'comma')
FLOAT32_MAX = 3.4028234e38
_TYPESET = str.maketrans({**dict.fromkeys('\u2212\u2013\u2010\u2011\ufe63\uff0d', '-'), '\u2019': "'"})
_SPACES = re.compile(r'[\s\u00a0\u2007\u2009\u202f]+')
_CURRENCIES = frozenset(
    'USD EUR GBP JPY CHF CNY RMB INR AUD CAD NZD SEK NOK DKK PLN CZK HUF BRL MXN KRW RUB TRY ZAR SGD HKD '
    'US$ C$ A$ R$ kr zł Kč Ft Rs Rs. Fr. €/m² $/sqft'.split()
)
_SHARES = frozenset('%‰')
_UNITS = frozenset(
    '% ‰ ° °C °F t kg g mg µg μg lb lbs oz km m cm mm µm μm mi ft in yd km² m² cm² m2 km2 sqft sqm ha ac m³ m3 l L ml mL dl cl '
    'gal s sec secs ms µs min mins h hr hrs d day days wk weeks mo months yr yrs year years kW kWh MWh Wh Hz kHz MHz GHz kB KB '
    'MB GB TB hp bhp PS cc rpm mph km/h kmh kmph kmpl km/kg mpg bar Pa hPa kPa psi mV mA mAh Ah kcal cal kJ Nm mol ppm px pts '
    'pcs'.split()
)
_CELL = re.compile(
    r"(?P<before>[^\d.,'+-]*)(?P<sign>[+-]?)(?P<between>[^\d.,'+-]*)"
    r"(?P<digits>\d(?:[\d.,'_ ]*\d)?[.,]?|[.,]\d+)(?P<exponent>[eE][+-]?\d+)?(?P<after>\D*)"
)
_WITH_POINT = re.compile(
    r"\d+\.?|\d*\.\d+|[1-9]\d{0,2}(?P<by>[, '_])\d{3}(?:(?P=by)\d{3})*(?:\.\d*)?|[1-9]\d?(?:,\d\d)+,\d{3}(?:\.\d*)?"
)
_WITH_COMMA = re.compile(r"\d+,?|\d*,\d+|[1-9]\d{0,2}(?P<by>[. '_])\d{3}(?:(?P=by)\d{3})*(?:,\d*)?")


@dataclasses.dataclass(frozen=True)
class Written:
    """A cell with a number.

    Attributes:
      point: the number if its decimals follow a point; None if it is none.
      comma: the same with a comma.
      affix: the currency, percent sign or unit beside it; ''.
      has_comma: whether a comma is among the digits.
    """

    point: float | None
    comma: float | None
    affix: str
    has_comma: bool


@dataclasses.dataclass(frozen=True)
class Style:
    """How the numbers of a column are written: decimal is POINT or COMMA; affixes are those beside its numbers.

    A number without an affix is of the same kind, but not beside percentages: 0.45 may be 45 %.
    """

    decimal: str
    affixes: Collection[str] = ('',)

    def number(self, cell: str) -> float | None:
        """Returns the number in a cell; None if there is none in this style, or it is not finite in float32."""
        found = read(cell)
        if found is None or found.affix not in self.affixes and (found.affix or _SHARES.intersection(self.affixes)):
            return None
        return found.comma if self.decimal == COMMA else found.point


def to_number(cell: str) -> float | None:
    """Returns the number in a cell as programs write it; None if there is none, or it is not finite in float32."""
    try:
        value = float(cell)
    except ValueError:
        return None
    return value if abs(value) <= FLOAT32_MAX and '_' not in cell else None  # Python reads 1_0 as 10.


def read(cell: str) -> Written | None:
    """Returns the number that a person wrote, such as 1,234.5, 45 %, $-3 or (12); None if a cell is anything else."""
    text = _SPACES.sub(' ', cell.translate(_TYPESET)).strip()
    is_negative = text.startswith('(') and text.endswith(')')  # As bookkeepers write it.
    match = _CELL.fullmatch(text[1:-1] if is_negative else text)
    if not match:
        return None
    affix = _affix(f'{match["before"]} {match["between"]}', match['after'])
    if affix is None:
        return None
    digits, sign, exponent = match['digits'], '-' if is_negative else match['sign'], match['exponent'] or ''
    point = comma = None
    if _WITH_POINT.fullmatch(digits):
        point = to_number(sign + re.sub("[, '_]", '', digits) + exponent)
    if _WITH_COMMA.fullmatch(digits):
        comma = to_number(sign + re.sub("[. '_]", '', digits).replace(',', '.') + exponent)
    return None if point is comma is None else Written(point, comma, affix, ',' in digits)


def _affix(before, after):
    """Returns the currency or unit before or after a number; '' without one, None for other text."""
    found = [text.strip() for text in (before, after) if text.strip()]
    if not found:
        return ''
    if len(found) > 1:
        return None
    (affix,) = found
    is_known = affix in _CURRENCIES or affix in _UNITS and not before.strip() or all(map(_is_currency, affix))
    return affix if is_known or after.startswith(' ') and affix.isalpha() else None  # 12 widgets, but not 12th.


def _is_currency(letter):
    return unicodedata.category(letter) == 'Sc'
