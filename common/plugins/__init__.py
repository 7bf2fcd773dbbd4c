"""The user's model and dataset modules: finding them, checking what they take and return. May import: no other wing."""
