"""Preferences: a chat model learns to give better answers from pairs of answers."""
