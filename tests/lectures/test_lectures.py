"""Claims of the lectures: they hold with small settings, and a planted bug refutes them."""

import json
import math
import sys
import time
from dataclasses import replace
from functools import cache
from types import SimpleNamespace

import pytest
import torch

from headway.attention import Mask, ScaledDot
from headway.blocks import Added, NoPositions, SinusoidalTable
from headway.cli.main import main
from headway.lectures import (
    CLAIMS,
    Claim,
    Result,
    few_shot,
    gradients,
    growing_keys,
    order,
    scaling,
)
from headway.lectures.claim import table
from headway.models import TranslatorConfig
from headway.transforms.fast.dot import FusedDot
from tests.fixtures.command_line import headway

QUICK = {
    "scaling": {"widths": (4, 64, 512), "keys": 12, "queries": 256, "seeds": 2},
    "order": {"layers": (1, 3), "sentences": 5, "length": 7, "seeds": 2},
    "growing-keys": {"lengths": (17, 160), "heads": 3, "head_dim": 5, "rounds": 3},
    "gradients": {"lengths": (5, 40), "sentences": 2, "seeds": 2},
    "few-shot": {"steps": 300, "prompts": 300, "shots": (0, 1, 8)},
}


MEASURES = {
    name: claim.measure for name, claim in CLAIMS.items()
}  # a fixture replaces those of CLAIMS


FRACTIONS: dict[str, list[float]] = {}


@cache
def quick(name: str) -> Result:
    FRACTIONS[name] = []
    with pytest.MonkeyPatch.context() as patch:
        # CPU time of this thread, which other processes do not change
        patch.setattr(growing_keys.time, "perf_counter", time.thread_time)
        return MEASURES[name](**QUICK[name], report=FRACTIONS[name].append)


@pytest.fixture
def plots(monkeypatch):
    """Return a list of the arguments of each plot; the file is written, empty."""
    calls = []

    def line_plot(path, series, *, title, x_label, y_label, log_x=False, log_y=False):
        path.write_text("<svg/>")
        calls.append(SimpleNamespace(series=series, title=title, log_x=log_x, log_y=log_y))

    name = "headway.inspection.plots"
    monkeypatch.setitem(sys.modules, name, SimpleNamespace(line_plot=line_plot))
    return calls


def test_every_claim_has_quick_settings():
    assert set(QUICK) == set(CLAIMS)


@pytest.mark.parametrize("name", CLAIMS)
def test_a_claim_keeps_the_contract(name, plots, tmp_path):
    claim, result = CLAIMS[name], quick(name)
    assert isinstance(claim, Claim) and isinstance(result, Result)
    assert "\n" not in claim.CLAIM and len(claim.CLAIM) < 100
    assert json.loads(json.dumps(result.as_dict(), allow_nan=False))
    lines = [line for line in result.markdown().split("\n") if line.startswith("|")]
    assert len(lines) >= 3 and len({line.count("|") for line in lines}) == 1
    claim.plot(result, tmp_path / "x.svg")
    assert (tmp_path / "x.svg").is_file() and plots[0].title == claim.TITLE
    for points in plots[0].series.values():
        assert [x for x, _ in points] == sorted(x for x, _ in points)
        assert all(isinstance(x, float) and isinstance(y, float) for x, y in points)
        assert all(y > 0 for _, y in points) or not plots[0].log_y


@pytest.mark.parametrize("name", CLAIMS)
def test_a_claim_reports_its_progress(name):
    quick(name)
    fractions = FRACTIONS[name]
    assert len(fractions) >= 4 and fractions == sorted(fractions)
    assert fractions[0] > 0 and fractions[-1] == pytest.approx(1)


@pytest.mark.parametrize("name", CLAIMS)
def test_a_claim_writes_its_plot(name, tmp_path):
    pytest.importorskip("headway.inspection.plots")
    CLAIMS[name].plot(quick(name), tmp_path / "x.svg")
    assert "<svg" in (tmp_path / "x.svg").read_text()


@pytest.mark.parametrize("name", CLAIMS)
def test_the_claim_holds_with_small_settings(name):
    assert quick(name).verdict.startswith("holds: "), quick(name).verdict


