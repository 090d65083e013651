"""Masked tokens, embeddings, similarity search and sentence encoders by command line."""

import json

import numpy as np
import pytest
import torch

from headway.base.errors import UsageError
from headway.bundle import EncoderBundle
from headway.cli.texts import gather
from headway.models import Bert, BertConfig
from headway.text import EncoderTokenizer
from tests.fixtures.command_line import headway
from tests.fixtures.sentence_pairs import PAIRS, SCORED, scored, table

TEXTS = [first for first, _ in PAIRS][::7]
TINY = [
    *("--training.batch-size", "8", "--data.held-out", "0.2", "--optimizer.lr", "3e-3"),
    *("--schedule.kind", "constant", "--schedule.warmup", "2"),
    *("--evaluation.every", "5", "--checkpoint.every", "5", "--threads", "1"),
]


def train(run: str, *more: str, data: str = "p.tsv") -> list[str]:
    return ["train", "embed", data, "--from", "enc", "--run", run, *TINY, *more]


@pytest.fixture(scope="module")
def working_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("embed")
    reader = EncoderTokenizer.train([text for pair in PAIRS for text in pair], 200)
    torch.manual_seed(3)
    shape = {"model_dim": 24, "num_heads": 3, "ffn_dim": 40, "num_layers": 2, "max_length": 21}
    model = Bert(BertConfig(**shape, vocabulary=reader.size))
    EncoderBundle(model, reader).save(folder / "enc")
    headless = Bert(BertConfig(**shape, vocabulary=reader.size, masked_lm_head=False))
    EncoderBundle(headless, reader).save(folder / "headless")
    table(folder / "p.tsv")
    scored(folder / "s.tsv")
    (folder / "t.txt").write_text("\n".join(TEXTS) + "\n\n")
    rows = [(text, text.split()[1]) for text in TEXTS]
    table(folder / "t.tsv", rows, "text\tkind")
    lines = [json.dumps({"body": text, "kind": kind}) for text, kind in rows]
    (folder / "t.jsonl").write_text("\n".join(lines) + "\n")
    return folder


@pytest.fixture(scope="module")
def bundle(working_folder):
    from headway import load

    return load(working_folder / "enc")


# --- fill --------------------------------------------------------------------------------------


def test_masked_tokens_are_predicted_with_bars_from_arguments_or_a_pipe(
    working_folder, run_headway
):
    texts = ["the [MASK] sleeps at the [MASK]", "[MASK]"]
    output = headway("fill", "enc", *texts, cwd=working_folder).stdout
    assert output == run_headway("fill", "enc", standard_input="\n".join(texts) + "\n")[0]
    lines = output.split("\n")
    assert lines[0] == texts[0] and lines[13] == texts[1]
    blocks = output.split("\n\n")
    assert len(blocks) == 4 and blocks[3] == ""
    for predictions in (
        blocks[0].split("\n")[1:],
        blocks[1].split("\n"),
        blocks[2].split("\n")[1:],
    ):
        probabilities = [float(line.split()[1]) for line in predictions]
        assert len(probabilities) == 5 and probabilities == sorted(probabilities, reverse=True)


def test_predictions_as_json_are_those_of_the_bundle(run_headway, bundle):
    texts = ["the [MASK] sleeps at the [MASK]", "[MASK] sings"]
    out = run_headway("fill", "enc", *texts, "--top", "3", "--json")[0]
    rows = [json.loads(line) for line in out.splitlines()]
    assert [(row["line"], row["text"]) for row in rows] == [(1, texts[0]), (2, texts[1])]
    for row, expected in zip(rows, bundle.fill(texts, 3), strict=True):
        assert row["predictions"] == [
            [vars(guess) for guess in predictions] for predictions in expected
        ]


# --- embed -------------------------------------------------------------------------------------


