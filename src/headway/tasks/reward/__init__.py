"""Rewards: a chat model learns from a function that verifies its answers."""
