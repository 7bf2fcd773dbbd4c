"""The table of flags: their names, types, defaults and bounds, and who agrees on them."""
