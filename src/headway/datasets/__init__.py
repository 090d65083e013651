"""Small data sets, for `headway data fetch`: generated, or from packages and pinned wheels."""
