"""The table of flags: names, types, defaults, bounds, and whether tasks and trials must agree on them."""
