"""Data of a user's own, without code: what is in tables, texts and TFRecords, and how it is parsed."""
