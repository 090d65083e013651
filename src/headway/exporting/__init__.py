"""Carries models elsewhere: each export is run by its real runtime before it is handed over."""
