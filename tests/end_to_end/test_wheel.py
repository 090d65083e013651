"""The wheel has all that the checkout has, and works from a folder far from it."""

import os
import shutil
import subprocess
import sys
import urllib.request
import zipfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
NOT_INSTALLED = {".c", ".h", ".pyc", ".so"}
"""Suffixes of sources and products of the compiled loops, which a wheel has as a library."""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    source.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    left_out = shutil.ignore_patterns("*.so", "__pycache__", "*.egg-info")
    shutil.copytree(ROOT / "src", source / "src", ignore=left_out)
    pip("wheel", "--no-deps", "--no-build-isolation", "-w", str(folder), str(source))
    (path,) = folder.glob("headway-*.whl")
    return path


@pytest.fixture(scope="module")
def far(wheel, tmp_path_factory):
    """far(words) starts the installed command line in another folder."""
    site, folder = tmp_path_factory.mktemp("site"), tmp_path_factory.mktemp("far")
    pip("install", "--no-deps", "--no-index", "--target", str(site), str(wheel))
    environment = {**os.environ, "PYTHONPATH": str(site)}
    (folder / "corpus.txt").write_text("the fox runs over the hill\n" * 60)

    def start(*words, **options):
        command = [sys.executable, "-m", "headway", *words]
        return subprocess.Popen(
            command, cwd=folder, env=environment, text=True, stderr=subprocess.PIPE, **options
        )

    shown = subprocess.run(
        [sys.executable, "-c", "import headway; print(headway.__file__)"],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert shown.stdout.startswith(str(site))
    return start


def pip(*words):
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_every_file_of_the_package_is_in_the_wheel(wheel):
    package = ROOT / "src" / "headway"
    files = {
        path.relative_to(ROOT / "src").as_posix()
        for path in package.rglob("*")
        if path.is_file() and path.suffix not in NOT_INSTALLED
    }
    assert files <= {*zipfile.ZipFile(wheel).namelist()}


def test_the_installed_package_trains_and_serves(far):
    version = far("--version", stdout=subprocess.PIPE)
    assert "headway" in version.communicate()[0]
    words = ["gpt-tiny", "corpus.txt", "--steps", "4", "--threads", "1", "--quiet"]
    training = far("train", *words)
    messages = training.communicate()[1]
    assert training.returncode == 0, messages
    server = far("serve", "runs/gpt-tiny", "--port", "0", "--threads", "1")
    try:
        line = next(line for line in server.stderr if line.startswith("open"))
        address = line.split()[1]
        page = urllib.request.urlopen(address).read()
        assert b"module_form" in page
    finally:
        server.terminate()
        server.communicate()
