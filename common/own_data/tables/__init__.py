"""Tables of users: their files, what their columns are, and their rows as tf.train.Examples."""
