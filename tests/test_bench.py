"""The report and the comparisons of `make bench`; the speeds themselves are not tested."""

import json
import sys
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from bench import __main__ as command
from bench import goals, length, scores
from bench.marian import SMOOTHING, Specials, marian_loss, to_marian
from bench.report import COMMANDS, Row, RowsOfDay, as_json, command_line, row, shown, table
from bench.sides import ATTENTION, Settings, fastest, interleave
from torch.testing import assert_close

from headway.blocks import SinusoidalTable
from headway.cli.doctor import KINDS
from headway.cli.measure import sentence_pairs
from headway.interop.hf_export_translator import order_of_halves
from headway.models import Translator, TranslatorConfig
from headway.tasks.translation.batches import TranslationBatch
from headway.tasks.translation.objective import TranslationObjective
from headway.training import peak_memory

PAD, BOS, EOS, V = 0, 1, 2, 19


def rounds(*speeds: tuple[float, float]) -> list[tuple[dict[str, float], dict[str, float]]]:
    return [({"work": 2 * a, "seconds": 2.0}, {"work": b, "seconds": 1.0}) for a, b in speeds]


def a_row(**changes: object) -> Row:
    pairs = rounds((12_000.0, 4000.0), (10_000.0, 5000.0), (9000.0, 9000.0))
    return row("training", pairs, "target tokens/s", "the peer", "cpu, 2 threads", **changes)


class Scripted:
    """A side that returns the times of a list and records its requests."""

    def __init__(self, *seconds: float) -> None:
        self.seconds, self.requests = list(seconds), []

    def ask(self, **question):
        self.requests.append(question)
        return {"work": 1, "seconds": self.seconds.pop(0)}


def test_the_ratio_is_the_median_over_pairs_of_neighbouring_rounds():
    measured = a_row()
    assert (measured.ours, measured.peer) == (10_000.0, 5000.0)
    assert measured.ratio == 2.0
    assert measured.spread == (1.0, 3.0)
    assert measured.reached


def test_less_memory_is_a_ratio_above_one():
    assert row("m", rounds((50.0, 300.0)), "MB", "p", "cpu", less_is_better=True).ratio == 6.0


def test_the_table_marks_only_rows_below_their_goal():
    slow = row("dropout", rounds((1.1, 1.0)), "calls/s", "torch dropout", "cpu", note="why")
    heading, fast_line, slow_line, note = table([a_row(), slow]).split("\n")
    assert "below" in slow_line and "below" not in fast_line
    assert "10,000" in fast_line and "5,000" in fast_line and "1.00..3.00" in fast_line
    assert heading.index("goal") == slow_line.index("1.50")
    assert note == "dropout: why"


def test_the_table_has_the_time_of_whole_commands_and_lists_functions_as_explanations():
    pairs = [({"work": 6, "seconds": 2, "whole": 5.0}, {"work": 1, "seconds": 1, "whole": 20.0})]
    of_user = replace(row("headway train", pairs, "steps/s", "the peer", "cpu"), by=COMMANDS)
    assert of_user.whole == (5.0, 20.0) and a_row().whole is None
    first, command_line_, title, _, function = shown([a_row(), of_user]).split("\n")
    assert "whole, s" in first and "5 / 20" in command_line_ and "command" in command_line_
    assert title.startswith("Explanations: functions") and function.startswith("training")
    assert "Explanations" not in shown([of_user]) and shown([a_row()]).count("Explanations") == 1


@pytest.mark.parametrize("kind", KINDS)
def test_a_goal_is_that_of_the_kind_of_machine(kind, monkeypatch):
    monkeypatch.setattr(goals, "machine_kind", lambda: KINDS[kind])
    assert goals.kind() == kind
    expected = {"avx2": 1.3, "avx512": 1.5, "bfloat16": 1.5, "gpu": 1.5}[kind]
    assert goals.goal("train a translator") == expected
    assert (goals.goal("serve beside transformers generate") is None) == (kind != "gpu")


