"""Collections of tensors of a training graph, for those who look at a step again.

The collections have no text as keys, so they are not saved with the graph.
"""

EXAMPLE_LOSS = ('example_loss',)  # The loss of each example, float32 [batch], without regularization.
FEATURES = ('features',)  # For each tower, {name: tensor [share of the batch, ...]}, after augmentation.
GRADIENTS = ('gradients',)  # (gradient, variable), averaged over the processes, before accumulation and clipping.
