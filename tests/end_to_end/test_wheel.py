"""The wheel has all that the checkout has, and works from a folder far from it."""

import json
import os
import shutil
import subprocess
import sys
import sysconfig
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
    """far(words) starts the installed command in another folder.

    It is in a new virtual environment, which has the packages that Headway needs, but not the
    checkout: a `.pth` file adds a folder without reading the `.pth` files in it.
    """
    venv, folder = tmp_path_factory.mktemp("venv"), tmp_path_factory.mktemp("far")
    python = venv / "bin" / "python"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(venv)], check=True)
    pip("--python", str(python), "install", "--no-deps", "--no-index", str(wheel))
    (site,) = venv.glob("lib/python*/site-packages")
    (site / "needed.pth").write_text(sysconfig.get_path("purelib"))
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    (folder / "corpus.txt").write_text("the fox runs over the hill\n" * 60)

    def start(*words, program=venv / "bin" / "headway", **options):
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
        return subprocess.Popen(
            [str(program), *words], cwd=folder, env=environment, text=True, **pipes
        )

    shown, _ = start("-c", "import headway; print(headway.__file__)", program=python).communicate()
    assert shown.startswith(str(site))
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


def test_the_wheel_is_for_all_versions_of_python_from_3_11_on(wheel):
    assert wheel.stem.split("-")[2:4] == ["cp311", "abi3"]
    files = map(Path, zipfile.ZipFile(wheel).namelist())
    loops = {path.name for path in files if path.suffix == ".so"}
    assert loops <= {"_loops.abi3.so"}  # none without a compiler


def test_the_installed_command_describes_itself_and_the_machine(far):
    version, _ = far("--version").communicate()
    assert "headway" in version
    doctor = far("doctor")
    shown, messages = doctor.communicate()
    assert doctor.returncode == 0, messages
    assert "compiled" in shown


def test_the_installed_package_trains_and_serves(far):
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
        subprocess.run(health_check(address), check=True)
        with pytest.raises(subprocess.CalledProcessError):
            subprocess.run(health_check("http://127.0.0.1:9/"), check=True, capture_output=True)
    finally:
        server.terminate()
        server.communicate()


def health_check(address):
    """The command of the Dockerfile, for a server at this address."""
    text = (ROOT / "Dockerfile").read_text()
    command = json.loads(text.partition("HEALTHCHECK")[2].partition("CMD ")[2].partition("\n")[0])
    changed = [word.replace("http://127.0.0.1:8000/", address) for word in command]
    assert changed != command
    return [sys.executable, *changed[1:]]
