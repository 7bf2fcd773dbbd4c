"""Users' own data, without code: description and parsing of tables, texts and TFRecords."""
