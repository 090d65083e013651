"""Records: JSON lines, lists of JSON and Parquet, with values of every type."""

import gzip
import json
from decimal import Decimal

import pytest

from headway.base.errors import HeadwayError
from headway.data.documents import read_documents
from headway.data.rows import plain_text, read_rows, read_texts
from headway.tasks.classification.label_files import read_labelled
from headway.tasks.question_answering.question_files import read_questions
from headway.tasks.sentence_embedding.similar_files import read_similar
from headway.tasks.tagging.tag_files import read_tagged
from headway.tasks.translation.pairs.reading import pair_files, read_pairs
from headway.tasks.translation.pairs.splits import locate

ROWS = [{"text": "red fox", "label": "a"}, {"text": "old dog", "label": "b"}]


def write(path, content):
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def lines(rows):
    return "".join(json.dumps(row) + "\n" for row in rows)


def write_parquet(path, columns, features=None, **options):
    """Write a Parquet file. features: the types of Hugging Face data sets, by column."""
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    table = pyarrow.table(columns)
    if features is not None:
        notes = json.dumps({"info": {"features": features}})
        table = table.replace_schema_metadata({"huggingface": notes})
    parquet.write_table(table, path, **options)
    return path


def labels_of(path, **columns):
    return [text.label for text in read_labelled([path], **columns)]


def error_of(function, *arguments):
    with pytest.raises(HeadwayError) as caught:
        list(function(*arguments))
    return str(caught.value)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("x.jsonl", lines(ROWS)),
        ("x.ndjson", lines(ROWS)),
        ("x.json", lines(ROWS)),
        ("x.json", json.dumps(ROWS)),
        ("x.json", json.dumps(ROWS, indent=1)),
        ("x.json", json.dumps({"version": "1.0", "data": ROWS})),
        ("x.json", json.dumps({"data": ROWS}, indent=1)),
        ("x.json.gz", gzip.compress(json.dumps(ROWS).encode(), mtime=0)),
    ],
)
def test_records_are_lines_or_a_list(tmp_path, name, content):
    assert [row.values for row in read_rows(write(tmp_path / name, content), {})] == ROWS


def test_a_number_that_is_not_finite_stops_only_where_it_is_used(tmp_path):
    rows = '{"text": "a", "label": "x", "score": %s, "more": [%s]}\n'
    for number in ("NaN", "Infinity", "-Infinity", "1e999"):
        file = write(tmp_path / "x.jsonl", rows % (number, number))
        assert labels_of(file) == ["x"]
        used = write(tmp_path / "y.jsonl", f'{{"text": "a", "label": {number}}}\n')
        assert "'label' is" in error_of(labels_of, used) and "y.jsonl:1" in error_of(
            labels_of, used
        )
        similar = write(
            tmp_path / "z.jsonl", f'{{"first": "a", "second": "b", "score": {number}}}\n'
        )
        assert "the score" in error_of(read_similar, [similar])


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (" a ", "a"),
        (True, "true"),
        (False, "false"),
        (3, "3"),
        (3.0, "3"),
        (-0.0, "0"),
        (0.5, "0.5"),
        (Decimal("2.00"), "2"),
        (Decimal("2.50"), "2.50"),
        (None, None),
        (float("nan"), None),
        (["a"], None),
    ],
)
def test_values_of_other_types_are_classes_where_they_can_be(value, text):
    assert plain_text(value) == text


