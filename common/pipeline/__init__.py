"""From records to batches: the order of each epoch, parsing, memory."""
