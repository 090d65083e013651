"""From files to batches: formats -> check -> corpora -> bucketing -> batches.

Import from the files themselves; only `batches` needs torch.
"""
