"""From files to batches: TFRecord files, their manifest, the input pipeline."""
