"""Sentence embedding: vectors of texts whose cosine is the similarity of the texts.

Reimers and Gurevych 2019. The models are text encoders; `headway embed` and `headway similar` use
them.
"""
