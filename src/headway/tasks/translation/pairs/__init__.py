"""Files of sentence pairs: tables, aligned files, JSON, lines of text, documents."""
