"""The user's model and dataset modules: imports them, and checks arguments and results. May import: no other wing."""
