"""Metrics with exact intervals and chance levels, examples, generated suites, and the command."""

import json
import math
import random
from dataclasses import replace

import pytest
from sklearn.metrics import f1_score, matthews_corrcoef

from headway.base.errors import UsageError
from headway.bundle import TextBundle
from headway.data.overlap import overlapping
from headway.evaluation.classification import number_scores
from headway.models import BertClassifier
from headway.suites import GENERATED, Plan, answerer_of, generated, measure, read_suite
from headway.suites.measuring import Examples
from headway.suites.metrics import exact_interval, measured
from headway.suites.questions import Answering, Choice, Judged, LastWord, Likelihood, Passage
from headway.suites.submission import submissions
from headway.tasks.classification.model import ClassifierBundle
from tests.fixtures.bundles import BUNDLES, answerer, bert_classifier, gpt
from tests.fixtures.command_line import headway
from tests.fixtures.suites import write_suite


def likelihoods(*nats):
    return [Likelihood(value, False) for value in nats]


def test_accuracy_with_and_without_length_normalisation():
    question = Choice(prompt="", choices=("no", "certainly", "ééé"), gold=1)
    # per character -1, -0.33, -0.4; per byte -1, -0.33, -0.2
    terms = question.judge(likelihoods(-2.0, -3.0, -1.2)).terms
    assert [terms[name][0] for name in ("acc", "acc_norm", "acc_bytes")] == [0, 1, 0]
    assert terms["chance"] == (1 / 3, 1.0)


def test_the_first_of_equal_choices_is_chosen():
    question = Choice(choices=("a", "b"), gold=0)
    assert question.judge(likelihoods(-1.0, -1.0)).terms["acc"][0] == 1


def test_a_row_without_a_label_has_a_prediction_and_no_score():
    judged = Choice(choices=("a", "b"), gold=None).judge(likelihoods(-2.0, -1.0))
    assert judged.prediction == 1 and not judged.terms


def test_f1_and_matthews_equal_scikit_learn():
    draw = random.Random(3)
    gold = [draw.randrange(2) for _ in range(40)]
    predicted = [draw.randrange(2) for _ in range(40)]
    rows = [
        Choice(choices=("no", "yes"), gold=g).judge(likelihoods(-1.0 - p, -2.0 + p))
        for g, p in zip(gold, predicted, strict=True)
    ]
    assert [row.prediction for row in rows] == predicted
    f1, mcc = measured(rows, ("f1", "mcc"))
    assert f1.value == pytest.approx(f1_score(gold, predicted), abs=1e-12)
    assert mcc.value == pytest.approx(matthews_corrcoef(gold, predicted), abs=1e-12)
    assert f1.low < f1.value < f1.high and f1.interval == "bootstrap"


def test_perplexities():
    rows = [LastWord(prompt="", target="").judge([Likelihood(n, n > -1)]) for n in (-0.5, -1.5)]
    perplexity, accuracy = measured(rows, ("perplexity", "acc"))
    assert perplexity.value == pytest.approx(math.e) and accuracy.value == 0.5
    assert accuracy.chance is None
    texts = [Passage(text="", words=2, num_bytes=8).judge(-4.0) for _ in range(2)]
    words, num_bytes, bits = measured(
        texts, ("word_perplexity", "byte_perplexity", "bits_per_byte")
    )
    assert words.value == pytest.approx(math.e**2)
    assert num_bytes.value == pytest.approx(math.e**0.5)
    assert bits.value == pytest.approx(0.5 / math.log(2))


def test_squad_counts_questions_without_an_answer_apart():
    asks = {"prompt": "", "target": ""}
    rows = [
        Answering(answers=("the red boat", "boat"), **asks).judge(" A boat. "),
        Answering(answers=("red boat",), **asks).judge("boat"),
        Answering(answers=(), **asks).judge(" unanswerable"),
        Answering(answers=(), **asks).judge(" boat"),
    ]
    values = {m.name: m.value for m in measured(rows, (*rows[0].terms, "NoAns_exact"))}
    assert values == {
        "exact": 50,
        "f1_words": pytest.approx(100 * (1 + 2 / 3 + 1) / 4),
        "HasAns_exact": 50,
        "HasAns_f1": pytest.approx(100 * (1 + 2 / 3) / 2),
        "NoAns_exact": 50,
    }


@pytest.mark.parametrize(
    ("hits", "rows", "low", "high"),
    [(0, 10, 0.0, 0.3085), (5, 10, 0.1871, 0.8129), (10, 10, 0.6915, 1.0), (1, 2, 0.0126, 0.9874)],
)
def test_the_exact_interval_is_that_of_clopper_and_pearson(hits, rows, low, high):
    assert exact_interval(hits, rows) == pytest.approx((low, high), abs=1e-4)


