"""From files of text to batches: formats, corpora, buckets, batches. Only batches needs torch."""
