"""`headway inspect`, `figures`, `report` and `ui`: pages, terminal, figures and reports."""

import contextlib
import json
import re
import shutil
import signal
import subprocess
import urllib.error
import urllib.request

import numpy as np
import pytest
import torch
from PIL import Image

from headway.inspection.page import encode
from headway.runs.report import report_of
from tests.fixtures.bundles import captioner, gpt, image_encoder, translator
from tests.fixtures.command_line import headway, start
from tests.fixtures.images import png
from tests.fixtures.small_encoder import encoder

TINY_GPT = [
    *("--model.model-dim", "24", "--model.num-heads", "4", "--model.ffn-dim", "40"),
    *("--model.num-layers", "2", "--model.max-length", "48", "--training.length", "32"),
    *("--data.vocabulary", "300", "--training.batch-size", "4", "--steps", "20", "--threads", "1"),
    *("--evaluation.every", "10", "--checkpoint.every", "20", "--schedule.warmup", "2"),
]
FOX = "the fox eats the lemon"


@pytest.fixture(scope="module")
def working_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("inspect")
    for name, bundle in {
        "gpt": gpt(),
        "translator": translator(),
        "encoder": encoder(max_length=40),
        "captioner": captioner(),
        "vit": image_encoder(),
        "rnn": translator(encoder="rnn", decoder="rnn", attention="additive"),
    }.items():
        bundle.save(folder / name)
    pixels = np.random.default_rng(1).integers(0, 256, (19, 23, 3)).astype(np.uint8)
    (folder / "a.png").write_bytes(png(pixels))
    lines = "\n".join(f"The {c} baker waves to {i} old foxes." for i in range(60) for c in "abc")
    (folder / "text.txt").write_text(lines)
    headway("train", "gpt", "text.txt", "--run", "tiny", *TINY_GPT, cwd=folder)
    return folder


def header_in(page):
    text = page.read_text()
    return json.loads(re.search(r'id="header">(.*?)</script>', text, re.S)[1])


CASES = {
    "gpt": ["gpt", FOX],
    "translator": ["translator", "two dogs play"],
    "translator with target": ["translator", "two dogs play", "--target", "zwei hunde"],
    "encoder": ["encoder", "The old baker waves.", "A fox looks on."],
    "captioner": ["captioner", "a.png"],
    "vit": ["vit", "a.png"],
}


@pytest.mark.turns(3)
@pytest.mark.parametrize("name", CASES)
def test_a_page_of_every_kind_of_model_is_written_once(name, run_headway, working_folder):
    page = f"{name.replace(' ', '-')}.html"
    stderr = run_headway("inspect", *CASES[name], "--html", page)[1]
    assert "MB" in stderr and f"written   {page}" in stderr
    header = header_in(working_folder / page)
    (frame,) = header["frames"]
    assert frame["label"] == CASES[name][0] and frame["maps"]
    assert header["walk"], "the walk through one computation"
    assert any(maps["vectors"] for maps in frame["maps"])
    refused = run_headway("inspect", *CASES[name], "--html", page, code=2)[1]
    assert "exists already" in refused


def test_a_page_without_a_walk_gives_the_reason(run_headway, working_folder):
    run_headway("inspect", "rnn", "two dogs play", "--html", "rnn.html")
    header = header_in(working_folder / "rnn.html")
    assert not header["walk"] and "recurrent" in header["notes"][0]
    assert header["frames"][0]["maps"]


def test_models_are_compared_on_a_page_and_a_page_can_be_made_smaller(run_headway, working_folder):
    run_headway("inspect", "gpt", FOX, "--compare", "runs/tiny", "--html", "two.html")
    run_headway(
        "inspect", "gpt", FOX, "--layers", "2", "--levels", "31", "--no-vectors", "--html", "s.html"
    )
    assert [f["label"] for f in header_in(working_folder / "two.html")["frames"]] == [
        "gpt",
        "runs/tiny",
    ]
    small = header_in(working_folder / "s.html")
    assert all(len(maps["layers"]) == 1 for maps in small["frames"][0]["maps"])
    assert "layers 2" in " ".join(small["notes"]) and "31 levels" in " ".join(small["notes"])


def test_the_walk_shows_the_named_head(run_headway, working_folder):
    words = ["inspect", "gpt", FOX, "--layer", "2", "--head", "4", "--position", "2"]
    run_headway(*words, "--html", "walk.html")
    text = json.dumps(header_in(working_folder / "walk.html")["walk"])
    assert "Queries" in text and "Head 4 projects" in text
    assert (
        "99"
        in run_headway("inspect", "gpt", FOX, "--position", "99", "--html", "y.html", code=2)[1]
    )


def test_importance_is_computed_on_request(run_headway, working_folder):
    run_headway("inspect", "gpt", FOX, "--importance", "--html", "important.html")
    importance = header_in(working_folder / "important.html")["frames"][0]["maps"][0]["importance"]
    assert np.array(importance).shape == (3, 6) and np.abs(importance).max() > 0


