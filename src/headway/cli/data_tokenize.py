"""`headway data tokenize`: tokenises text once, by several processes, for runs that share it."""

import os
from pathlib import Path
from typing import Annotated

from headway.base.errors import UsageError
from headway.base.settings import setting, with_default
from headway.cli.flags import OUTPUT, as_flags
from headway.data.documents import Split
from headway.data.token_shards import Reading, TokenShards, make_shards, planned_tokens, sample_of
from headway.tasks.language_modeling.config import LanguageDataConfig
from headway.tasks.language_modeling.data import check_tokenizer, named_tokenizer
from headway.terminal.console import data, data_json, program, say, talk
from headway.terminal.progress import progress
from headway.text import TextTokenizer


@as_flags
class TokenizeFlags:
    output: Annotated[Path, OUTPUT] = setting(
        Path("tokens"), "Folder of the tokens; an unfinished one is continued."
    )
    tokenizer: str = setting(
        "bpe",
        "Tokenizer: bpe, unigram or characters, trained on a sample of the text, or the folder of "
        "a model or of tokens whose tokenizer is used.",
    )
    vocabulary: int = with_default(LanguageDataConfig, "vocabulary", 4000)
    split: Split = with_default(LanguageDataConfig, "split", "file")
    text: str | None = with_default(LanguageDataConfig, "text", None)
    processes: int | None = setting(
        None, "Number of processes, each with one thread. If unset, the number of cores.", gt=0
    )
    json: bool = setting(False, "Print one JSON object instead of text.")


def tokenize(*texts: str, flags: TokenizeFlags = TokenizeFlags()) -> None:
    """Tokenise text once, by several processes, for runs that share it.

    The files of the text are divided into shards of 64 MiB or more, which the processes make.
    Memory holds a small part of the text. A call that was interrupted or killed is continued by the
    same call. Train on the result: headway train gpt TOKENS.

    Parameters
    ----------
    texts
        Files of texts (.txt, .md, or a column of a table or of records), plain or .gz, folders, or
        python-docs.
    """
    if not texts:
        raise UsageError("no text is named", hint="headway data tokenize FILE_OR_FOLDER ...")
    check_tokenizer(flags.tokenizer)
    reading = Reading(flags.split, flags.text)

    def tokenizer() -> TextTokenizer:
        return named_tokenizer(flags.tokenizer, flags.vocabulary, sample_of(texts, reading))

    with progress("training the tokenizer"):
        shards = planned_tokens(texts, flags.output, reading, tokenizer)
    made = len(shards.files) - len(shards.missing)
    if made:
        say(f"reused    {made:,} of {len(shards.files):,} shards that an earlier call has made")
    with progress("tokenising") as report:
        make_shards(shards, flags.processes or os.cpu_count() or 1, report)
    _print(shards, json=flags.json)


def _print(shards: TokenShards, *, json: bool) -> None:
    size = {
        "tokens": 0,
        "bytes": 0,
        "shards": len(shards.files),
        "vocabulary": shards.tokenizer.size,
    }
    for corpus in shards.corpora():  # one at a time: checking a shard reads it into memory
        size["tokens"] += len(corpus)
        size["bytes"] += corpus.num_bytes
    if json:
        data_json({"folder": str(shards.folder), **size})
        return
    data(f"{size['tokens']:,} tokens of {size['bytes']:,} bytes, in {size['shards']:,} shards")
    talk.print(f"next      {program()} train gpt {shards.folder}")