def test_vectors_are_written_in_every_format(working_folder, run_headway, bundle, tmp_path):
    expected = bundle.embed(TEXTS).numpy()
    stderr = run_headway("embed", "enc", "t.txt", "--output", str(tmp_path / "v.npz"))[1]
    assert f"{len(TEXTS)} texts, vectors of width 24" in stderr and "similar enc" in stderr
    stored = np.load(tmp_path / "v.npz")
    assert np.array_equal(stored["vectors"], expected) and stored["texts"].tolist() == TEXTS
    assert stored["vectors"].dtype == np.float32 and "labels" not in stored
    run_headway("embed", "enc", "t.tsv", "--output", str(tmp_path / "v.tsv"), "--label", "kind")
    header, *rows = (tmp_path / "v.tsv").read_text().rstrip("\n").split("\n")
    assert header.split("\t")[:3] == ["text", "label", "1"] and len(rows) == len(TEXTS)
    for row, text, vector in zip(rows, TEXTS, expected, strict=True):
        first, label, *numbers = row.split("\t")
        assert (first, label) == (text, text.split()[1])
        assert np.array_equal(np.array(numbers, dtype=np.float32), vector)
    run_headway(
        "embed", "enc", "t.jsonl", "--column", "body", "--output", str(tmp_path / "v.jsonl")
    )
    lines = [json.loads(line) for line in (tmp_path / "v.jsonl").read_text().splitlines()]
    assert [line["text"] for line in lines] == TEXTS
    assert np.array_equal(np.array([line["vector"] for line in lines], np.float32), expected)


def test_one_very_long_text_is_refused_where_all_texts_would_be_stored_at_its_length(
    run_headway, tmp_path, monkeypatch
):
    monkeypatch.setattr("headway.data.formats.vectors.TEXTS_LIMIT", 4 * len(TEXTS) * 50)
    (tmp_path / "long.txt").write_text("\n".join([*TEXTS, "fox " * 20]) + "\n")
    path = tmp_path / "v.npz"
    words = ("embed", "enc", str(tmp_path / "long.txt"), "--output", str(path))
    stderr = run_headway(*words, code=2)[1]
    assert "79 characters" in stderr and "jsonl" in stderr and not path.exists()
    run_headway("embed", "enc", "t.txt", "--output", str(path))


def test_vectors_are_printed_if_no_file_is_named(run_headway, bundle):
    out = run_headway("embed", "enc", "a fox", "an owl\tsings", "--raw", "--pooling", "first")[0]
    header, *rows = out.rstrip("\n").split("\n")
    assert header.startswith("text\t1\t2") and [row.split("\t")[0] for row in rows] == [
        "a fox",
        "an owl sings",
    ]
    raw = bundle.embed(["a fox"], pooling="first", normalise=False)[0].tolist()
    assert [float(x) for x in rows[0].split("\t")[1:]] == pytest.approx(raw)
    piped = run_headway("embed", "enc", "--json", standard_input='a "fox"\n\nan owl\n')[
        0
    ].splitlines()
    assert [json.loads(line)["text"] for line in piped] == ['a "fox"', "an owl"]


@pytest.mark.parametrize("ending", ["svg", "png"])
def test_texts_are_plotted_in_the_colours_of_their_labels(run_headway, tmp_path, ending):
    path = tmp_path / f"x.{ending}"
    output, stderr = run_headway("embed", "enc", "t.tsv", "--label", "kind", "--plot", str(path))
    assert output == "" and f"drawn     {path}" in stderr
    if ending == "svg":
        drawn = path.read_text()
        assert f"{len(TEXTS)} texts, enc" in drawn
        for word in ("fox", "hare", TEXTS[0]):
            assert f">{word}<" in drawn, word


def test_lines_of_several_documents_have_a_colour_for_each_file(run_headway, tmp_path):
    for name, lines in (("one.txt", TEXTS[:3]), ("two.md", TEXTS[3:5])):
        (tmp_path / name).write_text("\n".join(lines) + "\n")
    files = [str(tmp_path / name) for name in ("one.txt", "two.md")]
    out = ["--output", str(tmp_path / "v.npz"), "--plot", str(tmp_path / "x.svg")]
    run_headway(
        "embed", "enc", *files, "t.tsv", "--label", "file", *out, code=2
    )  # a table has columns
    run_headway("embed", "enc", *files, "--label", "file", *out)
    assert np.load(tmp_path / "v.npz")["labels"].tolist() == ["one.txt"] * 3 + ["two.md"] * 2
    drawn = (tmp_path / "x.svg").read_text()
    assert ">one.txt<" in drawn and ">two.md<" in drawn


def test_a_plot_of_many_texts_has_no_text_labels(working_folder, run_headway, tmp_path):
    (tmp_path / "many.txt").write_text("\n".join(first for first, _ in PAIRS))
    run_headway("embed", "enc", str(tmp_path / "many.txt"), "--plot", str(tmp_path / "x.svg"))
    drawn = (tmp_path / "x.svg").read_text()
    assert "first principal component" in drawn and PAIRS[0][0] not in drawn


# --- similar -----------------------------------------------------------------------------------


