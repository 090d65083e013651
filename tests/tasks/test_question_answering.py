"""Question answering as a run: fine-tuning, resuming, the bundle, and what is refused."""

import json
import math
from itertools import product
from pathlib import Path

import pytest
import torch

from headway import load
from headway.base.errors import DataError, HeadwayWarning, UsageError
from headway.base.metrics_file import read_metrics
from headway.cli.main import main
from headway.evaluation.squad import score_answers
from headway.runs import recipe, saved, train
from headway.tasks import registry
from headway.tasks.question_answering.config import AnswerScoring
from headway.tasks.question_answering.data import answered_questions, target_answer
from headway.tasks.question_answering.model import (
    AnswerInput,
    AnswerReader,
    QuestionAnsweringBundle,
)
from headway.tasks.question_answering.question_files import Answer, Question, read_questions
from headway.tasks.question_answering.windows import LONGEST, Window, best_spans, covered, merged
from headway.text import EncoderTokenizer
from tests.fixtures.tiny_encoder import save_encoder, write_squad

TINY = {
    "training.batch_size": 5,
    "training.steps": 6,
    "data.held_out": 0.2,
    "data.window": 20,
    "data.stride": 6,
    "evaluation.every": 3,
    "evaluation.questions": 9,
    "checkpoint.every": 3,
    "schedule.kind": "constant",  # one that does not depend on the last step
    "schedule.warmup": 2,
    "machine.threads": 1,
    "machine.device": "cpu",
}


def answering(text, start, **changes):
    dotted = {key.replace("__", "."): value for key, value in changes.items()}
    required = {"data.train": text, "training.start": str(start)}
    return recipe("answer", ("test", {**TINY, **required, **dotted}))


@pytest.fixture(scope="module")
def start(tmp_path_factory):
    torch.manual_seed(0)
    return save_encoder(tmp_path_factory.mktemp("start") / "m")


@pytest.fixture
def texts(tmp_path):
    return write_squad(tmp_path / "t.json")


@pytest.fixture(scope="module")
def trained(start, tmp_path_factory):
    folder = tmp_path_factory.mktemp("learned")
    more = {"training__steps": 90, "optimizer__lr": 1e-2, "evaluation__every": 30}
    train(answering(write_squad(folder / "t.json"), start, **more), folder / "run")
    return folder / "run"


# --- the search --------------------------------------------------------------------------------


def windows_of_two():
    return [Window([1, 5, 2, *range(6, 14), 2], 3, 0, 8), Window([1, 5, 2, 9, 9, 9, 2], 3, 4, 3)]


def test_the_best_answers_are_those_of_an_exhaustive_search():
    windows = windows_of_two()
    logits = torch.randn(2, 12, 2)
    keys = torch.arange(12) < torch.tensor([12, 7])[:, None]
    answers = best_spans(logits, keys, windows, 1000)
    for row, window in enumerate(windows):
        log_probs = logits[row, : len(window.ids)].log_softmax(0)
        tokens = range(window.count)
        every = [
            ((log_probs[i + window.first, 0] + log_probs[j + window.first, 1]).item(), i, j)
            for i, j in product(tokens, tokens)
            if i <= j
        ]
        every.sort(reverse=True)
        assert len(answers[row]) == len(every)
        for (score, first, last), (expected, i, j) in zip(answers[row], every, strict=True):
            assert score == pytest.approx(expected, abs=1e-5)
            assert (first, last) == (i + window.begin, j + window.begin)
    assert [len(x) for x in best_spans(logits, keys, windows, 2)] == [2, 2]


def test_an_answer_is_at_most_thirty_tokens_long():
    window = Window([1, 5, 2, *[9] * 50, 2], 3, 0, 50)
    logits = torch.zeros(1, len(window.ids), 2)
    logits[0, 3, 0] = logits[0, 52, 1] = 50.0
    keys = torch.ones(1, len(window.ids), dtype=torch.bool)
    for _, first, last in best_spans(logits, keys, [window], 2000)[0]:
        assert 0 <= last - first < LONGEST


