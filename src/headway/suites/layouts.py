"""The layouts of published benchmarks: by what a file is recognised, and how its rows are scored.

Each layout is an entry of `LAYOUTS`. No data of a benchmark is part of Headway: it is read from a
folder, in the files that its authors publish, or that the Hugging Face hub has.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from headway.data.rows import Row
from headway.suites import embedding, prompts
from headway.suites.prompts import Labelled
from headway.suites.questions import Question

ACCURACIES = ("acc", "acc_norm", "acc_bytes")
TEXT = ("word_perplexity", "byte_perplexity", "bits_per_byte")
SQUAD = ("exact", "f1_words", "HasAns_exact", "HasAns_f1", "NoAns_exact", "NoAns_f1")

SPLITS: Mapping[str, str] = {
    "train": "train",
    "training": "train",
    "dev": "validation",
    "val": "validation",
    "valid": "validation",
    "validation": "validation",
    "test": "test",
    "devtest": "test",
}
"""Word in the name of a file -> the part of the data that it has."""


@dataclass(frozen=True, kw_only=True)
class Layout:
    """A benchmark as its files have it.

    about: what is measured. files: the names of official files, for errors and documentation.
    columns: alternative sets of columns by which a table or a file of records is recognised.
    cells: names of the columns of tables without a header. named: regular expression that the path
    must match, where the columns do not suffice. reader: how files other than tables and records
    are read (`headway.suites.reading`). question: makes a question of a row. metrics: the primary
    one first. evaluated: the
    parts that are measured, the first one that exists. part_column: column by which results are
    shown in groups; without it in a row, groups are named by files. splits: words that differ from
    `SPLITS`; an empty part is left out. first: examples of prompts are the first ones of the
    training part, not drawn at random. submission: group -> name of the file of predictions on the
    test part. submits_names: it has names of classes, not numbers.
    """

    about: str
    files: str
    columns: tuple[frozenset[str], ...] = ()
    cells: tuple[str, ...] = ()
    named: str = ""
    reader: str = "table"
    question: Callable[[Row], Question]
    metrics: tuple[str, ...] = ACCURACIES
    evaluated: tuple[str, ...] = ("validation", "test")
    part_column: str | None = None
    splits: Mapping[str, str] = field(default_factory=dict)
    first: bool = False
    submission: Mapping[str, str] = field(default_factory=dict)
    submits_names: bool = False


def _columns(*alternatives: str) -> tuple[frozenset[str], ...]:
    return tuple(frozenset(names.split("|")) for names in alternatives)


LAYOUTS: dict[str, Layout] = {
    "blimp": Layout(
        about="grammar of English: minimal pairs of 67 phenomena",
        files="adjunct_island.jsonl and 66 more, with sentence_good and sentence_bad",
        columns=_columns("sentence_good|sentence_bad"),
        question=prompts.minimal_pair,
        metrics=("acc",),
        evaluated=("validation", "test", "train"),
        part_column="UID",
    ),
    "lambada": Layout(
        about="last word of a passage",
        files="lambada_test.jsonl with text, or lambada_test_plain_text.txt",
        columns=_columns("text"),
        named="lambada",
        reader="lines",
        question=prompts.last_word,
        metrics=("perplexity", "acc"),
        evaluated=("test", "validation"),
    ),
    "hellaswag": Layout(
        about="ending of a scene, of 4",
        files="hellaswag_val.jsonl with ctx_a, ctx_b, endings",
        columns=_columns("ctx_a|ctx_b|endings|activity_label"),
        question=prompts.hellaswag,
    ),
    "arc": Layout(
        about="questions of school exams, of 3 to 5 answers",
        files="ARC-Easy-Test.jsonl, ARC-Challenge-Test.jsonl with question and answerKey",
        columns=_columns("question|answerKey"),
        named="arc",
        question=prompts.arc,
        evaluated=("test", "validation"),
        part_column="subset",
    ),
    "piqa": Layout(
        about="physical common sense: which of 2 solutions",
        files="valid.jsonl with goal, sol1, sol2, and valid-labels.lst",
        columns=_columns("goal|sol1|sol2"),
        question=prompts.piqa,
    ),
    "mmlu": Layout(
        about="exam questions of 57 subjects, of 4 answers",
        files="test/anatomy_test.csv and dev/anatomy_dev.csv: question, 4 answers, letter",
        columns=_columns("question|choices|answer|subject"),
        cells=("question", "A", "B", "C", "D", "answer"),
        named="mmlu|_test\\.csv|_dev\\.csv|_val\\.csv",
        question=prompts.mmlu,
        metrics=("acc",),
        evaluated=("test", "validation"),
        part_column="subject",
        splits={"dev": "train", "auxiliary": ""},
        first=True,
    ),
    "winogrande": Layout(
        about="which of 2 names a gap means",
        files="train_xl.jsonl, dev.jsonl with sentence, option1, option2, answer",
        columns=_columns("sentence|option1|option2"),
        question=prompts.winogrande,
        metrics=("acc",),
    ),
    "wikitext": Layout(
        about="perplexity of Wikipedia articles",
        files="wiki.test.raw, wiki.test.tokens, or records with page",
        columns=_columns("page"),
        named="wiki",
        reader="articles",
        question=prompts.wikitext,
        metrics=TEXT,
        evaluated=("test", "validation"),
    ),
    "texts": Layout(
        about="perplexity of your own text files",
        files="a folder of texts named *.text.txt",
        named="\\.text\\.txt",
        reader="whole",
        question=prompts.plain_text,
        metrics=TEXT,
        evaluated=("test", "validation", "train"),
    ),
    "cola": Layout(
        about="GLUE: is a sentence acceptable?",
        files="CoLA/dev.tsv: source, label, mark, sentence",
        columns=_columns("sentence|label", "index|sentence"),
        cells=("source", "label", "mark", "sentence"),
        named="cola",
        question=Labelled(
            texts=(("sentence",),),
            classes=("unacceptable", "acceptable"),
            prompt="{0}\nQuestion: Does this sentence make sense?",
            choices=("no", "yes"),
        ),
        submission={"": "CoLA.tsv"},
        metrics=("mcc", "acc"),
    ),
    "sst2": Layout(
        about="GLUE: is a review positive?",
        files="SST-2/dev.tsv with sentence, label",
        columns=_columns("sentence|label", "index|sentence"),
        named="sst-?2",
        question=Labelled(
            texts=(("sentence",),),
            classes=("negative", "positive"),
            prompt="{0}\nQuestion: Is this sentence positive or negative?",
            choices=("negative", "positive"),
        ),
        submission={"": "SST-2.tsv"},
        metrics=("acc",),
    ),
    "mrpc": Layout(
        about="GLUE: do two sentences mean the same?",
        files="MRPC/dev.tsv with Quality, #1 String, #2 String",
        columns=_columns("#1 String|#2 String", "sentence1|sentence2|label"),
        named="mrpc|msr_paraphrase",
        question=Labelled(
            texts=(("#1 String", "sentence1"), ("#2 String", "sentence2")),
            label=("Quality", "label"),
            classes=("not_equivalent", "equivalent"),
            prompt="Sentence 1: {0}\nSentence 2: {1}\n"
            "Question: Do both sentences mean the same thing?",
            choices=("no", "yes"),
        ),
        submission={"": "MRPC.tsv"},
        metrics=("acc", "f1"),
    ),
    "qqp": Layout(
        about="GLUE: do two questions ask the same?",
        files="QQP/dev.tsv with question1, question2, is_duplicate",
        columns=_columns("question1|question2"),
        question=Labelled(
            texts=(("question1",), ("question2",)),
            label=("is_duplicate", "label"),
            classes=("not_duplicate", "duplicate"),
            prompt="Question 1: {0}\nQuestion 2: {1}\n"
            "Question: Do both questions ask the same thing?",
            choices=("no", "yes"),
        ),
        submission={"": "QQP.tsv"},
        metrics=("acc", "f1"),
    ),
    "mnli": Layout(
        about="GLUE: does a text entail another?",
        files="MNLI/dev_matched.tsv with sentence1, sentence2, gold_label",
        columns=_columns("sentence1|sentence2|gold_label", "premise|hypothesis"),
        named="mnli",
        question=Labelled(
            texts=(("sentence1", "premise"), ("sentence2", "hypothesis")),
            label=("gold_label", "label"),
            classes=("entailment", "neutral", "contradiction"),
            prompt="{0}\nQuestion: {1} True, False or Neither?",
            choices=("True", "Neither", "False"),
            prepare=prompts.as_sentence,
        ),
        submission={"matched": "MNLI-m.tsv", "mismatched": "MNLI-mm.tsv"},
        submits_names=True,
        metrics=("acc",),
        part_column="matched",
    ),
    "qnli": Layout(
        about="GLUE: does a sentence answer a question?",
        files="QNLI/dev.tsv with question, sentence, label",
        columns=_columns("question|sentence"),
        named="qnli",
        question=Labelled(
            texts=(("question",), ("sentence",)),
            classes=("entailment", "not_entailment"),
            prompt="{0}\n{1}\nQuestion: Does this response answer the question?",
            choices=("yes", "no"),
        ),
        submission={"": "QNLI.tsv"},
        submits_names=True,
        metrics=("acc",),
    ),
    "rte": Layout(
        about="GLUE: does a text entail another?",
        files="RTE/dev.tsv with sentence1, sentence2, label",
        columns=_columns("sentence1|sentence2"),
        named="rte",
        question=Labelled(
            texts=(("sentence1",), ("sentence2",)),
            classes=("entailment", "not_entailment"),
            prompt="{0}\nQuestion: {1} True or False?",
            choices=("True", "False"),
        ),
        submission={"": "RTE.tsv"},
        submits_names=True,
        metrics=("acc",),
    ),
    "wnli": Layout(
        about="GLUE: what does a pronoun mean?",
        files="WNLI/dev.tsv with sentence1, sentence2, label",
        columns=_columns("sentence1|sentence2"),
        named="wnli",
        question=Labelled(
            texts=(("sentence1",), ("sentence2",)),
            classes=("not_entailment", "entailment"),
            prompt="{0}\nQuestion: {1} True or False?",
            choices=("False", "True"),
        ),
        submission={"": "WNLI.tsv"},
        metrics=("acc",),
    ),
    "sts": Layout(
        about="similarity of sentences, by correlation with people",
        files="STS-B/dev.tsv with sentence1, sentence2, score, or sts-dev.csv without a header",
        columns=_columns("sentence1|sentence2"),
        cells=("genre", "file", "year", "number", "score", "sentence1", "sentence2"),
        named="sts",
        question=prompts.similarity,
        submission={"": "STS-B.tsv"},
        metrics=("spearman", "pearson"),
    ),
    "retrieval": Layout(
        about="BEIR: which documents answer a query?",
        files="qrels/test.tsv with query-id, corpus-id, score, beside corpus.jsonl, queries.jsonl",
        columns=_columns("query-id|corpus-id|score"),
        reader="judgements",
        question=embedding.retrieval,
        metrics=("ndcg_at_10", "mrr_at_10", "recall_at_100"),
        evaluated=("test", "validation"),
    ),
    "clustering": Layout(
        about="MTEB: which texts belong together?",
        files="test.jsonl with sentences and labels, two lists",
        columns=_columns("sentences|labels"),
        question=embedding.clustering,
        metrics=("v_measure",),
        evaluated=("test", "validation"),
    ),
    "squad": Layout(
        about="answers from a paragraph; SQuAD 1.1 and 2.0",
        files="dev-v1.1.json, dev-v2.0.json, or records with context and question",
        columns=_columns("paragraphs", "context|question|answers"),
        reader="questions",
        question=prompts.squad,
        metrics=SQUAD,
    ),
    "flores": Layout(
        about="translation",
        files="devtest/eng_Latn.devtest and devtest/deu_Latn.devtest",
        named=r"\.(devtest|dev)$",
        reader="parallel",
        question=prompts.translation,
        metrics=("bleu", "chrf"),
        evaluated=("test", "validation"),
    ),
}
"""Name -> layout."""
