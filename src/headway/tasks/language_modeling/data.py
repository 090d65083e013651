"""The data of language modelling: tokenizer and text in the run folder, and text to score."""

import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

from headway.base.errors import DataError, UsageError
from headway.bundle import TextBundle
from headway.data.documents import Part, read_documents
from headway.data.prepared import prepared
from headway.data.text_corpus import TextCorpus, joined, prepare_text, split_end
from headway.data.token_shards import TokenShards, is_tokens, opened_tokens
from headway.tasks.job import Emit
from headway.tasks.language_modeling.config import (
    LanguageDataConfig,
    LanguageEvaluationConfig,
    LanguageRunConfig,
    LanguageScoring,
    LanguageTrainingConfig,
)
from headway.tasks.opening import load_as
from headway.tasks.sections import RunSettings, TextDataConfig, TextStudentTrainingConfig
from headway.tasks.text_data import (
    RunningText,
    check_text,
    held_out_folder,
    prepare_texts,
    tokenizer_of_run,
)
from headway.text import CharacterTokenizer, TextBPE, TextTokenizer, TextUnigram, load_tokenizer

TRAINED = ("bpe", "unigram", "characters")

BATCH_TOKENS = 4096
"""Batch size in tokens, for a model without a run."""

LONGEST_WINDOW = 1024
"""Maximum default window length."""


@dataclass(frozen=True)
class PreparedLanguage:
    """The tokenizer, the training corpora, and the validation corpus.

    names: the text of data.train that each corpus is a part of. weights: data.weights, divided
    among the corpora of a text.
    """

    tokenizer: TextTokenizer
    train: list[TextCorpus]
    valid: TextCorpus
    names: Sequence[str]
    weights: Sequence[float]


def check_sources(config: LanguageRunConfig) -> None:
    """Raise UsageError if text is missing, or if settings conflict."""
    data = config.data
    _check_tokens(data) if any(map(is_tokens, data.train)) else check_text(data, config.recipe)
    if data.weights and len(data.weights) != len(data.train):
        raise UsageError(
            f"--data.weights has {len(data.weights)} numbers for {len(data.train)} texts",
            hint="give one number for each text",
        )
    if any(weight < 0 for weight in data.weights) or (data.weights and not sum(data.weights)):
        raise UsageError(
            f"--data.weights {','.join(f'{weight:g}' for weight in data.weights)}: weights must "
            "be at least 0, and their sum above 0",
            hint="3,1 samples three sequences of the first text for one of the second",
        )
    if config.lora.rank and config.optimizer.kind == "muon":
        raise UsageError(
            "lora.rank cannot be combined with optimizer.kind=muon", hint="--optimizer.kind adamw"
        )
    if config.training.start is not None:
        if data.tokenizer != "bpe":
            raise UsageError(
                f"data.tokenizer={data.tokenizer}: fine-tuning uses the tokenizer of the "
                "pre-trained model",
                hint="leave out --data.tokenizer",
            )
    else:
        check_tokenizer(data.tokenizer)


def prepare_language(
    config: LanguageRunConfig, start: TextBundle | None, folder: Path, emit: Emit
) -> PreparedLanguage:
    """Prepare tokenizer and shards in the run folder, or reuse them.

    Sub-words are learned from the training text only. A character vocabulary has the characters of
    all text, because unknown characters could not be encoded.
    """
    data = config.data
    if any(map(is_tokens, data.train)):
        return _prepared_tokens(data, start, folder, emit)
    text = RunningText(data, emit, folder)
    tokenizer = tokenizer_of_run(
        folder, load_tokenizer, lambda: _tokenizer(data, start, text), emit
    )
    train, (valid,) = prepare_texts(
        text,
        folder,
        lambda path: TextCorpus.open(path, tokenizer),
        lambda parts, path, progress: prepare_text(parts, tokenizer, path, progress),
        len,
        joined=True,
    )
    return PreparedLanguage(tokenizer, train, valid, data.train, data.weights)


