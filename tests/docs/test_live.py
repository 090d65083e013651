"""The live pages of the tour: what the captions say is true, and nothing is missing silently."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys

import pytest

from tests.fixtures.pages import DOCS, ROOT, docs_module, page_paths

_FIRST = [{"self": 0.1, "first": 0.3}, {"self": 0.4, "first": None}]
_SECOND = [{"self": 0.2, "first": 0.9}, {"self": 0.3, "first": 0.2}]
_MAPS = [{"name": "decoder", "patterns": [_FIRST, _SECOND]}, {"name": "decoder", "patterns": []}]
_FRAME = {"answer": "", "maps": _MAPS}
_HEADER = json.dumps({"frames": [_FRAME]})
SMALL = f'<script type="application/json" id="header">{_HEADER}</script>'
"""A page of two layers with two heads."""
KINDS = ("previous token", "next token", "induction")

BLOCK = re.compile(r"^```\{live\} (\S+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def live():
    """The module docs/live.py, which makes the pages."""
    with docs_module("live") as module:
        yield module


def live_blocks():
    return [
        (path, name, content)
        for path in page_paths()
        for name, content in BLOCK.findall(path.read_text(encoding="utf-8"))
    ]


def test_every_live_block_names_a_page_a_view_and_what_to_see(live):
    views = (ROOT / "src/headway/inspection/page/assets").glob("view-*.js")
    known = {re.search(r'^  id: "([\w-]+)"', path.read_text(), re.MULTILINE)[1] for path in views}
    blocks = live_blocks()
    assert {name for _, name, _ in blocks} == set(live.PAGES)
    for path, name, content in blocks:
        view = re.search(r"^:state: view=([\w-]+)", content, re.MULTILINE)
        assert view and view[1] in known, f"{path.name}: {name}: {content}"
        assert re.search(r"^\*\*Live: .+\*\* .{40}", content, re.MULTILINE), f"{path.name}: {name}"


def test_every_command_of_a_live_page_exists_with_its_flags(live):
    from tests.fixtures.block_runner import check_command
    from tests.fixtures.pages import Command

    for name in live.PAGES:
        commands = live.commands_of(name)
        for text in (*commands["train"], *commands["inspect"]):
            check_command(Command(text, 1), f"docs/live.py: {name}")


def test_a_page_has_another_key_if_its_commands_or_the_code_change(live, monkeypatch):
    before = {name: (live.model_key(name), live.page_key(name)) for name in ("gpt", "bert")}
    model = live.Model(commands=(*live.MODELS["gpt"].commands, "headway runs show runs/gpt"))
    monkeypatch.setitem(live.MODELS, "gpt", model)
    assert live.model_key("gpt") != before["gpt"][0] and live.page_key("gpt") != before["gpt"][1]
    assert (live.model_key("bert"), live.page_key("bert")) == before["bert"]
    monkeypatch.setattr(live, "_code", lambda is_page: "other" if is_page else "same")
    pages = {live.page_key("bert")}
    monkeypatch.setattr(live, "_code", lambda is_page: "same")
    assert live.page_key("bert") not in pages


@pytest.fixture
def tiny(live, monkeypatch):
    """The table of pages with one page of a model of three steps."""
    command = (
        "headway train vision-digits --steps 3 --model.num-layers 1 --model.model-dim 16"
        " --model.num-heads 2 --evaluation.every 3 --checkpoint.every 3 --threads 1 --run vit"
    )
    digit, _ = live.MODELS["vit"].commands
    page = live.Page(model="tiny", inspect="runs/vit four.png", title="A tiny model")
    monkeypatch.setattr(live, "MODELS", {"tiny": live.Model(commands=(digit, command))})
    monkeypatch.setattr(live, "PAGES", {"tiny": page})
    return live


@pytest.mark.slow
def test_pages_are_made_once_and_a_wrong_answer_is_an_error(tiny, tmp_path, monkeypatch):
    pytest.importorskip("sklearn")
    assert tiny.missing(tmp_path) == ["tiny"]
    tiny.make(tmp_path)
    path = tiny.page_path("tiny", tmp_path)
    before = path.stat().st_mtime_ns
    old = tmp_path / "pages" / "tiny-0123456789abcdef.html"
    old.write_text("of former code")
    tiny.make(tmp_path)
    assert path.stat().st_mtime_ns == before and not tiny.missing(tmp_path) and not old.exists()
    page = tiny.Page(
        model="tiny", inspect="runs/vit four.png", title="A tiny model", answers=("x", "y")
    )
    monkeypatch.setitem(tiny.PAGES, "tiny", page)
    with pytest.raises(
        tiny.NotMade, match=r"the model answers '\d', but the tour describes x or y"
    ):
        tiny.make(tmp_path)
    assert tiny.missing(tmp_path) == ["tiny"]


def test_a_failed_command_is_an_error_with_its_output_and_leaves_no_page(tiny, tmp_path):
    tiny.MODELS["tiny"] = tiny.Model(commands=("python -c 'raise SystemExit(\"no disk\")'",))
    with pytest.raises(tiny.NotMade, match=r"(?s)raise SystemExit.*no disk"):
        tiny.make(tmp_path)
    assert tiny.missing(tmp_path) == ["tiny"] and not tiny.model_folder("tiny", tmp_path).exists()


def _sphinx(folder, *options):
    """Build a site of one page with a live block, with the configuration of the real one."""
    pytest.importorskip("furo")
    source = folder / "docs"
    source.mkdir()
    (source / "index.md").write_text(
        "# A\n\n```{live} gpt\n:state: view=matrix\n\n**Live: a map.** Choose a cell.\n```\n\n"
        "```{live} gpt\n:state: view=text\n:head: decoder, self\n\nSee what {head} reads.\n```\n"
    )
    (source / "conf.py").write_text(
        f"import sys\nsys.path.insert(0, {str(DOCS)!r})\nimport live, pathlib\n"
        f"live.FOLDER = pathlib.Path({str(folder / 'live')!r})\n"
        "extensions = ['myst_parser', 'frames']\nhtml_theme = 'furo'\n"
    )
    words = ["-m", "sphinx", "-q", "-W", "-b", "html", *options, source, folder / "html"]
    return subprocess.run(
        [sys.executable, *map(str, words)], capture_output=True, text=True, check=False
    )


@pytest.mark.slow
def test_the_site_is_not_built_without_its_live_pages(tmp_path):
    done = _sphinx(tmp_path)
    assert done.returncode != 0 and "make docs LIVE=no" in done.stderr
    assert not (tmp_path / "html" / "index.html").exists()


@pytest.mark.slow
def test_a_site_without_live_pages_says_so_in_their_frames(tmp_path):
    done = _sphinx(tmp_path, "-D", "live_pages=0")
    assert done.returncode == 0, done.stderr
    text = (tmp_path / "html" / "index.html").read_text()
    assert "built without its live pages" in text and "headway inspect runs/gpt" in text
    assert "<iframe" not in text and "See what one head reads." in text


@pytest.mark.slow
def test_a_live_page_is_a_lazy_sandboxed_frame_with_a_title_and_a_link(live, tmp_path):
    for name in live.PAGES:
        path = live.page_path(name, tmp_path / "live")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(SMALL)
    done = _sphinx(tmp_path)
    assert done.returncode == 0, done.stderr
    text = (tmp_path / "html" / "index.html").read_text()
    frame = re.search(r"<iframe [^>]*>", text)[0]
    assert 'src="live/gpt.html#view=matrix"' in frame and 'loading="lazy"' in frame
    assert 'title="A GPT reads a sentence of the Python manual"' in frame
    assert "allow-scripts" in frame and "allow-same-origin" not in frame
    assert 'href="live/gpt.html#view=matrix"' in text and "Choose a cell." in text
    assert "See what head 2 of layer 1 reads." in text
    assert 'src="live/gpt.html#view=text&amp;map=decoder&amp;layer=0&amp;head=1"' in text
    assert (tmp_path / "html" / "live" / "gpt.html").read_text() == SMALL


def test_the_head_of_a_kind_is_the_one_with_the_largest_score(live, tmp_path):
    (tmp_path / "page.html").write_text(SMALL)
    assert live.head_of(tmp_path / "page.html", "decoder", "self") == (0, 1)
    assert live.head_of(tmp_path / "page.html", "decoder", "first") == (1, 0)


def test_every_text_that_names_a_head_says_of_which_kind(live):
    for path, name, content in live_blocks():
        has_kind = re.search(r"^:head: (\w+), ([\w ]+)$", content, re.MULTILINE)
        assert bool(has_kind) == ("{head}" in content), f"{path.name}: {name}"
        assert not re.search(r"[Hh]ead \d", content), f"{path.name}: another processor has others"
        assert not has_kind or has_kind[2] in KINDS


# What the captions say


@pytest.fixture
def opened(live):
    """opened(name) -> the model of a page, if `make docs` has trained it."""
    import headway

    def find(name):
        folder = live.model_folder(live.PAGES[name].model)
        if not folder.is_dir():
            pytest.skip(f"the model of {name} is not trained: make docs")
        return headway.load(str(folder / "runs" / name)), folder

    return find


def watched(bundle, text):
    from headway.inspection.watch import watch

    frame = watch(bundle, text, analyses=())
    return {maps.name: maps for maps in frame.maps}, frame


@pytest.mark.slow
def test_the_head_that_the_tour_calls_an_induction_head_is_one(live, opened):
    bundle, folder = opened("captioner")
    maps, _ = watched(bundle, str(folder / "shapes" / "21.png"))
    layer, head = live.head_of(live.page_path("captioner"), "decoder", "induction")
    scores = maps["decoder"].patterns[layer][head]
    assert scores["induction"] == max(s for s in scores.values() if s is not None) > 0.5


@pytest.mark.slow
@pytest.mark.parametrize(
    "name, text, pairs",
    [
        ("rnn", "white medium square", {"carré": "square", "blanc": "white"}),
        ("translator", "woman with red hair", {"cheveux": "hair", "roux": "red"}),
    ],
)
def test_words_are_aligned_as_the_tour_says(opened, name, text, pairs):
    bundle, _ = opened(name)
    maps, frame = watched(bundle, text)
    weights = maps["cross"].weights[-1].mean(0)
    source = [token.strip() for token in frame.sides["source"].tokens]
    target = [token.strip() for token in frame.sides["target"].tokens]
    for word, partner in pairs.items():
        assert source[int(weights[target.index(word)].argmax())] == partner


@pytest.mark.slow
def test_the_words_of_a_caption_are_read_from_their_shape(opened):
    """The upper shape covers the first three rows of patches, the lower one the last three."""
    bundle, folder = opened("captioner")
    maps, frame = watched(bundle, str(folder / "shapes" / "21.png"))
    cross = maps["cross"].weights[0].mean(0)  # the layer that the tour shows
    (side,) = (side for side in frame.sides.values() if side.grid)
    rows, columns = side.grid
    patches = cross[:, side.num_prefix_tokens :].unflatten(1, (rows, columns)).sum(2)
    upper = patches[:, : rows // 2].sum(1) / patches.sum(1)
    names = [token.strip() for token in frame.sides[maps["cross"].queries].tokens]
    shares = {name: float(share) for name, share in zip(names, upper, strict=True)}
    assert shares["red"] > 0.5 and shares["circle"] > 0.5, shares
    assert shares["blue"] < 0.5 and shares["square"] < 0.5, shares


@pytest.mark.slow
def test_the_masked_word_is_a_function_or_a_class(opened):
    bundle, _ = opened("bert")
    ((words,),) = bundle.fill(["a [MASK] definition defines a new function"], top=2)
    assert {word.word for word in words} == {"function", "class"}


def test_a_model_is_trained_in_a_folder_that_git_ignores():
    if shutil.which("git") is None or not (ROOT / ".git").exists():
        pytest.skip("this is no git repository")
    done = subprocess.run(["git", "check-ignore", "-q", "build/live/models"], cwd=ROOT, check=False)
    assert done.returncode == 0