def test_the_softmax_saturates_without_the_scale_only():
    result = quick("scaling")
    dots, scaled = (result.column(kernel, "entropy") for kernel in ("dot", "scaled dot"))
    assert [d for d, _ in dots] == [d for d, _ in scaled] == [4, 64, 512]
    assert dots[0][1] > dots[1][1] > dots[2][1] and dots[2][1] < 0.1
    assert all(abs(entropy - scaled[0][1]) < 0.05 for _, entropy in scaled)
    assert result.relative_to_smallest("dot", "typical_score_gradient") < 0.01
    assert result.column("dot", "saturated")[-1][1] > 0.5
    assert {saturated for _, saturated in result.column("scaled dot", "saturated")} == {0.0}


def test_the_gradients_are_those_of_the_softmax():
    """One query by its equations: dL/dscores = a (g - a·g), dL/dq = dL/dscores K / sqrt d."""
    width, keys = 6, 4
    inputs = next(scaling._inputs(width, keys, 16, 1))
    weights, score_gradient, query_gradient = scaling._measure(ScaledDot(), *inputs)
    q, k, v, direction = (x[0, 0] for x in inputs)
    a = torch.softmax(k @ q[3] / math.sqrt(width), 0)
    gradient = v @ direction[3]
    expected = a * (gradient - a @ gradient)
    torch.testing.assert_close(weights[3], a)
    torch.testing.assert_close(score_gradient[3], expected)
    torch.testing.assert_close(query_gradient[3], (expected @ k / math.sqrt(width)).norm())


def test_a_kernel_without_the_scale_refutes_the_claim():
    class Unscaled(ScaledDot):
        def forward(self, q, k, v, mask, bias=None):
            return super().forward(q * math.sqrt(q.shape[-1]), k, v, mask, bias)

    result = scaling.measure(**QUICK["scaling"], scaled=Unscaled())
    assert result.verdict.startswith("does not hold: ")


def test_a_dot_product_whose_gradient_does_not_vanish_refutes_the_claim():
    result = quick("scaling")
    scaled = [row for row in result.rows if row.kernel == "scaled dot"]
    rows = [replace(row, kernel=name) for row in scaled for name in ("dot", "scaled dot")]
    assert replace(result, rows=tuple(rows)).verdict.startswith("does not hold: ")


def test_the_loop_over_growing_keys_equals_the_causal_mask():
    q, k, v = (torch.randn(2, 3, 7, width, dtype=torch.float64) for width in (4, 4, 5))
    for kernel in (ScaledDot(), FusedDot()):
        looped = growing_keys.growing_keys(kernel, q, k, v)
        torch.testing.assert_close(looped, kernel(q, k, v, Mask(causal=True)), rtol=0, atol=1e-12)
        assert not torch.allclose(looped, kernel(q, k, v, Mask()))


def test_a_kernel_that_attends_to_the_future_differs_from_the_loop():
    class Unmasked(ScaledDot):
        def forward(self, q, k, v, mask, bias=None):
            return super().forward(q, k, v, Mask(), bias)

    result = growing_keys.measure(**QUICK["growing-keys"], kernels=[Unmasked()])
    assert result.verdict.startswith("does not hold: ")
    assert min(row.difference64 for row in result.rows) > 0.01


def test_a_mask_slower_than_the_loop_refutes_the_claim():
    result = quick("growing-keys")
    slow = replace(result.rows[0], mask_seconds=2 * result.rows[0].loop_seconds)
    assert slow.ratio == 0.5
    assert replace(result, rows=(slow, *result.rows[1:])).verdict.startswith("does not hold: ")


def test_positions_that_leak_into_a_model_without_positions_refute_the_claim(monkeypatch):
    sines = SinusoidalTable(TranslatorConfig().model_dim)
    monkeypatch.setattr(
        NoPositions, "forward", lambda self, x, positions: x + 0.1 * sines(positions)
    )
    assert order.measure(**QUICK["order"]).verdict.startswith("does not hold: ")