def _check_tokens(data: LanguageDataConfig) -> None:
    """Raise UsageError unless all sources of a run on folders of tokens are such folders."""
    for source in (*data.train, *data.valid):
        if not is_tokens(source):
            raise UsageError(
                "folders of tokens cannot be combined with text, but this is no such folder",
                source,
                "tokenise it, too: headway data tokenize TEXT --tokenizer TOKENS",
            )
    usual = LanguageDataConfig()
    for name in ("tokenizer", "vocabulary", "split", "text"):
        if (value := getattr(data, name)) != getattr(usual, name):
            raise UsageError(
                f"data.{name}={value}: a folder of tokens was made with its own",
                data.train[0],
                f"leave out --data.{name}; headway data tokenize --{name} sets it",
            )


def _prepared_tokens(
    data: LanguageDataConfig, start: TextBundle | None, folder: Path, emit: Emit
) -> PreparedLanguage:
    """Open folders of tokens; only the held-out text is copied into the run folder.

    Raises DataError if a shard is missing or damaged, or for another tokenizer.
    """

    def opened(source: str) -> TokenShards:
        step = {"kind": "preparing", "what": source, "unit": "bytes"}
        return opened_tokens(source, lambda done: emit({**step, "done": done}))

    sources = [opened(source) for source in data.train]
    tokenizer = tokenizer_of_run(
        folder,
        load_tokenizer,
        lambda: (sources[0].tokenizer, f"of {data.train[0]}"),
        emit,
    )
    held_out = [opened(source) for source in data.valid]
    needed = tokenizer if start is None else start.tokenizer
    for shards in (*sources, *held_out):
        if shards.fingerprint != needed.fingerprint:
            whose = data.train[0] if start is None else "the pre-trained model"
            raise DataError(
                f"the tokens are not those of the tokenizer of {whose}",
                str(shards.folder),
                f"tokenise the text with it: headway data tokenize TEXT --tokenizer {whose}",
            )
    of_sources = [list(shards.corpora()) for shards in sources]
    ends = [corpus for shards in held_out for corpus in shards.corpora()]
    if not held_out:
        split = [split_end(corpora, data.held_out, tokenizer) for corpora in of_sources]
        of_sources, ends = [train for train, _ in split], [end for _, end in split]
    valid = prepared(
        folder / "data" / "valid",
        lambda path: TextCorpus.open(path, tokenizer),
        lambda path, progress: joined(ends, tokenizer, path),
        lambda corpus: {"count": len(corpus), "unit": "tokens"},
        emit,
        "bytes",
    )
    names, weights = [], []
    for source, corpora, weight in zip(
        data.train, of_sources, data.weights or [1.0] * len(sources), strict=True
    ):
        tokens = sum(map(len, corpora))
        emit(
            {"kind": "prepared", "what": source, "count": tokens, "unit": "tokens", "reused": True}
        )
        names += [source] * len(corpora)
        weights += [weight * len(corpus) / tokens for corpus in corpora]
    train = [corpus for corpora in of_sources for corpus in corpora]
    return PreparedLanguage(tokenizer, train, valid, names, weights if data.weights else ())


def _tokenizer(
    data: LanguageDataConfig, start: TextBundle | None, text: RunningText
) -> tuple[TextTokenizer, str]:
    """Return the tokenizer that the settings name, and its origin."""
    if start is not None:
        return start.tokenizer, "of the pre-trained model"
    if data.tokenizer in TRAINED:
        text.emit({"kind": "preparing", "what": "tokenizer", "done": 0, "unit": "bytes"})
    if data.tokenizer == "characters":
        texts = (part.text for part in text.every())
    else:
        texts = (part.text for half in text.train for part in half.train())
    origin = data.tokenizer if data.tokenizer in TRAINED else f"of {data.tokenizer}"
    return named_tokenizer(data.tokenizer, data.vocabulary, texts), origin


