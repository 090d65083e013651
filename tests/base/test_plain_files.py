"""A pipe, socket or device instead of a file is refused at once: reading a pipe may never end."""

from __future__ import annotations

import os
import signal
import socket
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from headway.base.errors import DataError, HeadwayError, UsageError
from headway.base.files import open_plain, read_bytes, read_json
from headway.base.folders import verify_folder
from headway.base.metrics_file import read_metrics
from headway.base.tensors import read_tensors
from headway.data.formats.images import read_zip
from headway.data.formats.lines import read_lines
from headway.data.formats.npz import ArrayFile
from headway.data.formats.parquet import read_parquet
from headway.data.image_sources import read_images
from headway.data.images import read_image
from headway.tasks.opening import load
from headway.training import MetricsLog

READERS: dict[str, Callable[[Path], object]] = {
    "bytes": lambda path: read_bytes(path, 100),
    "JSON": read_json,
    "tensors": read_tensors,
    "model": load,
    "image": read_image,
    "lines": lambda path: list(read_lines(path)),
    "npz": ArrayFile,
    "zip": read_zip,
    "parquet": read_parquet,
    "metrics": lambda path: read_metrics(path, "valid"),
    "log": lambda path: MetricsLog(path).rewind(0, 0),
    "images": lambda path: read_images([str(path)]),
}


@pytest.fixture(autouse=True)
def _at_once() -> Iterator[None]:
    """Stop a test that waits for a writer of its pipe."""

    def stop(*_: object) -> None:
        raise TimeoutError("the reader waits")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(20)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("kind", READERS)
def test_no_reader_waits_for_a_writer_of_a_named_pipe(tmp_path, kind):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(HeadwayError) as caught:
        READERS[kind](tmp_path / "pipe")
    assert "pipe" in str(caught.value)


def test_a_model_folder_with_a_named_pipe_as_a_file_is_refused(tmp_path):
    for name in ("config.json", "MANIFEST.json", "run.yaml"):
        os.mkfifo(tmp_path / name)
    with pytest.raises(HeadwayError):
        load(tmp_path)
    with pytest.raises(DataError, match="not a plain file"):
        verify_folder(tmp_path)


def test_a_folder_of_tables_with_a_named_pipe_is_refused(tmp_path):
    os.mkfifo(tmp_path / "train.parquet")
    with pytest.raises(DataError, match="not a plain file"):
        read_images([str(tmp_path)])


def test_a_socket_or_device_is_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # names of sockets are short
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("socket")
        with pytest.raises(DataError, match="cannot be read"):
            read_bytes(Path("socket"), 10)
        with pytest.raises(UsageError, match="a pipe, socket or device"):
            list(read_lines(Path("socket")))
    with pytest.raises(DataError, match="a device") as caught:
        read_bytes(Path("/dev/null"), 10)
    assert caught.value.where == "/dev/null" and "to a file" in caught.value.hint


def test_a_plain_file_is_read_also_as_standard_input(tmp_path):
    (tmp_path / "a").write_bytes(b"12")
    with open_plain(tmp_path / "a") as file:
        assert file.read() == b"12"
        assert read_bytes(Path(f"/dev/fd/{file.fileno()}"), 10) == b"12"
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("cat/x.png", b"")
    assert len(read_zip(tmp_path / "a.zip").train) == 1
