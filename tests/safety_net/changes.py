"""Numbers that were changed deliberately since the records were made, and why."""

CHANGES: dict[str, str] = {}
"""Pattern of "case path", as in "tag validation.*.f1" -> the reason. `*` matches anything."""