def test_the_most_similar_texts_come_first(run_headway, bundle):
    out = run_headway("similar", "enc", TEXTS[4], "t.txt", "--top", "3")[0]
    rows = [line.split("\t") for line in out.splitlines()]
    assert len(rows) == 3 and rows[0] == ["1.000", TEXTS[4]]
    cosines = bundle.embed(TEXTS) @ bundle.embed([TEXTS[4]])[0]
    best = cosines.topk(3)
    assert [row[1] for row in rows] == [TEXTS[i] for i in best.indices]
    lines = run_headway("similar", "enc", TEXTS[4], "t.jsonl", "--column", "body", "--json")[0]
    results = [json.loads(line) for line in lines.splitlines()]
    assert len(results) == 10 and results[0] == {"text": TEXTS[4], "cosine": 1.0}
    assert [result["cosine"] for result in results[:3]] == pytest.approx(
        best.values.tolist(), abs=1e-4
    )


@pytest.mark.parametrize("options", [[], ["--raw"], ["--pooling", "first"]])
def test_stored_vectors_are_searched_without_encoding_the_texts_again(
    run_headway, tmp_path, options, bundle
):
    path = str(tmp_path / "v.npz")
    run_headway("embed", "enc", "t.txt", TEXTS[4], "--output", path, *options)
    output, stderr = run_headway("similar", "enc", TEXTS[7], path, "--top", "99", "--json")
    pooling = {"pooling": "first"} if "first" in options else {}
    cosines = bundle.embed(TEXTS, **pooling) @ bundle.embed([TEXTS[7]], **pooling)[0]
    scores = {row["text"]: row["cosine"] for row in map(json.loads, output.splitlines())}
    assert scores == pytest.approx(dict(zip(TEXTS, cosines.tolist(), strict=True)), abs=1e-4)
    assert len(output.splitlines()) == len(TEXTS) and next(iter(scores)) == TEXTS[7]
    assert ("with pooling first" in stderr) == bool(pooling)
    # the vectors are those of the file, not computed again
    stored = dict(np.load(path))
    stored["vectors"][7] = -stored["vectors"][4]
    np.savez(path, **stored)
    assert run_headway("similar", "enc", TEXTS[4], path, "--top", "99")[0].endswith(
        f"-1.000\t{TEXTS[7]}\n"
    )


def test_vectors_of_another_model_and_damaged_vectors_are_refused(
    run_headway, working_folder, tmp_path
):
    path = tmp_path / "v.npz"
    vectors = np.ones((2, 24), np.float32)
    wrong = {
        "computed by another model": {"texts": np.array(["a", "b"]), "vectors": vectors},
        "embeds the first text differently": {
            "texts": np.array(["a", "b"]),
            "vectors": vectors[:, :7],
        },
        "must have an array 'vectors'": {"texts": np.array(["a", "b"])},
        "int64 with shape 2 x 24": {"texts": np.array(["a", "b"]), "vectors": vectors.astype(int)},
        "finite": {"texts": np.array(["a", "b"]), "vectors": vectors * np.nan},
        "one text for each of the 2 vectors": {"texts": np.array(["a"]), "vectors": vectors},
        "2 vectors, but it is float32": {"texts": vectors, "vectors": vectors},
        "the file has no texts": {"texts": np.array([], "U1"), "vectors": vectors[:0]},
    }
    for part, arrays in wrong.items():
        np.savez(path, **arrays)
        assert part in run_headway("similar", "enc", "fox", str(path), code=3)[1], part
    np.savez(path, texts=np.array([print], object), vectors=vectors)
    assert "can run code" in run_headway("similar", "enc", "fox", str(path), code=3)[1]
    path.write_bytes(path.read_bytes()[:90])
    assert "cannot be read as .npz" in run_headway("similar", "enc", "fox", str(path), code=3)[1]
    assert (
        "name only the .npz file"
        in run_headway("similar", "enc", "fox", str(path), "t.txt", code=2)[1]
    )
    assert "no such file" in run_headway("similar", "enc", "fox", "nowhere.npz", code=2)[1]


def test_every_text_is_read_once_from_files_arguments_and_pipes(run_headway):
    out = run_headway("similar", "enc", "a fox", "t.txt", "t.txt", "one more fox", "--top", "99")[0]
    assert len(out.splitlines()) == len(TEXTS) + 1
    assert run_headway("similar", "enc", "a fox", standard_input="a fox\nan owl\n")[0].startswith(
        "1.000\ta fox\n"
    )


