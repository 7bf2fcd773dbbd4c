"""The user's model and dataset modules: imports them, and checks arguments and results."""
