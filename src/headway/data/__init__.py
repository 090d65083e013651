"""From files of text to batches: formats, corpora, buckets, batches; words and windows over them.

Only batches and windows need torch.
"""

from headway.data.epochs import endless, repeated

__all__ = ["endless", "repeated"]
