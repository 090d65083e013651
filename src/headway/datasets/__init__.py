"""Small data sets from installed packages and pinned wheels, for `headway data fetch`."""