def named_tokenizer(name: str, vocabulary: int, texts: Iterable[str]) -> TextTokenizer:
    """Return the tokenizer that a setting names: one of TRAINED, which is trained on the texts, or
    that of a model or of a folder of tokens. Raises UsageError if the folder is missing."""
    if name == "characters":
        return CharacterTokenizer.train(texts)
    if name in TRAINED:
        return (TextUnigram if name == "unigram" else TextBPE).train(texts, vocabulary)
    if is_tokens(name):
        return TokenShards.open(Path(name)).tokenizer
    return load_as(TextBundle, name).tokenizer


def check_tokenizer(name: str) -> None:
    """Raise UsageError if a setting names no tokenizer."""
    if name not in TRAINED and not Path(name).is_dir():
        raise UsageError(
            f"data.tokenizer={name}: no such folder",
            hint=f"{', '.join(TRAINED)}, or the folder of a model",
        )


@dataclass(frozen=True, kw_only=True)
class Windows:
    """How a text is split into windows, and how many of its tokens are scored.

    length: the number of targets of a window. batch_size: the batch size, in windows. tokens: the
    number of tokens that are scored, rounded up to whole batches; None: all.
    """

    length: int
    batch_size: int
    tokens: int | None = None


@dataclass(frozen=True, kw_only=True)
class ScoredText:
    """The tokens of a text to score, and its windows, which options of the evaluation override."""

    corpus: TextCorpus
    windows: Windows
    unit: ClassVar[str] = "tokens"

    def __len__(self) -> int:
        """The number of tokens."""
        return len(self.corpus)


def windows_of(bundle: TextBundle, config: object) -> Windows:
    """Return the windows of a run's validation.

    Without a run, the window length is the model's context length, at most LONGEST_WINDOW.
    """
    if isinstance(config, RunSettings) and isinstance(config.evaluation, LanguageEvaluationConfig):
        return windows_of_run(config)
    length = min(bundle.config.max_length, LONGEST_WINDOW)
    return Windows(length=length, batch_size=max(1, BATCH_TOKENS // length))


def windows_of_run(config: RunSettings) -> Windows:
    """Return the windows of a run of a language model, or of a student of one, whose batch size and
    length are decided."""
    training, evaluation = config.training, config.evaluation
    assert isinstance(training, LanguageTrainingConfig | TextStudentTrainingConfig)
    assert isinstance(evaluation, LanguageEvaluationConfig)
    length, batch_size = training.length, training.batch_size
    assert length is not None and batch_size is not None
    return Windows(length=length, batch_size=batch_size, tokens=evaluation.tokens)


def held_out_text(
    bundle: TextBundle, run: Path, config: object, options: LanguageScoring
) -> ScoredText:
    """Open the held-out text of a run; encode it again for a model that was carried elsewhere with
    a tokenizer in another form, such as a GGUF file. Raises UsageError if it is missing."""
    folder, windows = held_out_folder(run), windows_of(bundle, config)
    tokenizer = load_tokenizer(run)
    corpus = TextCorpus.open(folder, tokenizer)
    if bundle.tokenizer.fingerprint != tokenizer.fingerprint:
        parts = (
            Part(tokenizer.decode([int(i) for i in ids[1:]]), first=True)
            for ids in corpus.documents(tokenizer.bos)
        )
        with tempfile.TemporaryDirectory() as scratch:  # the files stay mapped
            corpus = prepare_text(parts, bundle.tokenizer, Path(scratch) / "text")
        windows = replace(windows, length=min(windows.length, bundle.config.max_length))
    return ScoredText(corpus=corpus, windows=windows)


def read_text(
    bundle: TextBundle, paths: Sequence[Path], config: object, options: LanguageScoring
) -> ScoredText:
    """Read and encode the text of files, folders or collections.

    It is split into documents by the settings of the run, or by the defaults.
    """
    data = config.data if isinstance(config, RunSettings) else None
    settings = data if isinstance(data, TextDataConfig) else TextDataConfig()
    with tempfile.TemporaryDirectory() as folder:  # the files stay mapped after they are removed
        parts = read_documents([str(path) for path in paths], settings.split, settings.text)
        corpus = prepare_text(parts, bundle.tokenizer, Path(folder) / "text")
    windows = replace(windows_of(bundle, config), tokens=None)
    return ScoredText(corpus=corpus, windows=windows)
