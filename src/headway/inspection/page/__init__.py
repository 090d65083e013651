"""The inspection page: one HTML file, a page of a server, or a cell of a notebook."""

from headway.inspection.page.encoding import Encoded, encode, header_json, only_layers
from headway.inspection.page.notebook import NotebookPage
from headway.inspection.page.writer import (
    page_size,
    page_text,
    page_top,
    served_page,
    theme,
    write_page,
)

__all__ = [
    "Encoded",
    "NotebookPage",
    "encode",
    "header_json",
    "only_layers",
    "page_size",
    "page_text",
    "page_top",
    "served_page",
    "theme",
    "write_page",
]
