"""Translation as a run: sentences that are too long, the scores, and predictions."""

import json
import shutil
from dataclasses import replace

import pytest
import torch

from headway import load
from headway.base.errors import DataError, UsageError
from headway.base.metrics_file import read_metrics
from headway.base.settings import override
from headway.cli.main import main
from headway.evaluation import score_against_several, score_translations
from headway.evaluation.bleu import TRANSLATION_METRICS
from headway.evaluation.text_overlap import TEXT_METRICS, score_texts
from headway.runs import recipe, saved, train
from headway.tasks import registry
from headway.tasks.translation.batches import collate_sources
from headway.tasks.translation.config import TranslationScoring
from headway.tasks.translation.evaluation import word_counts
from headway.tasks.translation.options import TranslateInput, TranslateOptions
from tests.fixtures.command_line import headway, sentences
from tests.fixtures.translators import make

TASK = registry.task("translation")
TINY = {
    "model.model_dim": 24,
    "model.num_heads": 3,
    "model.ffn_dim": 40,
    "model.encoder_layers": 1,
    "model.decoder_layers": 1,
    "data.vocabulary": 300,
    "training.tokens": 220,
    "training.steps": 2,
    "schedule.kind": "inverse-sqrt",  # independent of the number of steps
    "schedule.warmup": 1,
    "evaluation.sentences": 4,
    "evaluation.every": 2,
    "checkpoint.every": 2,
    "machine.threads": 1,
    "machine.device": "cpu",
}


def configured(folder, valid):
    for name, pairs in (("train", sentences()[20:]), ("valid", valid)):
        rows = "\n".join(f"{source}\t{target}" for source, target in pairs)
        (folder / f"{name}.tsv").write_text(rows + "\n")
    data = {"data.train": str(folder / "train.tsv"), "data.valid": str(folder / "valid.tsv")}
    return recipe("translate", ("test", {**TINY, **data}))


def test_a_validation_sentence_that_is_too_long_is_left_out_of_the_scores(tmp_path):
    pairs = [*sentences()[:3], ("ax" * 3000, "ein Wort")]
    events = []
    train(configured(tmp_path, pairs), tmp_path / "run", listeners=[events.append])
    notes = [event["text"] for event in events if event["kind"] == "note"]
    assert "1 validation sentences have more than 4,096 tokens and are not translated" in notes
    assert any(event["kind"] == "valid" for event in events)


def test_validation_sentences_that_are_all_too_long_are_refused(tmp_path):
    pairs = [("ax" * 3000, "ein Wort")] * 4 + sentences()[:3]
    with pytest.raises(DataError, match="all validation sentences have more than 4,096 tokens"):
        train(configured(tmp_path, pairs), tmp_path / "run")


