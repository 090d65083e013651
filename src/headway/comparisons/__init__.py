"""Several variants of one recipe on the same data with the same budget, and their report."""
