"""Readers of files by their format: lines, cells, records, arrays, images."""