def test_a_span_in_two_windows_counts_once_with_its_best_score():
    answers = merged([[(-1.0, 4, 5), (-3.0, 0, 0)], [(-0.5, 4, 5), (-2.0, 6, 6)]], 3)
    assert answers == [(-0.5, 4, 5), (-2.0, 6, 6), (-3.0, 0, 0)]


def test_the_target_is_the_most_frequent_answer_or_else_the_first():
    a, b = Answer("x", 1), Answer("y", 2)
    for answers, expected in (((a, b, b), b), ((a, b), a), ((b, a, a, b), b)):
        assert target_answer(Question("1", "?", "?xy", answers, "")) == expected


# --- training ----------------------------------------------------------------------------------


def test_a_trained_model_finds_the_answers_in_the_context(trained):
    rows = read_metrics(trained / "metrics.jsonl", "valid")
    assert rows[-1]["f1"] > 0.9 and rows[-1]["exact"] > 0.8
    bundle = load(trained)
    assert isinstance(bundle, QuestionAnsweringBundle)
    context = "«sings in our garden 🦊  Émile Roux\nsleeps in a shed»"
    best, *alternatives = bundle.answer("who is there ?", context, top=3)
    assert best.text == "Émile Roux" and len(alternatives) == 2
    for answer in (best, *alternatives):
        assert context[answer.start : answer.end] == answer.text == answer.text.strip()
        assert 0 <= answer.probability <= best.probability <= 1
    assert len({(answer.start, answer.end) for answer in (best, *alternatives)}) == 3


def test_training_python_and_the_command_line_give_the_same_scores(trained, capsys):
    """The evaluation of the saved model equals that of the step it was saved at, and its exact
    matches those of the predictions."""
    validations = read_metrics(trained / "metrics.jsonl", "valid")
    (best,) = [row for row in validations if row["is_best"]][-1:]
    task, bundle = registry.task("question_answering"), load(trained)
    held_out = task.held_out(bundle, trained, saved(trained), AnswerScoring())
    some = AnswerScoring(questions=saved(trained).evaluation.questions)
    assert len(held_out) > some.questions
    scores = task.evaluate(bundle, held_out, some)
    assert scores.numbers() == {name: best[name] for name in scores.numbers()}
    assert list(scores.numbers()) == ["f1", "exact"] and scores.counts == {"questions": 9}
    scores = task.evaluate(bundle, held_out)
    with pytest.raises(SystemExit) as leaving:
        main(["eval", str(trained), "--json"])
    assert leaving.value.code == 0
    assert json.loads(capsys.readouterr().out) == scores.as_dict()
    inputs = [
        AnswerInput(question=question.question, context=question.context) for question in held_out
    ]
    predictions = [question.answers[0].text for question in bundle.predict(inputs)]
    exact = [
        text in {answer.text for answer in question.answers}
        for text, question in zip(predictions, held_out, strict=True)
    ]
    assert scores["exact"] == pytest.approx(sum(exact) / len(exact))
    assert scores.counts == {"questions": len(held_out)}


def test_questions_without_an_answer_are_not_evaluated(trained, texts, tmp_path):
    task, bundle = registry.task("question_answering"), load(trained)
    one_question(tmp_path / "none.json", is_impossible=True, answers=[], question="who " * 12)
    paths = [Path(texts), tmp_path / "none.json"]
    with pytest.warns(HeadwayWarning, match="^1 questions without an answer are left out"):
        assert len(task.read(bundle, paths, None, AnswerScoring())) == 60
    with pytest.raises(DataError, match="no answer in its context"):
        task.evaluate(bundle, list(read_questions(paths)))
    with pytest.raises(DataError, match="no question"):
        task.evaluate(bundle, [])
    one_question(tmp_path / "long.json", question="who " * 12)
    with pytest.warns(
        HeadwayWarning, match="question 1 has 12 tokens and is truncated to the first 8"
    ):
        task.read(bundle, [tmp_path / "long.json"], None, AnswerScoring())