def test_parquet_has_texts_and_classes_of_every_type(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    texts = ["a", "b", "c"]
    for kind in (pyarrow.string(), pyarrow.large_string(), pyarrow.binary()):
        values = pyarrow.array([text.encode() for text in texts]).cast(kind)
        file = write_parquet(tmp_path / "x.parquet", {"text": values, "label": texts})
        assert [text.text for text in read_labelled([file])] == texts
    for labels, expected in (
        ([True, False, True], ["true", "false", "true"]),
        ([0.0, 1.0, 0.0], ["0", "1", "0"]),
        ([2, 1, 2], ["2", "1", "2"]),
        (pyarrow.array(["p", "q", "p"]).dictionary_encode(), ["p", "q", "p"]),
    ):
        columns = {"text": texts, "label": labels}
        file = write_parquet(tmp_path / "x.parquet", columns, row_group_size=2)
        assert labels_of(file) == expected


def test_a_row_of_parquet_without_a_value_is_refused_with_its_number(tmp_path):
    file = write_parquet(tmp_path / "x.parquet", {"text": ["a", "b"], "label": [1.0, None]})
    error = error_of(labels_of, file)
    assert "'label' is null" in error and f"{file}, row 2" in error
    columns = {"text": ["a"], "fine_label": [0], "coarse_label": [1]}
    error = error_of(labels_of, write_parquet(tmp_path / "y.parquet", columns))
    assert "'label' is missing; there are 'text', 'fine_label', 'coarse_label'" in error
    assert "--data.label NAME" in error


def test_class_numbers_of_parquet_have_the_names_of_the_metadata(tmp_path):
    classes = {"names": ["neg", "pos"], "_type": "ClassLabel"}
    columns = {"text": ["a", "b"], "label": [1, 0]}
    file = write_parquet(tmp_path / "x.parquet", columns, {"label": classes})
    assert labels_of(file) == ["pos", "neg"]
    columns["label"] = [1, 2]
    wrong = write_parquet(tmp_path / "y.parquet", columns, {"label": classes})
    assert "class number 2 of 'label' has no name" in error_of(labels_of, wrong)
    columns["label"] = [1, -1]
    unknown = write_parquet(tmp_path / "z.parquet", columns, {"label": classes})
    assert "row 2" in error_of(labels_of, unknown)


@pytest.mark.parametrize("kind", ["Sequence", "List", None])
def test_tags_are_read_from_lists_with_the_names_of_the_metadata(tmp_path, kind):
    classes = {"names": ["O", "B-PER"], "_type": "ClassLabel"}
    feature = [classes] if kind is None else {"feature": classes, "_type": kind}
    columns = {"id": ["0"], "tokens": [["Ada", "walks"]], "ner_tags": [[1, 0]]}
    file = write_parquet(tmp_path / "x.parquet", columns, {"ner_tags": feature})
    (sentence,) = read_tagged([file])
    assert (sentence.words, sentence.tags) == (("Ada", "walks"), ("B-PER", "O"))
    columns["pos_tags"] = [[5, 6]]
    several = write_parquet(tmp_path / "y.parquet", columns, {"ner_tags": feature})
    assert "several kinds of tags: ner_tags, pos_tags" in error_of(read_tagged, [several])
    assert next(read_tagged([several], "pos_tags")).tags == ("5", "6")


def test_pairs_are_read_from_parquet_and_lists_also_under_translation(tmp_path):
    rows = [{"en": "one", "fr": "un"}, {"en": "two", "fr": "deux"}]
    nested = {"translation": rows}
    files = [
        write_parquet(tmp_path / "train-00000-of-00001.parquet", nested),
        write_parquet(tmp_path / "b.parquet", {key: [row[key] for row in rows] for key in rows[0]}),
        write(tmp_path / "c.json", json.dumps([{"translation": row} for row in rows])),
    ]
    for file in files:
        pairs = read_pairs(pair_files(file, "en", "fr"))
        assert [(pair.source, pair.target) for pair in pairs] == [("one", "un"), ("two", "deux")]
        assert "its keys are 'en', 'fr'" in error_of(read_pairs, pair_files(file, "de", "fr"))
    assert locate(tmp_path, "en", "fr").train.paths == (files[0],)


FILES_OF_TEXTS = {
    "x.csv": 'n,body\n1,"one, or more"\n2,two\n',
    "x.tsv": "n\tbody\n1\tone, or more\n2\ttwo\n",
    "x.jsonl": '{"n": 1, "body": "one, or more"}\n{"n": 2, "body": "two"}\n',
    "x.json": '[{"n": 1, "body": "one, or more"}, {"n": 2, "body": "two"}]',
}


@pytest.mark.parametrize("name", [*FILES_OF_TEXTS, "x.parquet"])
def test_each_row_of_a_file_that_is_named_is_a_document(tmp_path, name):
    if name == "x.parquet":
        file = write_parquet(tmp_path / name, {"body": ["one, or more", "two"], "n": [1, 2]})
    else:
        file = write(tmp_path / name, FILES_OF_TEXTS[name])
    parts = list(read_documents([str(file)], "file", "body"))
    assert [part.text for part in parts] == ["one, or more", "two"]
    assert all(part.first for part in parts)
    assert list(read_texts([file], "body")) == ["one, or more", "two"]
    error = error_of(read_documents, [str(file)])
    assert "n" in error and "body" in error and "--data.text" in error


def test_a_table_or_json_file_in_a_folder_is_no_document(tmp_path):
    for name, content in FILES_OF_TEXTS.items():
        write(tmp_path / name, content)
    parts = read_documents([str(tmp_path)], "file", "body")
    assert [part.text for part in parts] == ["one, or more", "two"]
    (tmp_path / "x.jsonl").unlink()
    assert "name the files" in error_of(read_documents, [str(tmp_path)])


def test_a_damaged_parquet_file_is_named(tmp_path):
    file = write(tmp_path / "x.parquet", b"PAR1 and no more")
    assert "cannot be read as parquet" in error_of(labels_of, file) and str(file)


QUESTION = {"id": "7", "title": "t", "context": "Ada is by the lake.", "question": "who?"}
ADA = {"text": ["Ada", "Ada is"], "answer_start": [0, 0]}
NONE = {"text": [], "answer_start": []}


def squad(rows, kind, folder):
    """Write the records of questions in a format, and return the file."""
    if kind == "parquet":
        columns = {key: [row[key] for row in rows] for key in rows[0]}
        return write_parquet(folder / "x.parquet", columns)
    name = "x.jsonl" if kind == "jsonl" else "x.json"
    return write(folder / name, json.dumps(rows) if kind == "list" else lines(rows))


@pytest.mark.parametrize("kind", ["jsonl", "json", "list", "parquet"])
def test_questions_are_read_as_on_the_hub(tmp_path, kind):
    rows = [QUESTION | {"answers": ADA}, QUESTION | {"id": "8", "answers": NONE}]
    first, second = read_questions([squad(rows, kind, tmp_path)])
    assert [(answer.text, answer.start) for answer in first.answers] == [("Ada", 0), ("Ada is", 0)]
    assert (first.id, second.id, second.answers) == ("7", "8", ())


@pytest.mark.parametrize(
    "answers",
    [
        {"answers": [{"text": "Ada", "answer_start": 0}]},
        {"answers": {"text": "Ada", "answer_start": 0}},
        {"answers.text": ["Ada"], "answers.answer_start": [0]},
        {"answer": "Ada", "start": 0},
    ],
)
def test_answers_are_read_in_each_form(tmp_path, answers):
    (question,) = read_questions([write(tmp_path / "x.jsonl", lines([QUESTION | answers]))])
    assert [(answer.text, answer.start) for answer in question.answers] == [("Ada", 0)]


@pytest.mark.parametrize(
    ("answers", "message"),
    [
        ({}, "'answers' is missing; there are 'id', 'title', 'context', 'question'"),
        ({"answers": {"text": ["Ada"], "answer_start": []}}, "of one length"),
        ({"answers": {"text": ["Ada"]}}, "must have the lists 'text' and 'answer_start'"),
        ({"answers": None}, "must have the lists 'text' and 'answer_start'"),
        ({"answers": {"text": ["Bob"], "answer_start": [0]}}, "'Bob' must be in the context"),
        ({"answers": {"text": ["Ada"], "answer_start": ["0"]}}, "must be a whole number"),
    ],
)
def test_answers_that_are_none_are_refused_with_their_line(tmp_path, answers, message):
    file = write(tmp_path / "x.jsonl", lines([QUESTION | answers]))
    assert message in error_of(read_questions, [file]) and f"{file}:1" in error_of(
        read_questions, [file]
    )


def test_squad_of_several_lines_is_read(tmp_path):
    answers = [{"text": "Ada", "answer_start": 0}]
    paragraph = {"context": QUESTION["context"], "qas": [{"id": "7", "question": "who?"}]}
    paragraph["qas"][0]["answers"] = answers
    content = {"version": float("nan"), "data": [{"paragraphs": [paragraph]}]}
    for indent in (None, 1):
        file = write(tmp_path / "x.json", json.dumps(content, indent=indent))
        assert [question.id for question in read_questions([file])] == ["7"]


def test_an_object_of_several_lines_is_one_record(tmp_path):
    path = write(tmp_path / "x.json", json.dumps(ROWS[0], indent=1))
    assert [row.values for row in read_rows(path, {})] == ROWS[:1]


def test_a_list_in_a_file_of_lines_is_named(tmp_path):
    path = write(tmp_path / "x.jsonl", json.dumps(ROWS))
    assert "it is a list" in error_of(read_rows, path, {})
    assert "named .json" in error_of(read_rows, path, {})