def test_positions_that_are_not_added_refute_the_claim(monkeypatch):
    monkeypatch.setattr(Added, "forward", lambda self, x, positions: x)
    assert order.measure(**QUICK["order"]).verdict.startswith("does not hold: ")


def test_measuring_order_does_not_change_the_global_random_state():
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    order.measure(layers=(1,), sentences=2, length=3, seeds=1)
    assert torch.equal(torch.rand(3), expected)


@pytest.mark.parametrize(
    ("measure", "wrong"),
    [
        (scaling.measure, {"widths": (4,)}),
        (scaling.measure, {"queries": 20}),
        (growing_keys.measure, {"lengths": ()}),
        (growing_keys.measure, {"rounds": 0}),
        (growing_keys.measure, {"kernels": ()}),
        (order.measure, {"layers": ()}),
        (order.measure, {"length": 1}),
        (gradients.measure, {"lengths": (7, 7)}),
        (gradients.measure, {"sentences": 0}),
        (gradients.measure, {"seeds": 0}),
    ],
)
def test_settings_that_measure_nothing_are_refused(measure, wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        measure(**wrong)


def test_a_table_has_three_digits():
    assert table(("a", "b"), [(1, 0.123456)]) == "| a | b |\n| --- | --- |\n| 1 | 0.123 |"


@pytest.fixture
def command(monkeypatch, tmp_path, plots):
    """Return a function that runs the command line in an empty folder with quick settings and
    returns (code, stdout, stderr)."""
    monkeypatch.chdir(tmp_path)
    for name, claim in CLAIMS.items():
        monkeypatch.setattr(claim, "measure", lambda report, name=name: quick(name))

    def run(capfd, *words):
        with pytest.raises(SystemExit) as leaving:
            main(["lecture", *words])
        return (leaving.value.code, *capfd.readouterr())

    return run


def test_the_command_lists_the_claims(command, capfd):
    code, output, _ = command(capfd)
    assert code == 0
    assert [line.split()[0] for line in output.strip().split("\n")] == list(CLAIMS)
    listed = [json.loads(line) for line in command(capfd, "--json")[1].strip().split("\n")]
    assert [row["claim"] for row in listed] == [claim.CLAIM for claim in CLAIMS.values()]


def test_the_installed_command_lists_the_claims_too(tmp_path):
    assert headway("lecture", cwd=tmp_path).stdout.count("\n") == len(CLAIMS)
    assert not list(tmp_path.iterdir())


def test_the_command_measures_prints_and_writes(command, capfd, tmp_path):
    code, output, _ = command(capfd, "order", "--threads", "1")
    assert code == 0 and "| none | 1 |" in output and "\nholds: " in output
    folder = tmp_path / "lectures" / "order"
    assert {path.name for path in folder.iterdir()} == {"order.md", "order.json", "order.svg"}
    page, record = (folder / "order.md").read_text(), (folder / "order.json").read_text()
    assert "**It holds: " in page and "(order.svg)" in page and "| none | 1 |" in page
    assert json.loads(record)["result"] == json.loads(json.dumps(quick("order").as_dict()))


def test_the_command_prints_json(command, capfd):
    code, output, _ = command(capfd, "scaling", "--json", "--output", "here")
    assert code == 0 and json.loads(output)["verdict"] == quick("scaling").verdict


def test_existing_files_are_replaced_only_with_overwrite(command, capfd, tmp_path):
    (tmp_path / "here").mkdir()
    page = tmp_path / "here" / "order.md"
    page.write_text("mine")
    code, _, error = command(capfd, "order", "--output", "here")
    assert code == 2 and "files exist already: order.md" in error and "--overwrite" in error
    assert page.read_text() == "mine" and len(list(page.parent.iterdir())) == 1
    assert command(capfd, "order", "--output", "here", "--overwrite")[0] == 0
    assert "It holds" in page.read_text()


def test_wrong_names_and_folders_are_usage_errors(command, capfd, tmp_path):
    code, _, error = command(capfd, "scalling")
    assert code == 2 and "Did you mean scaling?" in error
    (tmp_path / "file").touch()
    code, _, error = command(capfd, "order", "--output", "file/inside")
    assert code == 2 and "cannot make the folder" in error
    assert command(capfd, "order", "--threads", "0")[0] == 2


def test_a_model_whose_gradient_does_not_vanish_refutes_the_claim():
    result = quick("gradients")
    rows = [replace(row, gradient=1.0) for row in result.rows]
    assert replace(result, rows=tuple(rows)).verdict.startswith("does not hold: ")


def test_the_gradient_of_each_source_word_equals_finite_differences():
    model = gradients._model({"cell": "gru", "attention": "none"})
    source, target = torch.tensor([[3, 5, 7]]), torch.tensor([[2, 9, 4]])
    norms = gradients.first_to_last(model, source, target)
    x = model.source_embedding(source).detach()

    @torch.no_grad()
    def log_p(x):
        hidden = model.decoder(
            model.target_embedding(target[:, :-1]), model.encoder(x, Mask()), Mask()
        )
        return model.output(hidden[:, -1]).log_softmax(-1)[0, 4]

    for position in range(3):
        steps = []
        for i in range(x.shape[-1]):
            moved = x.clone()
            moved[0, position, i] += 1e-6
            steps.append(float(log_p(moved) - log_p(x)) / 1e-6)
        assert float(norms[0, position]) == pytest.approx(math.hypot(*steps), rel=1e-3)


@pytest.mark.parametrize("name", gradients.MODELS)
def test_the_gradients_of_a_padded_sentence_are_those_of_the_sentence_alone(name):
    model = gradients._model(gradients.MODELS[name])
    long, short, target = [3, 5, 7, 4, 6], [8, 9, 6], torch.tensor([[2, 9, 4], [2, 4, 5]])
    source = torch.tensor([long, [*short, 0, 0]])
    norms = gradients.first_to_last(model, source, target, source != 0)
    alone = gradients.first_to_last(model, torch.tensor([short]), target[1:])
    torch.testing.assert_close(norms[1:, :3], alone)
    assert bool((alone > 0).all()) and not norms[1, 3:].any()
    full = gradients.first_to_last(model, torch.tensor([long]), target[:1])
    torch.testing.assert_close(norms[:1], full)


def test_without_attention_the_gradient_shrinks_by_a_factor_with_every_word():
    """In a bidirectional encoder the gradient skips the encoder's path: half as many factors."""
    result = quick("gradients")
    factors = {name: result.growth_per_word(name) for name in gradients.MODELS}
    assert factors["GRU"] < 0.5 and factors["LSTM"] < 0.75
    assert factors["GRU, bidirectional"] == pytest.approx(math.sqrt(factors["GRU"]), abs=0.05)
    fractions = {row.model: row.relative_to_last for row in result.rows if row.length == 40}
    assert fractions["GRU"] < 1e-5 and fractions["LSTM"] < 1e-2
    assert all(
        0.5 < fraction < 5 for name, fraction in fractions.items() if name not in ("GRU", "LSTM")
    )


def test_the_best_prediction_counts_each_function_that_agrees_with_all_examples():
    functions = torch.tensor([[0, 1, 2], [0, 2, 2], [1, 1, 0]])
    prompt = torch.tensor([[0, 0, 1], [0, 1, 2], [2, 1, 0]])  # two, one and no function agree
    expected = [[0, 1, 1], [1, 0, 0], [0, 0, 0]]
    assert few_shot._posterior(functions, prompt).tolist() == expected


def test_examples_that_do_not_help_refute_the_claim():
    def result(*accuracies, wrong=0.1):
        rows = [
            few_shot.Row(shots=i, accuracy=value, best=1.0, random_answers=wrong)
            for i, value in enumerate(accuracies)
        ]
        return few_shot.FewShotResult(rows=tuple(rows), steps=1, prompts=1)

    assert result(0.1, 0.5, 0.9).verdict.startswith("holds")
    assert result(0.1, 0.9, 0.9).verdict.startswith("does not hold")
    assert result(0.1, 0.5, 0.9, wrong=0.6).verdict.startswith("does not hold")
