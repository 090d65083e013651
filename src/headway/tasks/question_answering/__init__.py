"""Extractive question answering: find the span of a context that answers a question.

Devlin et al. 2019, section 4.2.
"""