POOL = [Choice(choices=("a", "b"), prompt=f"q{i}", gold=int(i >= 6)) for i in range(8)]


@pytest.mark.parametrize("sampling", ["random", "balanced", "first"])
def test_a_question_is_never_among_its_own_examples(sampling):
    examples = Examples(POOL, sampling, 3, one_more=True)
    for question in POOL * 3:
        text = examples.before(question, 7)
        assert text.count("q") == 7 and question.prompt not in text
    with pytest.raises(UsageError, match="only 7 other rows"):
        examples.before(POOL[0], 8)


def test_balanced_examples_have_equal_numbers_of_each_class():
    examples = Examples(POOL, "balanced", 3, one_more=False)
    for _ in range(5):
        text = examples.before(POOL[0], 4)
        assert text.count(" a\n\n") == text.count(" b\n\n") == 2


def test_random_examples_are_those_of_the_seed_and_differ_between_questions():
    drawn = [
        [Examples(POOL, "random", seed, one_more=False).before(POOL[0], 3)] for seed in (1, 1, 2)
    ]
    assert drawn[0] == drawn[1] != drawn[2]
    expected = random.Random(1).sample(POOL, 3)
    assert drawn[0] == ["".join(row.solved for row in expected)]


def test_without_a_test_part_one_more_example_is_drawn_and_the_question_left_out():
    examples, expected = Examples(POOL, "random", 1, one_more=True), random.Random(1)
    for question in POOL:
        drawn = [row for row in expected.sample(POOL, 4) if row != question][:3]
        assert examples.before(question, 3) == "".join(row.solved for row in drawn)


@pytest.mark.parametrize("name", GENERATED)
def test_a_generated_suite_is_that_of_its_seed_with_chance_level_accuracy_for_a_constant(name):
    suite, same, other = (generated(name, seed, rows=60) for seed in (1, 1, 2))
    assert suite.sha256 == same.sha256 != other.sha256
    _, parts = suite.evaluated()
    questions = [part.question for part in parts]
    assert len(set(questions)) == 60 and not set(questions) & set(suite.examples("test")[0])
    for question in questions:
        assert len(set(question.choices)) == len(question.choices)
        assert 0 <= question.gold < len(question.choices)
    if len(questions[0].choices) == 4:  # the place of the right one says nothing
        assert all(5 <= sum(q.gold == i for q in questions) <= 30 for i in range(4))


def test_generated_rows_are_right():
    for part in generated("arithmetic", 5, rows=40).evaluated()[1]:
        question = part.question
        a, sign, b, _ = question.prompt.split()
        value = int(a) + int(b) if sign == "+" else int(a) - int(b)
        assert question.choices[question.gold] == str(value)
    for part in generated("induction", 5, rows=40).evaluated()[1]:
        words = part.question.prompt.split()
        after = words[words.index(words[-1]) + 1]
        assert part.question.choices[part.question.gold] == after


def test_overlap_finds_rows_that_share_words_with_a_text():
    text = "One two three, four five six seven eight nine ten eleven twelve THIRTEEN fourteen!"
    rows = [
        "four five six seven eight nine ten, eleven",
        "eleven ten nine eight seven six five four",
        text[8:],
        "zero " * 12 + "one",
        "",
        "twelve thirteen fourteen",
    ]
    assert overlapping(rows, ["nothing", text]) == [True, False, True, False, False, False]


def test_the_same_rows_are_measured_with_every_number_of_examples(tmp_path):
    bundle: TextBundle = gpt(max_length=600)
    suite = read_suite(write_suite(tmp_path, "arc"))
    plan = Plan(shots=(0, 2), limit=4)
    result = measure(answerer_of(bundle), suite, plan)
    assert result == measure(answerer_of(bundle), suite, plan)
    zero, two = ([row for row in result.answers if row.shots == shots] for shots in (0, 2))
    assert [row.where for row in zero] == [row.where for row in two] and len(zero) == 4
    assert [m.metrics[0].rows for m in result.measurements] == [4, 4]
    with pytest.raises(UsageError, match="take no examples"):
        articles = read_suite(write_suite(tmp_path, "wikitext"))
        measure(answerer_of(bundle), articles, plan)


@pytest.fixture(scope="module")
def working_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bench")
    gpt(max_length=600).save(folder / "gpt")
    for name in ("blimp", "sst2"):
        write_suite(folder, name)
    return folder


