"""The page is one file of the predicted size, which runs no script except its own."""

import base64
import hashlib
import html
import re

import pytest

from headway.base.errors import UsageError
from headway.inspection.document import Document
from headway.inspection.page import NotebookPage, encode, page_size, served_page, write_page
from tests.fixtures.documents import encoder_frame, hostile


@pytest.fixture
def encoded():
    return encode(Document(title="a page", frames=[encoder_frame()]))


def test_the_size_is_known_before_writing(tmp_path, encoded):
    size = page_size(encoded)
    assert write_page(tmp_path / "a.html", encoded) == size
    assert (tmp_path / "a.html").stat().st_size == size


def test_a_page_is_overwritten_only_on_request(tmp_path, encoded):
    path = tmp_path / "a.html"
    path.write_text("mine")
    with pytest.raises(UsageError, match="exists already"):
        write_page(path, encoded)
    assert path.read_text() == "mine"
    write_page(path, encoded, overwrite=True)
    assert path.read_text().startswith("<!doctype html>")
    assert list(tmp_path.iterdir()) == [path]


def policy_of(page):
    return html.unescape(
        re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', page)[1]
    )


@pytest.mark.parametrize("make", ["file", "served", "hostile"])
def test_the_policy_allows_the_one_script_and_the_one_style_by_their_hashes(
    tmp_path, encoded, make
):
    if make == "served":
        page = served_page().decode()
    else:
        write_page(tmp_path / "a.html", encode(hostile()) if make == "hostile" else encoded)
        page = (tmp_path / "a.html").read_bytes().decode()
    policy = policy_of(page)
    scripts = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
    styles = re.findall(r"<style>(.*?)</style>", page, re.DOTALL)
    assert len(scripts) == len(styles) == 1
    for kind, (text,) in {"script-src": scripts, "style-src": styles}.items():
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{kind} 'sha256-{digest}'" in policy
    assert "default-src 'none'" in policy and "unsafe" not in policy
    assert ("connect-src 'self'" if make == "served" else "connect-src 'none'") in policy
    assert not re.search(r'\sstyle="|\son\w+="|javascript:', page.replace(scripts[0], ""))
    assert not re.search(r'(src|href)="(?!data:)', page.replace(scripts[0], ""))


def test_a_notebook_shows_the_same_page_in_a_sandboxed_frame(encoded):
    cell = NotebookPage(encoded, height=500)._repr_html_()
    assert 'sandbox="allow-scripts allow-downloads"' in cell and "height:500px" in cell
    page = html.unescape(re.search(r'srcdoc="([^"]*)"', cell)[1])
    assert page.startswith("<!doctype html>") and len(page.encode()) == page_size(encoded)