def test_an_argument_that_looks_like_a_file_must_exist(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    for name in ("texts.txt", "a/b.tsv", "c.jsonl.gz"):
        with pytest.raises(UsageError, match="no such file"):
            gather([name])
    sentences = ["see texts.txt", "a.b", "x" * 5000, "what? \0"]
    assert gather(sentences).texts == sentences


# --- training ----------------------------------------------------------------------------------


def test_an_encoder_is_trained_evaluated_and_used(working_folder, run_headway):
    stderr = headway(*train("e", "--steps", "40"), cwd=working_folder).stderr
    for part in (
        "contrastive loss with 7 in-batch negatives per pair",
        "before training: reciprocal_rank 0.",
        "2 layers, d=24, 3 heads",
        "batches of 8 pairs",
        "valid step=40 reciprocal_rank=",
        "best reciprocal_rank",
        'similar runs/e "..." TEXTS',
    ):
        assert part in stderr, part
    summary = json.loads(run_headway("runs", "show", "runs/e", "--json")[0])
    scores = json.loads(run_headway("eval", "runs/e", "--json")[0])
    assert scores["reciprocal_rank"] == pytest.approx(summary["best"])
    assert run_headway("similar", "runs/e", "the fox sleeps at the lake", "t.txt")[0]
    assert (
        "no head for masked language modelling"
        in run_headway("fill", "runs/e", "a [MASK]", code=2)[1]
    )


def test_an_encoder_is_evaluated_on_a_file_of_scored_pairs(run_headway):
    scores = json.loads(run_headway("eval", "enc", "s.tsv", "--json")[0])
    assert scores["pairs"] == len(SCORED) and -1 <= scores["spearman"] <= 1
    text = run_headway("eval", "enc", "s.tsv")[0]
    assert text.startswith(f"spearman {scores['spearman']:.4f}   pearson ")


def test_a_dry_run_keeps_nothing_and_settings_are_shown(working_folder, run_headway):
    assert "steps, without evaluations" in run_headway(*train("dry", "--dry-run", data="s.tsv"))[1]
    assert not (working_folder / "runs" / "dry").exists()
    assert "scale: 20.0" in run_headway("config", "show", "embed")[0]


@pytest.mark.parametrize(
    ("words", "code", "part"),
    [
        ("fill enc hello", 2, "the text 'hello' has no [MASK]"),
        ("fill enc [MASK] --top 0", 2, "top=0"),
        ("fill headless [MASK]", 2, "no head for masked language modelling"),
        ("fill nowhere [MASK]", 2, "no such folder"),
        ("embed enc t.txt --output v.txt", 2, ".npz or .tsv or .jsonl"),
        ("embed enc t.txt --output existing.npz", 2, "exists already"),
        ("embed enc t.txt --plot v.pdf", 2, ".svg or .png"),
        ("embed enc t.txt --plot existing.svg", 2, "exists already"),
        ("embed enc nowhere.txt", 2, "no such file"),
        ("embed enc empty.txt", 3, "no text found"),
        ("embed enc existing.npz", 2, "vectors, not texts"),
        ("embed enc fox owl --plot few.svg", 2, "at least 3 texts, and there are 2"),
        ("embed enc t.txt --label kind", 2, "some texts have no label"),
        ("embed enc t.tsv --label sort", 2, "--label NAME"),
        ("embed enc t.jsonl", 3, "t.jsonl:1"),
        ("embed enc t.tsv --column words", 2, "--column NAME"),
        ("similar enc fox empty.txt", 3, "no text found"),
        ("similar enc fox t.txt --top 0", 2, "--top"),
        ("train embed", 2, "no training pairs are named"),
        ("train embed p.tsv", 2, "--from RUN"),
        ("train embed p.tsv --from enc --model tiny", 2, "has its size"),
        ("train embed t.tsv --from enc", 2, "--data.first"),
        ("eval enc", 2, "name a file"),
        ("eval enc t.tsv", 2, "no column is named 'first'"),
        ("translate enc hello", 2, "needs a translator"),
    ],
)
def test_a_wrong_command_gives_an_error_of_at_most_three_lines(
    working_folder, run_headway, words, code, part
):
    (working_folder / "empty.txt").write_text("\n \n")
    for name in ("existing.npz", "existing.svg"):
        (working_folder / name).write_text("existing")
    output = run_headway(*words.split(), code=code)[1]
    error = output[output.index("error:") :].strip()
    assert part in error and len(error.split("\n")) <= 3, output
    assert (
        (working_folder / "existing.npz").read_text()
        == "existing"
        == (working_folder / "existing.svg").read_text()
    )
    assert (
        not (working_folder / "runs" / "embed").exists()
        and not (working_folder / "few.svg").exists()
    )