def test_the_command_prints_metrics_and_writes_rows_and_curve(working_folder):
    words = ("bench", "gpt", "--suite", "blimp", "--shots", "0,1", "-o", "out", "--json")
    printed = json.loads(headway(*words, cwd=working_folder).stdout)
    assert printed["suite"] == "blimp" and printed["rows"] == 8 and printed["overlap"] is None
    assert set(printed["measurements"][0]["groups"]) == {"articles", "verbs"}
    rows = (working_folder / "out" / "rows.jsonl").read_text().splitlines()
    accuracy = sum(json.loads(row)["scores"]["acc"] for row in rows[:8]) / 8
    assert accuracy == printed["measurements"][0]["metrics"][0]["value"]
    assert "<svg" in (working_folder / "out" / "shots.svg").read_text()[:2000]
    assert headway(*words, cwd=working_folder, check=2).stderr.count("exist already") == 1


def test_the_command_measures_all_generated_suites(working_folder):
    done = headway("bench", "gpt", "--suite", "generated", "--limit", "3", cwd=working_folder)
    assert all(f"{name}: " in done.stdout for name in GENERATED)
    assert done.stdout.count("chance 0.5000") >= 3 and done.stdout.count("chance 0.2500") >= 3


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "--suite is missing"),
        (("--suite", "nothing"), "nothing"),
        (("--suite", "blimp", "--shots", "x"), "--shots x"),
        (("--suite", "blimp", "--split", "validation"), "the folder has test"),
        (("--suite", "blimp", "--shots", "50"), "other rows to take"),
        (("--suite", "blimp", "--overlap", "yes"), "no training texts"),
    ],
)
def test_wrong_requests_are_explained(working_folder, words, message):
    done = headway("bench", "gpt", *words, cwd=working_folder, check=2)
    assert message in done.stderr and "Traceback" not in done.stderr


def test_rows_without_labels_are_counted(working_folder):
    words = ("bench", "gpt", "--suite", "sst2", "--split", "test")
    assert "3 without a label" in headway(*words, cwd=working_folder).stdout


def test_terms_of_absent_metrics_are_left_out():
    assert measured([Judged(1, {"acc": (1.0, 1.0)})], ("f1", "acc"))[0].name == "acc"


def test_models_of_other_kinds_answer_what_they_can(tmp_path):
    suites = {name: read_suite(write_suite(tmp_path, name)) for name in ("rte", "sts", "squad")}
    encoder = BUNDLES["encoder"][0]()
    similar = measure(answerer_of(encoder), suites["sts"], Plan()).measurements[0].metrics
    assert [metric.name for metric in similar] == ["spearman", "pearson"]
    first, second = zip(
        *(part.question.texts for part in suites["sts"].evaluated()[1]), strict=True
    )
    cosines = (encoder.embed(list(first)) * encoder.embed(list(second))).sum(1).tolist()
    scores = number_scores(cosines, [i / 2 for i in range(6)])
    assert [m.value for m in similar] == pytest.approx([scores["spearman"], scores["pearson"]])
    answers = measure(answerer_of(answerer()), suites["squad"], Plan()).measurements[0].metrics
    assert answers[0].name == "exact" and answers[0].rows == 3
    with pytest.raises(UsageError, match="cannot answer"):
        measure(answerer_of(encoder), suites["rte"], Plan())
    with pytest.raises(UsageError, match="labels a, b, c"):
        measure(answerer_of(bert_classifier(pairs=True)), suites["rte"], Plan())
    with pytest.raises(UsageError, match="no suite measures"):
        answerer_of(BUNDLES["captioner"][0]())


def test_a_classifier_is_scored_and_its_predictions_can_be_submitted(tmp_path):
    base = bert_classifier()
    reader = replace(base.reader, labels=("1", "0"))
    model = BertClassifier(base.model.bert, 2, "first")
    bundle = ClassifierBundle(model, reader)
    suite = read_suite(write_suite(tmp_path, "sst2"))
    result = measure(answerer_of(bundle), suite, Plan())
    texts = [part.question.texts[0] for part in suite.evaluated()[1]]
    predicted = [int(one.label) for one in bundle.classify(texts)]
    assert [row.prediction for row in result.answers] == predicted
    tested = measure(answerer_of(bundle), suite, Plan(split="test"))
    ((name, content),) = submissions(suite.layout, tested).items()
    assert name == "SST-2.tsv" and content.splitlines()[0] == "index\tprediction"
    assert len(content.splitlines()) == 4 and tested.unlabelled == 3
    with pytest.raises(UsageError, match="no examples in a prompt"):
        measure(answerer_of(bundle), suite, Plan(shots=(1,)))
