"""Tagging of words: named entities, slots, parts of speech. Devlin et al. 2019, section 5.3."""