@pytest.mark.turns(2)
@pytest.mark.parametrize("held_out", [True, False], ids=["held out of train", "a file"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_training_python_and_the_command_line_give_the_same_scores(
    tmp_path, capsys, held_out, dtype
):
    pairs = [*sentences()[:3], ("ax" * 3000, "ein Wort"), *sentences()[3:9]]
    config = configured(tmp_path, pairs)
    changes = {"training.steps": 40, "optimizer.lr": 1e-2, "evaluation.every": 40}
    if held_out:
        changes |= {"data.valid": None}
        (tmp_path / "valid.tsv").unlink()
    config = override(config, {**changes, "machine.dtype": dtype}, "test")
    train(config, tmp_path / "run")
    (logged,) = read_metrics(tmp_path / "run" / "metrics.jsonl", "valid")
    options = TranslationScoring(split="valid", beam=1)
    bundle = load(tmp_path / "run")
    examples = TASK.held_out(bundle, tmp_path / "run", saved(tmp_path / "run"), options)
    scores = TASK.evaluate(bundle, examples, options)
    assert list(scores.numbers()) == ["bleu", "chrf", "nats"]
    assert scores.numbers() == {name: logged[name] for name in scores.numbers()}
    assert scores["chrf"] > 0 and scores.counts["sentences"] in (3, 4)
    assert not scores.metric("nats").higher_is_better and scores.metric("bleu").higher_is_better
    with pytest.raises(SystemExit) as leaving:
        main(["eval", str(tmp_path / "run"), "--split", "valid", "--beam", "1", "--json"])
    assert not leaving.value.code
    assert json.loads(capsys.readouterr().out) == scores.as_dict()
    shutil.rmtree(tmp_path / "run" / "data")  # the pairs are encoded again
    encoded_again = TASK.held_out(bundle, tmp_path / "run", saved(tmp_path / "run"), options)
    assert TASK.evaluate(bundle, encoded_again, options).numbers() == scores.numbers()


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run of 60 steps."""
    folder = tmp_path_factory.mktemp("translation")
    changes = {"training.steps": 60, "optimizer.lr": 1e-2, "evaluation.every": 60}
    train(override(configured(folder, sentences()[:9]), changes, "test"), folder / "run")
    return folder / "run"


def test_the_scores_of_a_file_are_those_of_its_translations(run, tmp_path):
    pairs = sentences()[10:18]
    rows = [f"{source}\t{target}" for source, target in pairs]
    (tmp_path / "t.tsv").write_text("\n".join([*rows, "without\t"]) + "\n")
    bundle, options = load(run), TranslationScoring(beam=2, samples=2)
    examples = TASK.read(bundle, [tmp_path / "t.tsv"], None, options)
    scores = TASK.evaluate(bundle, examples, options)
    outputs = bundle.translate([source for source, _ in pairs], beam=2)
    expected = score_translations(outputs, [target for _, target in pairs])
    assert (scores["bleu"], scores["chrf"]) == (expected.bleu, expected.chrf)
    assert scores.metric("bleu").signature == expected.bleu_signature
    assert scores.metric("chrf").signature == expected.chrf_signature
    assert len(examples) == scores.counts["sentences"] == 8
    nats = []
    for source, target in pairs:
        ids = bundle.tokenizer.target.encode(target)
        sides = bundle.tokenizer.source.encode(source), ids
        tokens, _ = collate_sources([sides[0]], bundle.tokenizer.source)
        read = torch.tensor([[bundle.tokenizer.target.bos, *ids]])
        with torch.inference_mode():
            log_p = bundle.model(tokens, read)[0].double().log_softmax(-1)
        written = [*ids, bundle.tokenizer.target.eos]
        nats += [-log_p[t, token].item() for t, token in enumerate(written)]
    assert scores["nats"] == pytest.approx(sum(nats) / len(nats), rel=1e-4)
    assert scores.counts["target_tokens"] == len(nats)
    sampled = [2, 6]
    assert [sample["output"] for sample in scores.samples] == [outputs[i] for i in sampled]
    assert [sample["source"] for sample in scores.samples] == [pairs[i][0] for i in sampled]
    lines = TASK.show_scores(scores)
    assert lines[0].endswith("8 sentences, beam 2, length penalty 1")
    assert lines[1] == f"BLEU {expected.bleu:.2f}   {expected.bleu_signature}"


def test_several_references_further_metrics_and_breakdowns(run, tmp_path):
    pairs = sentences()[10:18]
    others = [target.upper() for _, target in pairs]
    rows = [f"{s}\t{t}\t{other}" for (s, t), other in zip(pairs, others, strict=True)]
    (tmp_path / "t.tsv").write_text("\n".join(["en\tfr\tother", *rows]) + "\n")
    options = TranslationScoring(
        beam=1, source="en", target="fr", references="other", all_metrics=True, breakdown=True
    )
    bundle, config = load(run), saved(run)
    examples = TASK.read(bundle, [tmp_path / "t.tsv"], config, options)
    assert examples.references == [
        [target, other] for (_, target), other in zip(pairs, others, strict=True)
    ]
    scores = TASK.evaluate(bundle, examples, options)
    outputs = bundle.translate([source for source, _ in pairs], beam=1)
    expected = score_against_several(outputs, examples.references, TRANSLATION_METRICS)
    assert {name: scores[name] for name in TRANSLATION_METRICS} == expected.scores
    assert not scores.metric("ter").higher_is_better
    by_length = scores.details["by_length"]
    assert by_length[0][0] == min(len(source.split()) for source, _ in pairs)
    groups = scores.details["by_frequency"]
    assert sum(group["words"] for group in groups) == sum(
        word_counts(target for _, target in pairs).values()
    )
    lines = TASK.show_scores(scores)
    assert any(line.startswith("TER ") for line in lines)
    assert sum(line.startswith("F1 ") for line in lines) == len(groups)


def test_references_of_other_sources_are_refused(run, tmp_path):
    options = TranslationScoring(source="en", target="fr", references="other")
    for side, lines in (("en", "a\nb\n"), ("fr", "c\nd\n"), ("other", "c\n")):
        (tmp_path / f"t.{side}").write_text(lines)
    with pytest.raises(DataError, match="line"):
        TASK.read(load(run), [tmp_path / "t"], None, options)
    with pytest.raises(UsageError, match="no file is named"):
        TASK.held_out(load(run), run, saved(run), TranslationScoring(references="other"))


def test_two_runs_are_compared_on_the_same_sentences(run, tmp_path):
    other = tmp_path / "other"
    shutil.copytree(run, other)
    (tmp_path / "t.tsv").write_text("".join(f"{s}\t{t}\n" for s, t in sentences()[10:18]))
    words = ("eval", str(run), "t.tsv", "--against", "other", "--beam", "1")
    against = json.loads(headway(*words, "--json", cwd=tmp_path).stdout)["against"]["other"]
    assert set(against) == {"bleu", "chrf"}
    assert against["bleu"]["first"] == against["bleu"]["second"]
    assert against["bleu"]["p_value"] == 1
    lines = headway(*words, cwd=tmp_path).stdout.splitlines()
    assert lines[0] == str(run) and "other" in lines
    assert lines[-3].startswith(f"{run} minus other (paired bootstrap, 1,000 draws of 8 ")
    assert lines[-2] == "bleu +0   95 % of draws +0 to +0   p = 1.000"
    # without a file, both are evaluated on the held-out pairs of the first run
    held_out = headway("eval", str(run), "--split", "valid", "--against", "other", cwd=tmp_path)
    assert "paired bootstrap" in held_out.stdout


def test_the_first_sentences_are_translated_on_request(run, tmp_path):
    bundle = load(run)
    for options, count in (
        (TranslationScoring(split="valid"), 4),
        (TranslationScoring(split="valid", sentences=3), 3),
        (TranslationScoring(split="valid", sentences=100), 9),
    ):
        assert len(TASK.held_out(bundle, run, saved(run), options)) == count
    rows = [f"{source}\t{target}" for source, target in sentences()[:7]]
    (tmp_path / "t.tsv").write_text("\n".join(rows) + "\n")
    chosen = TASK.read(bundle, [tmp_path / "t.tsv"], None, TranslationScoring(sentences=5))
    assert [pair.source for pair in chosen.pairs] == [source for source, _ in sentences()[:5]]


def test_a_run_without_test_pairs_and_a_file_without_pairs_are_refused(run, tmp_path):
    bundle = load(run)
    with pytest.raises(UsageError, match="no test pairs"):
        TASK.held_out(bundle, run, saved(run), TranslationScoring())
    (tmp_path / "t.tsv").write_text("one side\t\n")
    with pytest.raises(DataError, match="no pairs to evaluate"):
        TASK.read(bundle, [tmp_path / "t.tsv"], None, TranslationScoring())


def test_a_prediction_contains_the_translations_of_the_search_and_their_alignment(run):
    bundle = load(run)
    texts = ["the old dog sees the fox", "", "the tree"]
    options = TranslateOptions(beam=3, nbest=2, align=True)
    outputs = bundle.predict([TranslateInput(text=text) for text in texts], options, first=5)
    searched = bundle.search(texts, beam=3, num_best=2)
    for line, (text, output, hypotheses) in enumerate(
        zip(texts, outputs, searched, strict=True), 5
    ):
        assert (output.line, output.source) == (line, text)
        assert [t.text for t in output.translations] == [t.text for t in hypotheses]
        assert [t.score for t in output.translations] == [t.score for t in hypotheses]
        assert (output.alignment is None) == (not hypotheses[0].text)
    assert outputs[0].alignment["source"] == [*texts[0].split(), "</s>"]
    lines = TASK.predicts.show(bundle, outputs[0], options)
    assert len(lines) == 3 and lines[0][0][0].startswith("5\t")
    (plain,) = bundle.predict([TranslateInput(text=texts[0])])
    assert plain.alignment is None and len(plain.translations) == 1
    with pytest.raises(UsageError, match="nbest=5: must be between 1 and the beam width, 4"):
        bundle.predict([TranslateInput(text="a")], TranslateOptions(nbest=5))


def test_text_metrics_are_those_of_the_outputs_and_do_not_change_the_others(run, tmp_path):
    pairs = sentences()[10:18]
    others = [target.upper() for _, target in pairs]
    rows = [f"{s}\t{t}\t{other}" for (s, t), other in zip(pairs, others, strict=True)]
    (tmp_path / "t.tsv").write_text("\n".join(["en\tfr\tother", *rows]) + "\n")
    options = TranslationScoring(
        beam=2, source="en", target="fr", references="other", text_metrics=True
    )
    bundle = load(run)
    examples = TASK.read(bundle, [tmp_path / "t.tsv"], saved(run), options)
    scores = TASK.evaluate(bundle, examples, options)
    outputs = bundle.translate([source for source, _ in pairs], beam=2)
    expected = score_texts(outputs, examples.references)
    assert {name: scores[name] for name in TEXT_METRICS} == {
        name: sums.corpus() for name, sums in expected.items()
    }
    assert not scores.metric("cer").higher_is_better and scores.metric("f1").higher_is_better
    assert expected.keys() <= scores.sums.keys()
    assert f"ROUGE-L {scores['rougeL']:.3f}" in TASK.show_scores(scores)
    plain = replace(options, text_metrics=False)
    without = TASK.evaluate(bundle, replace(examples, text_metrics=False), plain)
    assert list(scores.numbers()) == [*TEXT_METRICS, *without.numbers()]
    assert without.numbers().items() <= scores.numbers().items()


def test_a_run_that_is_selected_by_a_text_metric_is_evaluated_with_all_of_them(tmp_path, capsys):
    data = {"data.valid": str(tmp_path / "valid.tsv"), "data.train": str(tmp_path / "train.tsv")}
    configured(tmp_path, sentences()[:3])
    changes = {"training.steps": 4, "evaluation.metric": "cer"}
    config = recipe("text-to-text", ("test", {**TINY, **data, **changes}))
    train(config, tmp_path / "run")
    logged = read_metrics(tmp_path / "run" / "metrics.jsonl", "valid")
    rates = [row["cer"] for row in logged]
    assert len(rates) == 2
    assert [row["is_best"] for row in logged] == [True, rates[1] < rates[0]]
    best = min(logged, key=lambda row: row["cer"])
    with pytest.raises(SystemExit) as leaving:
        main(["eval", str(tmp_path / "run"), "--split", "valid", "--beam", "1", "--json"])
    assert not leaving.value.code
    scores = json.loads(capsys.readouterr().out)
    for name in (*TEXT_METRICS, "bleu", "chrf", "nats"):
        assert scores[name] == best[name], name


def test_a_model_without_attention_has_no_alignment(tmp_path):
    torch.manual_seed(0)
    bundle = make(decoder="rnn", attention="none", num_heads=1)
    with pytest.raises(UsageError, match="attention=none gives no alignment"):
        bundle.predict([TranslateInput(text="a")], TranslateOptions(align=True))
