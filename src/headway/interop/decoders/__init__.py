"""Decoder families of Hugging Face folders, each a table of config.json and a table of tensors."""

from headway.interop.decoders import experts, gemma, gpt, llama, others, parallel

FAMILIES = (
    *gpt.FAMILIES,
    *llama.FAMILIES,
    *gemma.FAMILIES,
    *parallel.FAMILIES,
    *others.FAMILIES,
    *experts.FAMILIES,
)

__all__ = ["FAMILIES"]
