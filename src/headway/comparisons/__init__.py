"""Comparisons: variants of a recipe on the same data with the same budget, and their report."""
