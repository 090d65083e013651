"""Checks and cleaning of parallel corpora."""