def test_a_machine_of_another_kind_has_no_goals(monkeypatch):
    monkeypatch.setattr(goals, "machine_kind", lambda: "another kind")
    assert goals.kind() is None and all(goals.goal(name) is None for name in goals.GOALS)


def test_the_file_has_rows_versions_and_the_command():
    report = json.loads(as_json([a_row()], "python -m bench", {"threads": 2}))
    keys = {"name", "ours", "peer", "peer_name", "ratio", "goal", "spread", "device", "unit"}
    assert keys <= report["rows"][0].keys()
    assert {"headway", "torch", "transformers", "python", "kind"} <= report["versions"].keys()
    assert report["command"] == "python -m bench"
    assert report["conditions"] == {"threads": 2}


def test_the_rows_of_a_day_are_kept_until_the_conditions_change(tmp_path):
    path, conditions = tmp_path / "rows.json", {"threads": 2}
    day = RowsOfDay(path, conditions)
    first, second = a_row(), replace(a_row(note="why"), whole=(1.0, 2.0))
    day.add("b", "peer", [first])
    day.add("a", "other", [second, first])
    later = RowsOfDay(path, conditions)
    assert ("a", "other") in later and ("a", "peer") not in later
    assert later.of(("a", "b"), None) == [second, first, first]
    assert later.of(("a", "b"), ["peer"]) == [first]
    assert RowsOfDay(path, {"threads": 1}).of(("a", "b"), None) == []
    later.forget()
    assert later.of(("a", "b"), None) == []


def test_a_peer_that_fails_does_not_end_the_others(monkeypatch, tmp_path, capsys):
    """It is named, the exit code is 1, and --resume measures only what is missing."""
    requests = []

    class Peer:
        def __init__(self, settings):
            self.name = settings.side
            requests.append(settings.side)

        def __enter__(self):
            return self

        def __exit__(self, *error):
            pass

    broken = {"bad"}

    def measure(ours, peer, rounds, device):
        if peer.name in broken:
            raise RuntimeError("the process ended")
        yield replace(a_row(), name=f"speed beside {peer.name}")

    claim = SimpleNamespace(PEERS=("good", "bad", "last"), measure=measure)
    monkeypatch.setattr(command, "import_module", lambda name: claim)
    monkeypatch.setattr(command, "Side", Peer)
    words = ["--only", "scores", "--cache", str(tmp_path)]
    assert command.main(words) == 1
    printed = capsys.readouterr().out
    assert "speed beside good" in printed and "speed beside last" in printed
    assert "not measured: scores beside bad failed: the process ended" in printed
    broken.clear()
    requests.clear()
    assert command.main([*words, "--resume"]) == 0
    assert requests == ["ours", "bad"]
    assert "speed beside bad" in capsys.readouterr().out
    monkeypatch.setattr(command, "ROOT", tmp_path)
    monkeypatch.setattr(command, "CLAIMS", {"scores": (20, 2)})
    monkeypatch.setattr(command, "kind", lambda: "avx2")
    assert command.main(["--cache", str(tmp_path), "--resume"]) == 0
    assert list((tmp_path / "bench" / "results").glob("avx2-*.json"))


def test_the_command_names_no_folder_of_the_machine():
    arguments = ["--rounds", "7", "--run", "/somewhere/of mine/run-1"]
    assert command_line(arguments) == "python -m bench --rounds 7 --run run-1"
    assert command_line(["--run=/somewhere/run-1"]) == "python -m bench --run=run-1"


def test_rounds_alternate_after_a_discarded_warm_up():
    ours, peer = Scripted(9.0, 1.0, 2.0), Scripted(9.0, 3.0, 4.0)
    pairs = interleave(ours, peer, 2, dtype="float32")
    assert [(a["seconds"], b["seconds"]) for a, b in pairs] == [(1.0, 3.0), (2.0, 4.0)]
    assert ours.requests == [{"dtype": "float32"}] * 3

    assert len(interleave(ours, Scripted(3.0), 0, warm_up=False)) == 0


