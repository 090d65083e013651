"""Masked language modelling and next-sentence prediction: pre-training of text encoders.

Devlin et al. 2019 (BERT), Liu et al. 2019 (RoBERTa).
"""
