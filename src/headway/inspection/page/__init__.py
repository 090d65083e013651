"""The inspection page: one HTML file, a page of a server, or a cell of a notebook."""

from headway.inspection.page.encoding import Encoded as Encoded
from headway.inspection.page.encoding import encode as encode
from headway.inspection.page.encoding import header_json as header_json
from headway.inspection.page.encoding import only_layers as only_layers
from headway.inspection.page.notebook import NotebookPage as NotebookPage
from headway.inspection.page.writer import page_size as page_size
from headway.inspection.page.writer import page_text as page_text
from headway.inspection.page.writer import page_top as page_top
from headway.inspection.page.writer import served_page as served_page
from headway.inspection.page.writer import theme as theme
from headway.inspection.page.writer import write_page as write_page
