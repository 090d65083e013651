"""The data pipeline, from files to batches: formats, corpora, augmentation, held-out examples, and
the stream of batches.

Only images, sounds and batches need torch.
"""