def test_the_terminal_shows_the_requested_map(run_headway):
    out = run_headway("inspect", "translator", "two dogs play", "--map", "cross", "--layer", "1")[0]
    assert "cross, layer 1 of 2, mean of its heads" in out and "prediction:" in out and "█" in out
    out = run_headway("inspect", "gpt", FOX, "--head", "2")[0]
    assert "decoder, layer 3 of 3, head 2" in out


def test_all_weights_are_printed_as_json(run_headway):
    (frame,) = json.loads(run_headway("inspect", "gpt", FOX, "--json")[0])["frames"]
    weights = torch.tensor(frame["maps"][0]["weights"])
    tokens = len(frame["sides"][frame["maps"][0]["queries"]])
    assert weights.shape == (3, 6, tokens, tokens)
    torch.testing.assert_close(weights.sum(-1), torch.ones(3, 6, tokens), atol=1e-4, rtol=0)


def test_json_has_only_the_chosen_map_layer_and_head(run_headway):
    def frame(*words):
        return json.loads(run_headway("inspect", *words, "--json")[0])["frames"][0]

    whole = {m["measure"]: m for m in frame("gpt", FOX)["maps"]}
    chosen = {m["measure"]: m for m in frame("gpt", FOX, "--layer", "2", "--head", "3")["maps"]}
    assert chosen.keys() == whole.keys() - {"rollout"} != whole.keys()
    for measure, maps in chosen.items():
        assert maps["weights"] == [[whole[measure]["weights"][1][2]]]
        assert maps["layers"] == [whole[measure]["layers"][1]]
    some = frame("gpt", FOX, "--layers", "1", "3")["maps"]
    assert {len(maps["weights"]) for maps in some} == {2} and len(some) == len(whole)
    cross = frame("translator", "two dogs play", "--map", "cross")["maps"]
    assert {maps["name"] for maps in cross} == {"cross"}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["nowhere", FOX], "nowhere"),
        (["gpt", FOX, "--json", "--layers", "9"], "there is no layer 9"),
        (["gpt", ""], "empty"),
        (["gpt", "text.txt"], "the input is the path of a file"),
        (["gpt", FOX, "--map", "cross"], "--map cross: the model has no such map"),
        (["gpt", FOX, "--layer", "9"], "--layer 9: must be from 1 to 3"),
        (["gpt", FOX, "--head", "0"], "must be from 1 to 6"),
        (["gpt", FOX, "--html", "x.html", "--layers", "9"], "layer 9"),
        (["gpt", "the fox " * 50], "but the model's context is 40 tokens"),
    ],
)
def test_an_impossible_request_is_refused_with_a_reason(
    words, message, run_headway, working_folder
):
    stderr = run_headway("inspect", *words, code=2)[1]
    assert message in stderr
    assert "nothing.png" in run_headway("inspect", "vit", "nothing.png", code=3)[1]
    assert not (working_folder / "x.html").exists()


def test_figures_are_drawn_from_the_named_models(run_headway, working_folder):
    stderr = run_headway("figures", "--output", "f", "--translator", "translator")[1]
    for name in ("positions", "mask", "agreement"):
        assert (working_folder / "f" / f"{name}.png").stat().st_size > 5000
    assert "not drawn monkey: needs --encoder" in stderr
    stderr = run_headway("figures", "positions", "--output", "f", code=2)[1]
    assert "exists already" in stderr
    options = ("--vision", "vit", "--image", "a.png", "--output", "f")
    stderr = run_headway("figures", "heads", *options)[1]
    assert "drawn     f/heads.png" in stderr
    assert "Did you mean mask" in run_headway("figures", "maks", code=2)[1]
    assert "--captioner --image" in run_headway("figures", "caption", code=2)[1]


def test_training_writes_a_report_with_its_attention_at_several_steps(run_headway, working_folder):
    page = working_folder / "runs" / "tiny" / "report.html"
    header = header_in(page)
    labels = [frame["label"] for frame in header["frames"]]
    # further steps are there if the machine is fast
    assert labels[0] == "step 0" and {"step 10", "step 20"} <= set(labels)
    report = header["report"]
    assert [f"step {step}" for step in report["film"]["steps"]] == labels
    assert len({frame["answer"] for frame in header["frames"]}) > 1
    assert ["data.vocabulary", 4000, 300] in report["changed"]
    assert "machine.threads" not in {name for name, *_ in report["changed"]}
    titles = [curve["title"] for curve in report["curves"]]
    assert "Loss" in titles and "Held out: nats" in titles
    (loss,) = [c for c in report["curves"] if c["title"] == "Held out: nats"]
    assert loss["lines"][0]["steps"] == [10, 20]
    assert report["config"]["training.steps"] == 20 and report["data"]["parameters"] > 0
    assert {sample["step"] for sample in report["samples"]} == {10, 20}
    ids = set(re.findall(r'class="block" id="([^"]+)"', page.read_text()))
    for frame in header["frames"]:
        assert set(frame["maps"][0]["blocks"]) <= ids
    run_headway("report", "runs/tiny", "--output", "again.html")
    assert header_in(working_folder / "again.html") == header
    assert "metrics.jsonl" in run_headway("report", "gpt", code=2)[1]