def test_the_number_of_an_input_that_is_refused_is_named(trained):
    bundle = load(trained)
    inputs = [AnswerInput(question=question, context="x") for question in ("who ?", " ")]
    with pytest.raises(UsageError, match="question 8"):
        bundle.predict(inputs, first=7)
    inputs = [
        AnswerInput(question="who ?", context="x"),
        AnswerInput(question="x " * 30, context="x"),
    ]
    with pytest.raises(UsageError, match=r"30 tokens(.|\n)*question 2"):
        bundle.predict(inputs)


def test_an_answer_is_predicted_anywhere_in_a_long_context(trained):
    bundle = load(trained)
    filler = "waits in the old mill "
    for before in (0, 3, 11):
        context = f"{filler * before}Dora Vance {filler * (11 - before)}"
        encoded = bundle.reader.encode("who is there ?", context)
        assert len(encoded.windows) > 3
        (answer,) = bundle.answer("who is there ?", context)
        assert answer.text == "Dora Vance" and answer.start == len(filler) * before


def test_the_answer_to_a_question_does_not_depend_on_the_batch(trained):
    bundle = load(trained)
    pairs = [("who ?", "sings Bo Nash"), ("who is there ?", "Ada Lee waits in a shed " * 4)]
    for pair, batched in zip(pairs, bundle.answer_all(pairs), strict=True):
        (alone,) = bundle.answer(*pair)
        assert (alone.text, alone.start) == (batched[0].text, batched[0].start)
        assert alone.probability == pytest.approx(batched[0].probability, abs=1e-5)
    assert bundle.answer_all([]) == []
    for question, context, part in (("", "x", "question"), ("x", " ", "context")):
        with pytest.raises(UsageError, match=f"the {part} is empty"):
            bundle.answer(question, context)
    with pytest.raises(UsageError, match="top=0"):
        bundle.answer("who ?", "x", 0)


def test_the_probability_of_an_answer_is_that_of_its_begin_times_that_of_its_end(trained):
    bundle = load(trained)
    (answer,) = bundle.answer("who ?", "sings Bo Nash")
    encoded = bundle.reader.encode("who ?", "sings Bo Nash")
    (window,) = encoded.windows
    ids = torch.tensor([window.ids])
    with torch.no_grad():
        types = torch.tensor([window.types])
        logits = bundle.model(ids, torch.ones_like(ids, dtype=torch.bool), types)[0]
    begins = [i for i, (a, _) in enumerate(encoded.spans) if a == answer.start]
    ends = [i for i, (_, b) in enumerate(encoded.spans) if b == answer.end]
    log_probs = logits.log_softmax(0)
    score = log_probs[window.first + begins[0], 0] + log_probs[window.first + ends[-1], 1]
    assert answer.probability == pytest.approx(math.exp(score), abs=1e-5)


def test_a_context_is_in_one_split_only(texts):
    squad = json.loads(Path(texts).read_text())
    for paragraph in squad["data"][0]["paragraphs"]:
        (row,) = paragraph["qas"]
        paragraph["qas"] = [row, {**row, "id": row["id"] + "b"}]
    Path(texts).write_text(json.dumps(squad))
    training, held_out = answered_questions(answering(texts, "x").data)
    assert len(training) + len(held_out) == 120 and len(held_out) > 4
    assert not {question.context for question in training} & {
        question.context for question in held_out
    }


def test_an_encoder_with_one_token_type_answers_questions_too(texts, tmp_path):
    start = save_encoder(tmp_path / "m", token_types=1)
    train(answering(texts, start), tmp_path / "run")
    assert len(load(tmp_path / "run").answer("who ?", "sings Bo Nash")) == 1


