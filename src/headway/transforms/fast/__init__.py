"""Fast twins of plain classes; `table.py` has them all, and `fast(model)`, which applies them."""