def test_the_peer_runs_with_the_settings_whose_call_was_faster():
    peer = Scripted(9.0, 1.0, 5.0, 2.0)  # warm-ups, then sdpa, eager
    assert fastest(peer, ATTENTION) == {"attention": "eager"}
    assert [q["attention"] for q in peer.requests] == ["sdpa", "eager"] * 2
    peer = Scripted(1.0, 2.0)  # commands warm themselves up
    assert fastest(peer, ATTENTION, warm_up=False, run="r") == {"attention": "sdpa"}
    assert peer.requests[0] == {"attention": "sdpa", "run": "r"}


def test_synthetic_sentences_depend_on_the_seed_and_are_as_long_as_captions():
    pairs = sentence_pairs(200, seed=1)
    assert pairs == sentence_pairs(200, seed=1) != sentence_pairs(200, seed=2)
    lengths = [len(source.split()) for source, _ in pairs]
    assert all(7 <= length <= 23 for length in lengths) and len(set(lengths)) > 8
    assert all(len(a.split()) == len(b.split()) for a, b in pairs)


def test_peak_memory_counts_tensors_that_exist_at_the_same_time():
    def run() -> None:
        for _ in range(3):
            torch.empty(50_000)
        both = torch.empty(1000), torch.empty(60_000)
        del both

    assert 244_000 <= peak_memory(run) < 250_000


def in_process(side, work: int):
    """Return a side that computes in this process."""
    settings = Settings(claim="", side="", folder="", threads=1, allocator=False, work=work)
    worker = side(settings)
    return SimpleNamespace(ask=lambda **question: worker(question))


def test_a_row_without_a_goal_is_listed_and_never_below():
    without_goal = row("time", rounds((1.0, 9.0)), "calls/s", "dot", "cpu", goal=None)
    assert without_goal.reached
    assert "below" not in table([without_goal]) and "1.50" not in table([without_goal])


def test_every_score_function_is_measured_against_the_reference(monkeypatch):
    """All sizes are different numbers; only the memory of additive attention has a goal."""
    monkeypatch.setattr(scores, "SIZES", {"sentences": (3, 2, 5, 4), "long": (1, 2, 40, 4)})
    rows = scores.measure(
        in_process(scores.ours, work=1), in_process(scores.peer, work=1), 1, "cpu"
    )
    assert len(rows) == 2 * 2 * len(scores.KERNELS)
    assert {r.name for r in rows if r.goal is not None} == {
        "additive, B3 H2 T5 K4, memory",
        "additive, B1 H2 T40 K4, memory",
    }
    assert all(r.ours > 0 and r.peer > 0 for r in rows)
    by_name = {r.name: r for r in rows}
    long = by_name["linear, B1 H2 T40 K4, memory"]
    assert long.peer > 40 * 40 * 2 * 4 / 1e6  # the reference stores all scores


def test_the_exponent_is_the_slope_of_the_logarithms():
    assert length.exponent([(n, 3 * n**2) for n in (8, 32, 64)]) == pytest.approx(2.0)
    assert length.exponent([(1, 5.0), (2, 10.0), (8, 40.0)]) == pytest.approx(1.0)


def test_growth_is_fitted_to_the_last_lengths_and_compared_with_its_bound():
    line = [(1, 90.0), (2, 90.0), (4, 4.0), (8, 8.0), (16, 16.0)]
    growth = length.growth_row("linear", [line] * 3, "cpu")
    assert (growth.ours, growth.ratio, growth.reached) == pytest.approx((1.0, 1.2, True))
    assert growth.points[0] == (1, 90.0) and len(growth.points) == 5
    square = [(n, float(n * n)) for n in (1, 2, 4)]
    assert not length.growth_row("linear", [square], "cpu").reached
    assert length.growth_row("dot", [square], "cpu", quadratic=True).reached
    assert not length.growth_row("dot", [line], "cpu", quadratic=True).reached


