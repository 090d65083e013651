"""Seeing: a GPT that reads images in its prompt and answers questions about them."""
