"""Users' own tf.train.Examples, in TFRecord files: what is in them, and the parser that tables use, too."""
