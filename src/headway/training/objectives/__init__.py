"""Training objectives: from a model and a batch to a summed loss and the number of targets."""
