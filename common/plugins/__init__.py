"""The user's model and dataset modules: imports, and checks of arguments and results."""
