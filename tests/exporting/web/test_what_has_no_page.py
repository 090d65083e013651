"""What cannot become a page is refused before anything is written, with the reason."""

import re

import pytest

from headway.base.errors import UsageError
from headway.exporting.target import export
from headway.exporting.web import packages
from headway.exporting.web.description import KINDS, lacks
from headway.exporting.web.export import web_page
from headway.exporting.web.packages import FILES, INSTALL, RUNTIME, find_packages
from headway.exporting.web.page import page
from tests.fixtures.bundles import BUNDLES, gpt
from tests.fixtures.web_pages import stand_ins

REFUSED = {  # beside those of tests/exporting/test_matrix.py
    "encoder without a head": "without a head for masked words",
    "classifier of pairs": "pairs of texts",
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_model_without_a_form_is_refused_with_the_reason(tmp_path, name):
    with pytest.raises(UsageError, match=REFUSED[name]):
        export(BUNDLES[name][0](), tmp_path / "out", web_page())
    assert not list(tmp_path.iterdir())


def test_every_class_of_the_table_has_a_model_that_becomes_a_page():
    made = {type(bundle) for make, _ in BUNDLES.values() if not lacks(bundle := make())}
    assert made == set(KINDS)


def test_a_missing_package_is_refused_with_the_command_that_installs_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("NODE_PATH", raising=False)
    monkeypatch.setattr(packages.shutil, "which", lambda name: None)
    with pytest.raises(UsageError, match=RUNTIME) as refused:
        export(gpt(), tmp_path / "out", web_page())
    assert INSTALL in str(refused.value.hint) and not list(tmp_path.iterdir())


def test_without_node_the_export_is_refused(tmp_path, monkeypatch):
    stand_ins(tmp_path)
    monkeypatch.setattr(packages.shutil, "which", lambda name: None)
    with pytest.raises(UsageError, match="command node is not found"):
        export(gpt(), tmp_path / "out", web_page(tmp_path))
    assert not (tmp_path / "out").exists()


def test_packages_are_found_where_npm_puts_them(tmp_path, monkeypatch):
    stand_ins(tmp_path)
    below = tmp_path / "a" / "b"
    below.mkdir(parents=True)
    monkeypatch.chdir(below)
    for found in (find_packages(None), find_packages(tmp_path)):
        assert [one.version for one in found.values()] == [f"{name} 1.2.3" for name in FILES]
        assert all("Licence: MIT" in one.licence for one in found.values())
    (tmp_path / "node_modules" / RUNTIME / FILES[RUNTIME][2]).unlink()
    with pytest.raises(UsageError, match=RUNTIME):
        find_packages(tmp_path)


def test_the_page_allows_no_request_and_names_no_host(tmp_path):
    found = find_packages(stand_ins(tmp_path))
    written = page(found, {"title": "</script><script>"}, {"model": b"graph"}).decode()
    policy = re.search(r'Content-Security-Policy" content="([^"]+)"', written)[1]
    assert "default-src 'none'" in policy and "connect-src 'none'" in policy
    assert "unsafe-inline" not in policy and "'unsafe-eval'" not in policy
    hosts = set(re.findall(r"https?://([\w.]+)", written))
    assert hosts <= {"arxiv.org", "www.w3.org", "aclanthology.org", "doi.org"}, hosts
    assert "</script><script>" not in written.partition("<script>")[0]
