"""The sizes of the parts of a whole that is divided as evenly as possible."""


def part_size(total: int, count: int, index: int) -> int:
    """Returns the size of one of `count` parts of a whole; the first ones have one more than the others."""
    return total // count + (index < total % count)
