"""Folders of tokens on a web server of this machine: copied once, checked, continued, evicted."""

import json
import os
import re
import shutil
import sys
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from headway.base.errors import DataError, HeadwayError, UsageError
from headway.data import remote, token_shards
from headway.data.remote import RemoteFolder, cache_folder, is_remote
from headway.data.token_shards import TokenShards, opened_tokens
from tests.fixtures.command_line import headway
from tests.fixtures.file_operations import temporary_files
from tests.fixtures.language_model_commands import TINY
from tests.fixtures.manifests import flip_one_bit

TEXT = [f"the {name} has {count} boats\n" for count in range(40) for name in ("fox", "owl")]
FLAGS = ("--split", "line", "--vocabulary", "280", "--processes", "1", "--output", "tokens")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder with the folder `tokens` of two shards."""
    folder = tmp_path_factory.mktemp("remote")
    (folder / "texts").mkdir()
    for name in "ab":
        (folder / "texts" / f"{name}.txt").write_text("".join(TEXT))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(token_shards, "SHARD_BYTES", 900)

        def in_this_process(shards, processes, progress):
            patch.setattr(token_shards, "_shards", shards, raising=False)
            for number in shards.missing:
                token_shards._make_shard(number)

        patch.setattr("headway.cli.data_tokenize.make_shards", in_this_process)
        headway("data", "tokenize", "texts", *FLAGS, cwd=folder)
    return folder


@pytest.fixture
def server(made, tmp_path, monkeypatch):
    """A web server with a copy of the tokens: its folder, its URL, and the paths it has served."""
    monkeypatch.setenv("HEADWAY_CACHE", str(tmp_path / "cache"))
    shutil.copytree(made / "tokens", tmp_path / "site" / "tokens")
    served = []

    class Handler(SimpleHTTPRequestHandler):
        def log_message(self, form, *values):
            served.append(self.path)

    handler = partial(Handler, directory=str(tmp_path / "site"))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as running:
        Thread(target=running.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{running.server_port}/tokens"
        yield tmp_path / "site" / "tokens", url, served
        running.shutdown()


def opened(url: str) -> TokenShards:
    return opened_tokens(url, lambda done: None)


def test_the_copy_has_the_tokens_of_the_remote_folder_and_is_made_once(server):
    folder, url, served = server
    sizes = []
    shards = opened_tokens(url, sizes.append)
    local = TokenShards.open(folder)
    assert len(local.files) == 2
    for copied, original in zip(shards.corpora(), local.corpora(), strict=True):
        assert copied.ids.tolist() == original.ids.tolist()
    assert shards.tokenizer.fingerprint == local.tokenizer.fingerprint
    assert sizes == sorted(sizes) and sizes[-1] > 1000
    count = len(served)
    opened(url)
    assert len(served) == count > 5, "the second call reads the cache"


def test_a_wrong_hash_is_refused_and_named_and_leaves_nothing(server):
    folder, url, _ = server
    flip_one_bit(folder / "shard-00001" / "documents.bin")
    with pytest.raises(DataError, match="another size or sha256") as caught:
        opened(url)
    assert caught.value.where == f"{url}/shard-00001/documents.bin"
    (copy,) = cache_folder().iterdir()
    assert not (copy / "files" / "shard-00001").exists() and not temporary_files(copy)


@pytest.mark.parametrize("size", [0, 10**6])
def test_a_file_of_another_size_is_refused_without_reading_all_of_it(server, size):
    folder, url, _ = server
    (folder / "shard-00000" / "documents.bin").write_bytes(bytes(size))
    with pytest.raises(DataError, match="another size or sha256"):
        opened(url)


def test_an_interrupted_copy_is_continued(server):
    folder, url, served = server
    hidden = shutil.move(folder / "shard-00001", folder.parent / "hidden")
    with pytest.raises(DataError, match="there is no such file") as caught:
        opened(url)
    assert "shard-00001" in caught.value.where
    shutil.move(hidden, folder / "shard-00001")
    served.clear()
    assert opened(url).missing == []
    assert served and all("shard-00001" in path for path in served)


def test_a_manifest_cannot_name_a_file_outside_of_the_cache(server):
    folder, url, _ = server
    manifest = json.loads((folder / "MANIFEST.json").read_text())
    manifest["files"]["../../escaped"] = {"size": 1, "sha256": "0"}
    (folder / "MANIFEST.json").write_text(json.dumps(manifest))
    with pytest.raises(DataError, match="invalid file name"):
        opened(url)


def test_the_least_recently_used_folder_leaves_the_cache_first(server, monkeypatch):
    _, url, _ = server
    site = Path(server[0]).parent
    urls = [url]
    for name in ("second", "third"):
        shutil.copytree(site / "tokens", site / name)
        urls.append(url.replace("tokens", name))
    for number, one in enumerate(urls[:2]):
        opened(one)
        os.utime(RemoteFolder.open(one).folder / "url.txt", (number, number))
    size = remote._bytes_of(cache_folder())
    monkeypatch.setenv("HEADWAY_CACHE_GB", str(1.1 * size / 1e9))
    opened(urls[2])
    kept = {(folder / "url.txt").read_text().strip() for folder in cache_folder().iterdir()}
    assert kept == set(urls[1:])
    monkeypatch.setenv("HEADWAY_CACHE_GB", "0.000001")
    shutil.rmtree(cache_folder())
    with pytest.raises(UsageError, match="whose limit is 1,000"):
        opened(url)


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("https://me:secret@host/x", "no user, password"),
        ("s3://bucket/x?X-Amz-Signature=secret", "no user, password"),
        ("http://host/x", "by https only"),
    ],
)
def test_a_url_with_credentials_or_without_encryption_is_refused(url, message):
    with pytest.raises(UsageError, match=message) as caught:
        RemoteFolder.open(url)
    assert "secret" not in str(caught.value)


def test_errors_of_a_store_show_neither_keys_nor_signatures(monkeypatch):
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hunter22")
    text = remote._shown(OSError("GET https://host/a?X-Amz-Signature=abc of hunter22 failed\nmore"))
    assert text == "GET https://host/a?... of ... failed"


def test_a_server_that_does_not_answer_is_an_error_with_its_url(monkeypatch, tmp_path):
    monkeypatch.setenv("HEADWAY_CACHE", str(tmp_path))

    class Store:
        def get(self, name):
            raise RuntimeError("connection refused")

    folder = RemoteFolder("https://host/x", tmp_path / "x", Store())
    with pytest.raises(HeadwayError, match="connection refused") as caught:
        folder.copied("")
    assert caught.value.where == "https://host/x/MANIFEST.json" and "network" in caught.value.hint


def test_without_the_package_the_error_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "obstore.store", None)
    with pytest.raises(UsageError, match="obstore") as caught:
        RemoteFolder.open("s3://bucket/tokens")
    assert "headway[remote]" in caught.value.hint


def test_only_urls_of_stores_are_remote():
    urls = ("s3://b/t", "gs://b/t", "az://b/t", "https://h/t", "http://127.0.0.1/t")
    assert all(map(is_remote, urls))
    assert not any(map(is_remote, ("tokens", "ftp://h/t", "file:///t", Path("s3://b"))))


def test_a_run_on_a_url_equals_that_on_the_folder(server, tmp_path):
    folder, url, _ = server
    model = [
        word
        for flag, value in zip(TINY[::2], TINY[1::2], strict=True)
        if not flag.startswith("--data.")
        for word in (flag, value)
    ]
    for name, source in (("local", str(folder)), ("remote", url)):
        words = ("train", "gpt", source, "--run", name, *model, "--steps", "2", "--quiet")
        headway(*words, cwd=tmp_path)
    runs = tmp_path / "runs"
    weights = [(runs / n / "model" / "model.safetensors").read_bytes() for n in ("local", "remote")]
    assert weights[0] == weights[1]
    assert re.search(rf"{url}", (runs / "remote" / "run.yaml").read_text())
