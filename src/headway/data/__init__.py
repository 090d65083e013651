"""The data pipeline, from files to batches: formats, corpora, bucketing, packing, masking,
augmentation and batching.

Only batches and windows need torch.
"""

from headway.data.epochs import endless, repeated

__all__ = ["endless", "repeated"]
