"""Applications: one folder each, behind the contract of `tasks/task.py`."""
