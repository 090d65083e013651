"""Encoder families of Hugging Face folders, each a table of config.json and a table of tensors."""

from headway.interop.encoders import bert, deberta, modern, mpnet

FAMILIES = (*bert.FAMILIES, *mpnet.FAMILIES, *modern.FAMILIES, *deberta.FAMILIES)

__all__ = ["FAMILIES"]
