"""A notebook cell shows the inspection page in one sandboxed frame."""

import html
import re

from headway.inspection import show
from tests.fixtures.bundles import gpt, translator


def test_a_cell_shows_the_page_of_its_input():
    cell = show(gpt(), "the fox eats <the> lemon", height=444)._repr_html_()
    assert "height:444px" in cell and 'sandbox="allow-scripts' in cell
    page = html.unescape(re.search(r'srcdoc="(.*)"', cell, re.S)[1])
    assert '"title":"the fox eats \\u003cthe> lemon"' in page
    assert page.count('class="block"') > 4


def test_a_cell_shows_a_translation_with_a_fixed_target():
    cell = show(translator(), "two dogs", target="zwei")._repr_html_()
    assert "zw" in html.unescape(cell)
