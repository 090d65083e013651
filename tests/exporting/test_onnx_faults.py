"""A broken ONNX export is never handed over: every planted fault is found by the runtime."""

import json
import shutil

import pytest
import torch

from headway.base.errors import HeadwayError, UsageError
from headway.bundle import TextBundle
from headway.exporting.described import compare_files
from headway.exporting.onnx.export import ONNX, open_export
from headway.exporting.opened import opened_export
from headway.exporting.target import export
from headway.exporting.verified import check_scores, compare_models, compare_readers
from tests.fixtures.command_line import headway as run_headway
from tests.fixtures.gguf_models import GPT2, bpe, model
from tests.fixtures.onnx_faults import FAULTS, broken

pytest.importorskip("onnxruntime")
pytest.importorskip("onnxscript")


@pytest.fixture(scope="session")
def exported(tmp_path_factory):
    """A small GPT-2 and its verified export."""
    tokenizer = bpe()
    bundle = TextBundle(model(tokenizer, **GPT2), tokenizer)
    return bundle, export(bundle, tmp_path_factory.mktemp("gpt") / "onnx", ONNX)


@pytest.fixture
def copy(exported, tmp_path):
    """A copy of the folder, to break it."""
    return shutil.copytree(exported[1].folder, tmp_path / "copy")


def test_onnxruntime_computes_the_same_model(exported):
    bundle, result = exported
    assert max(result.difference.values()) < 1e-5 and result.tokens == 96
    assert result.architecture == "GPT2LMHeadModel" and result.texts > 20
    files = {path.name for path in result.folder.iterdir()}
    assert {"onnx", "headway", "config.json", "tokenizer.json", "tokenizer_config.json"} <= files
    assert not list(result.folder.rglob("*.safetensors")), "the weights are in the graph alone"
    reopened = open_export(result.folder)
    settings = {"max_tokens": 12, "temperature": 0.0}
    texts = [one[0].text for one in reopened.generate(["the old", "naïve"], **settings)]
    assert texts == [one[0].text for one in bundle.generate(["the old", "naïve"], **settings)]


def test_nothing_but_the_runtime_computes(exported):
    network = open_export(exported[1].folder).model
    assert all(bool(parameter.isnan().all()) for parameter in network.parameters())


@pytest.mark.parametrize("fault", FAULTS)
def test_a_broken_graph_is_found(exported, copy, fault):
    graph = copy / "onnx" / "model.onnx"
    broken(graph, graph, FAULTS[fault])
    with pytest.raises(HeadwayError, match="the folder was removed"):
        compare_models(exported[0].model, open_export(copy).model, "here")


def _without_a_merge(content):
    content["model"]["merges"].pop(0)


def _without_an_added_token(content):
    content["added_tokens"] = []


def _other_id(content):
    content["eos_token_id"] = 7


@pytest.mark.parametrize(
    ("file", "change"),
    [
        ("tokenizer.json", _without_a_merge),
        ("tokenizer.json", _without_an_added_token),
        ("generation_config.json", _other_id),
    ],
)
def test_a_broken_file_beside_the_graph_is_found(exported, copy, file, change):
    content = json.loads((copy / file).read_text())
    change(content)
    (copy / file).write_text(json.dumps(content))
    with pytest.raises(HeadwayError):
        compare_files(exported[0], open_export(copy), copy, "here")


def test_another_score_is_found():
    check_scores({"perplexity": 12.0}, {"perplexity": 12.01}, "here")
    with pytest.raises(HeadwayError, match="perplexity is 13"):
        check_scores({"perplexity": 12.0}, {"perplexity": 13.0}, "here")
    with pytest.raises(HeadwayError):
        check_scores({"accuracy": 0.9}, {"accuracy": float("nan")}, "here")


def test_another_tokenizer_is_found(exported):
    bundle, _ = exported
    other = bpe()
    compare_readers(bundle, TextBundle(bundle.model, other), "here")
    shorter = type(other).train(["other words that are merged otherwise " * 9], 270)
    with pytest.raises(HeadwayError):
        compare_readers(bundle, TextBundle(bundle.model, shorter), "here")


def test_a_graph_of_nan_is_no_success(exported):
    bundle, _ = exported
    ours = bundle.model

    class Nowhere(type(ours)):
        def forward(self, tokens, documents=None):
            return super().forward(tokens) * float("nan")

    theirs = Nowhere(ours.config).eval()
    theirs.load_state_dict(ours.state_dict())
    with pytest.raises(HeadwayError, match="differ by nan"):
        compare_models(ours, theirs, "here")


def test_a_folder_that_exists_stays(exported, tmp_path):
    (tmp_path / "out").mkdir()
    with pytest.raises(UsageError, match="exists"):
        export(exported[0], tmp_path / "out", ONNX)


def test_a_missing_package_is_named(exported, tmp_path, monkeypatch):
    monkeypatch.setattr("headway.exporting.onnx.running.find_spec", lambda name: None)
    with pytest.raises(UsageError) as raised:
        export(exported[0], tmp_path / "out", ONNX)
    assert raised.value.hint == "pip install 'headway[onnx]'"
    assert not (tmp_path / "out").exists()


def test_a_missing_graph_is_named(copy):
    (copy / "onnx" / "model.onnx").unlink()
    with pytest.raises(HeadwayError, match="the graph model is missing"):
        open_export(copy)


def test_an_exported_folder_is_evaluated_by_its_runtime(exported, tmp_path):
    bundle, result = exported
    text = tmp_path / "text.txt"
    text.write_text("the old baker waves to the children " * 30)
    bundle.save(tmp_path / "model")
    scores = [
        json.loads(run_headway("eval", str(folder), str(text), "--json", cwd=tmp_path).stdout)
        for folder in (tmp_path / "model", result.folder, result.folder / "onnx" / "model.onnx")
    ]
    assert scores[1]["perplexity"] == pytest.approx(scores[0]["perplexity"], rel=1e-5)
    measured = [one.pop("exported") for one in scores[1:]]
    assert scores[2] == scores[1] and measured[0]["tokens_per_second"] > 0
    assert [one["dtype"] for one in measured] == ["float32"] * 2
    with opened_export(result.folder) as opened:
        assert opened.dtype == "float32" and opened.size == result.size
        assert opened.runtime.startswith("onnxruntime ")
    with opened_export(tmp_path / "model") as opened:
        assert opened is None
    with (
        pytest.raises(UsageError, match="--runtime llama"),
        opened_export(result.folder, "llama.cpp"),
    ):
        pass


@torch.no_grad()
def test_a_batch_of_different_lengths_is_padded_at_the_left(exported):
    bundle, result = exported
    network = open_export(result.folder).model
    tokens = torch.randint(3, 300, (3, 6), generator=torch.Generator().manual_seed(0))
    keys = torch.arange(6) < torch.tensor([[6], [1], [3]])
    states = [one.start(tokens, keys) for one in (bundle.model, network)]
    models = (bundle.model, network)
    for lengths in ([6, 1, 3], [5, 2, 1]):
        for state in states:
            state.rewind(lengths)
        assert states[0].lengths == states[1].lengths == lengths
        both = [one.step(tokens[:, :2], s) for one, s in zip(models, states, strict=True)]
        torch.testing.assert_close(both[1][0], both[0][0], atol=1e-5, rtol=1e-5)
        states = [state for _, state in both]