@pytest.mark.turns(2)
@pytest.mark.parametrize("settings", [{}, {"training__recompute": True, "training__average": 0.9}])
def test_a_run_in_two_halves_equals_an_uninterrupted_run(start, texts, tmp_path, settings):
    settings["model__dropout"] = 0.1
    train(answering(texts, start, **settings), tmp_path / "whole")
    train(answering(texts, start, **settings, training__steps=3), tmp_path / "halves")
    train(answering(texts, start, **settings), tmp_path / "halves")
    for name in ("checkpoints/step-6/state.safetensors", "model/model.safetensors"):
        assert (tmp_path / "halves" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


def test_a_run_does_not_resume_on_other_questions(start, texts, tmp_path):
    train(answering(texts, start, training__steps=3), tmp_path / "run")
    write_squad(Path(texts), seed=1)
    with pytest.raises(DataError, match="have changed since the run started"):
        train(answering(texts, start), tmp_path / "run")


def one_question(path, **changes):
    row = {"id": "q7", "question": "who ?", "answers": [{"text": "Ada", "answer_start": 0}]}
    paragraphs = [{"context": "Ada sings\u200b", "qas": [{**row, **changes}]}]
    path.write_text(json.dumps({"data": [{"paragraphs": paragraphs}]}))


def test_questions_without_an_answer_are_left_out_on_request(texts, tmp_path):
    one_question(tmp_path / "none.json", is_impossible=True, answers=[])
    both = (texts, str(tmp_path / "none.json"))
    with pytest.raises(DataError, match=r"q7 has no answer(.|\n)*none.json(.|\n)*skip-impossible"):
        answered_questions(answering(both, "x").data)
    training, held_out = answered_questions(answering(both, "x", data__skip_impossible=True).data)
    assert len(training) + len(held_out) == 60


@pytest.mark.parametrize(
    ("changes", "kind", "part"),
    [
        ({"data__train": ()}, UsageError, "no training questions are named"),
        ({"data__train": ("nowhere.json",)}, UsageError, "nowhere.json"),
        ({"data__valid": ("nowhere.json",)}, UsageError, "nowhere.json"),
        ({"training__start": None}, UsageError, "--from"),
        (
            {"training__start": "LEARNED"},
            UsageError,
            "holds a question-answering model.* needs a text encoder",
        ),
        ({"data__train": ("few.json",)}, DataError, "--data.valid"),
        ({"data__valid": ("moved.json",)}, DataError, r"q7: the answer 'Ada' (.|\n)*moved.json"),
        (
            {"data__train": ("lost.json",), "data__valid": ("few.json",)},
            DataError,
            "q7: .*has no tokens",
        ),
    ],
)
def test_a_configuration_that_cannot_work_is_refused_and_leaves_no_folder(
    start, trained, texts, tmp_path, monkeypatch, changes, kind, part
):
    monkeypatch.chdir(tmp_path)
    one_question(Path("few.json"))
    one_question(Path("moved.json"), answers=[{"text": "Ada", "answer_start": 1}])
    one_question(Path("lost.json"), answers=[{"text": "\u200b", "answer_start": 9}])
    if changes.get("training__start") == "LEARNED":
        changes = {"training__start": str(trained)}
    with pytest.raises(kind, match=part):
        train(answering(texts, start, **changes), tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_windows_of_another_training_are_refused(trained, tmp_path):
    bundle = load(trained)
    assert saved(trained).data.window == bundle.reader.window == 20
    bundle.save(tmp_path / "model")
    path = tmp_path / "model" / "windows.json"
    settings = json.loads(path.read_text())
    for window, part in (
        (30, "trained with"),
        (2, "`window` of at least 8"),
        ("20", "`window` of at least 8"),
    ):
        path.write_text(json.dumps({**settings, "window": window}))
        with pytest.raises(DataError, match=part):
            load(tmp_path / "model", verify=False)


@pytest.mark.slow
@pytest.mark.parametrize("side", ["train", "valid"])
def test_every_real_answer_is_in_a_window_and_is_recovered_by_its_characters(real_data, side):
    questions = list(read_questions([real_data(f"qa/squad_v1.1_dev.{side}.json.gz")]))
    tokenizer = EncoderTokenizer.train(sorted({question.context for question in questions}), 4000)
    reader = AnswerReader(tokenizer, 160, 64)
    answers = []
    for question in questions:
        encoded, answer = (
            reader.encode(question.question, question.context),
            target_answer(question),
        )
        span = covered(encoded.spans, answer.start, answer.start + len(answer.text))
        assert any(window.place(span) != (0, 0) for window in encoded.windows), question.where
        start, end = encoded.characters(*span, question.context)
        answers.append(question.context[start:end])
    scores = score_answers(
        answers, [[answer.text for answer in question.answers] for question in questions]
    )
    assert scores.exact > 0.99 and scores.f1 > 0.99
