"""From files to batches: downloads, TFRecord files, their manifest, the input pipeline. May import: plugins."""