def test_growth_is_the_median_of_the_rounds_with_their_spread():
    lines = [[(n, factor * n) for n in (1.0, 2.0, 4.0)] for factor in (1.0, 2.0, 9.0)]
    lines[2][2] = (4.0, 9.0 * 16)
    growth = length.growth_row("linear", lines, "cpu")
    assert growth.points == ((1.0, 2.0), (2.0, 4.0), (4.0, 8.0))
    assert growth.ours == pytest.approx(1.0)
    assert growth.spread == pytest.approx((1.2 / 2.0, 1.2))


def test_every_kernel_is_measured_and_drawn_up_to_its_greatest_length(monkeypatch, tmp_path):
    monkeypatch.setattr(length, "LENGTHS", (8, 16, 32, 64))
    kernels = {"linear": (length.LinearDot, 64), "scaled dot": (length.ScaledDot, 32)}
    monkeypatch.setattr(length, "KERNELS", kernels)
    side = in_process(length.ours, work=0)  # one call each
    rows = length.measure(side, side, 1, "cpu")
    assert [len(r.points) for r in rows] == [4, 3, 4, 3]
    plotted = {}

    def line_plot(path, series, **rest):
        plotted.update(rest, path=path, series=series)

    monkeypatch.setitem(
        sys.modules, "headway.inspection.plots", SimpleNamespace(line_plot=line_plot)
    )
    (tmp_path / "report.json").write_text(as_json([*rows, a_row()], "", {}), encoding="utf-8")
    length.draw(tmp_path / "report.json", tmp_path / "plot.svg")
    assert plotted["path"] == tmp_path / "plot.svg" and plotted["log_x"] and plotted["log_y"]
    (name, line), *other_series = plotted["series"].items()
    assert name.startswith("linear, T^") and len(other_series) == 1
    assert line == list(rows[2].points) and [tokens for tokens, _ in line] == [8, 16, 32, 64]


def test_marians_position_table_equals_ours_in_marians_order():
    from transformers.models.marian.modeling_marian import MarianSinusoidalPositionalEmbedding

    theirs = MarianSinusoidalPositionalEmbedding(50, 24).create_weight()
    ours = SinusoidalTable(24)(torch.arange(50)[None])[0]
    assert_close(ours[:, order_of_halves(24)], theirs, rtol=0, atol=1e-6)


@pytest.fixture
def pair():
    config = TranslatorConfig(
        model_dim=24,
        num_heads=3,
        ffn_dim=40,
        encoder_layers=2,
        decoder_layers=3,
        norm="post",
        source_vocabulary=V,
        target_vocabulary=V,
    )
    model = Translator(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
    return model, to_marian(model, Specials(PAD, BOS, EOS))


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_both_sides_minimise_the_same_loss_and_get_the_same_gradient(pair, attention):
    """The batch has padding, the loss is smoothed, and the matrix is shared."""
    model, theirs = pair
    theirs.set_attn_implementation(attention)
    source = torch.tensor([[5, 6, 7, EOS], [8, EOS, PAD, PAD]])
    batch = TranslationBatch(
        source,
        source != PAD,
        torch.tensor([[BOS, 9, 10], [BOS, 11, PAD]]),
        torch.tensor([[9, 10, EOS], [11, EOS, PAD]]),
        (0, 1),
    )
    loss = TranslationObjective(PAD, SMOOTHING)(model, batch)
    expected = marian_loss(theirs, batch, PAD)
    assert_close(loss.total / loss.count, expected)
    (loss.total / loss.count).backward()
    expected.backward()
    our_grad = model.source_embedding.tokens.weight.grad[:, order_of_halves(24)]
    their_grad = theirs.model.shared.weight.grad
    assert_close(our_grad[1:], their_grad[1:])  # Marian does not train the vector of padding