@pytest.mark.parametrize("suffix", ["webp", "gif", "png"])
def test_a_film_is_an_animated_picture_of_all_glimpses(run_headway, working_folder, suffix):
    path = working_folder / f"film.{suffix}"
    run_headway("report", "runs/tiny", "-o", path.name)
    glimpses = list((working_folder / "runs" / "tiny" / "glimpses").iterdir())
    with Image.open(path) as picture:
        # equal frames are one in a GIF and in a PNG
        assert 2 <= picture.n_frames <= len(glimpses) and picture.size == (900, 450)
    assert path.stat().st_size < 3_000_000
    assert "exists" in run_headway("report", "runs/tiny", "-o", path.name, code=2)[1]


def test_a_film_of_another_suffix_or_without_glimpses_is_refused(run_headway, working_folder):
    assert ".webp" in run_headway("report", "runs/tiny", "-o", "film.mp4", code=2)[1]
    (working_folder / "empty").mkdir(exist_ok=True)
    shutil.copy(working_folder / "runs" / "tiny" / "metrics.jsonl", working_folder / "empty")
    assert "0 glimpses" in run_headway("report", "empty", "-o", "film2.webp", code=2)[1]


def test_a_page_of_all_runs_has_their_results_curves_and_samples(run_headway, working_folder):
    run_headway("runs", "ls", "--page", "all.html")
    report = header_in(working_folder / "all.html")["report"]
    results, differing, samples = report["tables"]
    (row,) = results["rows"]
    assert row[0] == {"text": "tiny", "href": "runs/tiny/report.html"}
    assert row[1:4] == ["language modeling", "gpt", 20]
    assert differing["rows"] == [] and samples["rows"][0][0] == "tiny"
    assert {"language modeling, loss", "language modeling, held out: nats"} <= {
        curve["title"] for curve in report["curves"]
    }
    assert "exists" in run_headway("runs", "ls", "--page", "all.html", code=2)[1]


def test_a_damaged_glimpse_file_is_named(run_headway, working_folder):
    bad = working_folder / "runs" / "tiny" / "glimpses" / "step-000000015.safetensors"
    bad.write_bytes(b"nonsense")
    assert bad.name in run_headway("report", "runs/tiny", code=3)[1]
    bad.unlink()
    assert encode and report_of(working_folder / "runs" / "tiny")


@contextlib.contextmanager
def serving(working_folder, *words):
    """Run `headway ui` and yield its address."""
    words = ["ui", *words, "--port", "0", "--no-browser"]
    process = start(words, working_folder, stderr=subprocess.PIPE, text=True)
    try:
        line = ""
        while "http://" not in line:
            line = process.stderr.readline()
            assert line, "the server ended before it was ready"
        yield re.search(r"http://\S+", line)[0]
    finally:
        process.send_signal(signal.SIGINT)
        rest = process.communicate(timeout=60)[1]
        assert process.returncode in (0, 130), rest
        assert "Traceback" not in rest


def fetch(address, body=None, **headers):
    data = None if body is None else json.dumps(body).encode()
    kind = {"Content-Type": "application/json"} if body is not None else {}
    request = urllib.request.Request(address, data, {**kind, **headers})
    try:
        with urllib.request.urlopen(request, timeout=60) as response:
            return response.status, response.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


def test_the_live_page_is_served_to_this_machine_only(working_folder):
    with serving(working_folder, "gpt", FOX) as address:
        assert address.startswith("http://127.0.0.1:")
        status, page = fetch(address)
        assert status == 200 and b"Content-Security-Policy" in page
        first = json.loads(fetch(f"{address}api/header")[1])
        assert first["live"] and first["frames"][0]["maps"]
        block = first["frames"][0]["maps"][0]["blocks"][0]
        assert fetch(f"{address}api/block/{block}")[1][:2] == b"\x1f\x8b"
        request = {"text": "the dog eats", "heads": [["decoder", 0, 1]]}
        status, response = fetch(f"{address}api/without", request)
        labels = [frame["label"] for frame in json.loads(response)["frames"]]
        assert status == 200 and labels == ["all heads", "without decoder 1.2"]
        status, response = fetch(f"{address}api/walk", {**request, "map": "decoder", "position": 1})
        assert status == 200 and len(json.loads(response)["walk"]) > 8
        for body, message in (
            ({"text": ""}, "the text is missing"),
            ({"text": "a", "heads": [["decoder", 9, 0]]}, "layer 9"),
            ({"txt": "a"}, "txt"),
        ):
            status, response = fetch(f"{address}api/without", body)
            assert status == 400 and message in json.loads(response)["error"]
        assert fetch(f"{address}api/header", Host="evil.example")[0] == 403
        assert fetch(f"{address}api/look", {"text": "a"}, Origin="http://evil.example")[0] == 403
        assert fetch(f"{address}api/block/a9-b0")[0] == 404
        assert fetch(f"{address}run.yaml")[0] == 404
