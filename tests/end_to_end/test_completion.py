"""Shell completion, in a real shell."""

import shutil
import subprocess

import pytest

from tests.fixtures.command_line import headway

ASK = """
source "$1"
COMP_WORDS=(headway {words}); COMP_CWORD={number}; COMP_LINE="headway {words}"; COMP_POINT=99
_headway
printf '%s\\n' "${{COMPREPLY[@]}}"
"""

pytestmark = pytest.mark.slow  # the script is made from the flags of all commands


@pytest.fixture
def completed(tmp_path):
    """completed(words) -> what bash proposes for the last of them."""
    script = tmp_path / "headway.bash"
    script.write_text(headway("completion", "bash", cwd=tmp_path).stdout)

    def propose(words):
        ask = ASK.format(words=words, number=len(words.split()))
        shell = ["bash", "-c", ask, "bash", str(script)]
        done = subprocess.run(shell, capture_output=True, text=True, check=True)
        return done.stdout.split()

    return propose


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash is installed")
def test_bash_completes_commands_verbs_and_flags(completed):
    assert {"train", "translate"} <= {*completed("tr")}
    assert completed("transl") == ["translate"]
    assert "--nbest" in completed("translate --nb")
    assert completed("config sh") == ["show"]
