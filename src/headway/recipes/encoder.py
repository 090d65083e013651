"""Encoders as a run: text in, the model that guesses hidden words of held-out text best out.

Devlin et al. 2019 (BERT), Liu et al. 2019 (RoBERTa); going on in a domain: Gururangan et al. 2020.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import asdict
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from headway.bundle import EncoderBundle
from headway.data.framed import collate_framed
from headway.data.masked_rows import (
    IGNORED,
    MaskedBatch,
    MaskedRows,
    rows_in_order,
    words_a_row,
)
from headway.evaluation import PseudoPerplexity, pseudo_perplexity
from headway.machine import Machine
from headway.models import Bert, start_from
from headway.recipes.encoder_config import EncoderRunConfig
from headway.recipes.encoder_data import PreparedSentences, check_encoder, prepare_encoder
from headway.recipes.encoder_scores import HELD_OUT, score_rows, sources_of
from headway.settings import override
from headway.tasks.job import Emit, Example, Family, prepare_blocks
from headway.tasks.text_data import opened
from headway.training import MaskedWords, Stream


class EncoderJob:
    """A `Job`: a BERT and the sentences it learns from. start: what it goes on from, or none."""

    def __init__(
        self,
        config: EncoderRunConfig,
        prepared: PreparedSentences,
        start: EncoderBundle | None,
        machine: Machine,
    ) -> None:
        self.config = _fitted(config, prepared, start)
        self.prepared, self.start, self.machine = prepared, start, machine
        tokenizer = prepared.tokenizer
        train = sources_of(self.config, prepared.train, tokenizer, 0)
        self.rows = MaskedRows(train, machine.device)
        self.held_out = sources_of(self.config, prepared.valid, tokenizer, HELD_OUT)
        self.objective = MaskedWords(words_a_row(self.rows.sources[0]))

    def build(self) -> nn.Module:
        model = Bert(self.config.model)
        if self.start is not None:
            start_from(model, self.start.model, self.prepared.new, self.start.tokenizer.size)
        prepare_blocks(model, self.config.training, self.config.machine, model, "encode")
        return model

    def stream(self, epoch: int, position: int) -> Stream:
        return self.rows.stream(epoch, position)

    @torch.inference_mode()
    def evaluate(
        self, model: Any, emit: Callable[..., None], go_on: Callable[..., None]
    ) -> dict[str, float]:
        """Of held-out rows that hide the same words each time: nats a hidden word and the share
        guessed right, nats a pair and the share judged right, and how many nats the words are below
        their unigram entropy."""
        sums = score_rows(model, self.held_out_batches(), self.machine, go_on)
        self._show_sample(model, emit)
        self._tell_surprise(model, emit, go_on)
        numbers = sums.numbers()
        nats = numbers["mlm_nats"]
        return {**numbers, "negative_mlm_nats": -nats, "below_unigram": self.unigram[0] - nats}

    def held_out_batches(self) -> Iterator[MaskedBatch]:
        """The same rows, with the same words hidden, each time."""
        most = -(-self.config.evaluation.rows // len(self.held_out))
        for source in self.held_out:
            yield from rows_in_order(source, self.config.training.rows, most, self.machine.device)

    @cached_property
    def unigram(self) -> tuple[float, float]:
        """(entropy of the hidden words of the held-out rows, what they cost by the frequencies of
        the training text), nats a word.

        The first is below what any model of single words could reach, as it knows these words.
        """
        targets = [batch.targets[batch.targets != IGNORED] for batch in self.held_out_batches()]
        size = self.prepared.tokenizer.size
        hidden = np.bincount(torch.cat(targets).cpu().numpy(), minlength=size)
        seen = np.ones(size)
        for source in self.rows.sources:
            seen += source.corpus.counts(size)
        seen[list(self.prepared.tokenizer.special_ids)] = 0
        there = hidden > 0
        shares = hidden[there] / hidden.sum()
        entropy = -float((shares * np.log(shares)).sum())
        return entropy, -float((shares * np.log(seen[there] / seen.sum())).sum())

    def _show_sample(self, model: Bert, emit: Callable[..., None]) -> None:
        """A held-out sentence with a hidden word, so that a person sees what the numbers mean."""
        asked, tokenizer = self.config.evaluation.sample, self.prepared.tokenizer
        found = _to_guess(self.prepared, self.config.training.length) if asked else None
        if found is None:
            return
        ids, place = found
        shown = [*ids[:place], tokenizer.marks.mask, *ids[place + 1 :]]
        framed, _ = tokenizer.marks.frame(shown)
        batch = collate_framed([framed], None, tokenizer.marks.pad).to(self.machine.device)
        with self.machine.precision():
            hidden = model.encode(batch.tokens, batch.keys)
            shares = model.words(hidden[:, place + 1]).float().softmax(-1)[0, : tokenizer.size]
        best = shares.topk(min(asked, tokenizer.size))
        words = tokenizer.pieces(best.indices.tolist())
        guesses = zip(words, best.values.tolist(), strict=True)
        (mask, true) = tokenizer.pieces([tokenizer.marks.mask, ids[place]])
        before, after = tokenizer.decode(ids[:place]), tokenizer.decode(ids[place + 1 :])
        prompt = f"{before} {mask} {after}".strip()
        output = ", ".join(f"{word} {share:.2f}" for word, share in guesses)
        emit("sample", prompt=prompt, output=f"{output} (it was: {true})")

    @cached_property
    def sentences(self) -> list[str]:
        """Some held-out sentences, as the tokenizer spells them."""
        corpus, most = self.prepared.valid[0], self.config.evaluation.sentences
        chosen = np.unique(np.linspace(0, len(corpus) - 1, most).round().astype(int))
        texts = [self.prepared.tokenizer.decode(corpus.sentence(int(i))) for i in chosen]
        return [text for text in texts if text]

    @cached_property
    def surprise_before(self) -> PseudoPerplexity | None:
        """Of the model that it starts from, on `sentences`."""
        if self.start is None or self.start.model.masked_words is None:
            return None
        self.start.model.to(self.machine.device)
        return pseudo_perplexity(self.start, self.sentences)

    def _tell_surprise(
        self, model: Bert, emit: Callable[..., None], go_on: Callable[..., None]
    ) -> None:
        """Where it goes on from a model: how much better it knows this text by now."""
        if self.start is None:
            return
        now = pseudo_perplexity(
            EncoderBundle(model, self.prepared.tokenizer), self.sentences, go_on
        )
        before = self.surprise_before
        compared = "" if before is None else f", {before.a_word:,.1f} before"
        tokens = "" if before is None else f", {before.fertility:.3f} before"
        text = f"pseudo-perplexity {now.a_word:,.1f} a word{compared}; {now.fertility:.3f} tokens"
        emit("note", text=f"{text} a word{tokens} ({len(self.sentences)} held-out sentences)")

    def example(self) -> Example | None:
        short = (text for text in self.sentences if 5 <= len(text.split()) <= 30)
        text = next(short, None)
        return None if text is None else Example(text)

    def bundle(self, model: Any) -> EncoderBundle:
        how = () if self.start is None else (self.start.pooling, self.start.length)
        return EncoderBundle(model, self.prepared.tokenizer, *how)

    def plan(self) -> dict[str, Any]:
        model, training = self.config.model, self.config.training
        kind = "pairs" if model.next_sentence else "rows"
        return {
            "model": f"{model.num_layers} layers, d={model.model_dim}, {model.num_heads} heads, "
            f"{model.vocabulary:,} pieces",
            "batches": f"{training.rows * training.accumulate} {kind} of up to {training.length} "
            "tokens",
            "batches_an_epoch": self.rows.batches_an_epoch,
            "unit": "words",
        }


def _to_guess(prepared: PreparedSentences, room: int) -> tuple[list[int], int] | None:
    """(a held-out sentence of some length, the place of its longest word that is one piece)."""
    tokenizer, corpus = prepared.tokenizer, prepared.valid[0]
    continues = [*tokenizer.continues(), False]
    fitting = np.flatnonzero((corpus.lengths >= 6) & (corpus.lengths <= min(30, room - 2)))
    for number in fitting[len(fitting) // 2 :].tolist():
        ids = corpus.sentence(number)
        after = [*ids[1:], -1]
        pieces = tokenizer.pieces(ids)
        places = [
            place
            for place, (i, following) in enumerate(zip(ids, after, strict=True))
            if not (continues[i] or continues[following] or i in tokenizer.special_ids)
        ]
        if places:
            return ids, max(places, key=lambda place: len(pieces[place]))
    return None


def _fitted(
    config: EncoderRunConfig, prepared: PreparedSentences, start: EncoderBundle | None
) -> EncoderRunConfig:
    """With the sizes that the start decides; or the tokenizer, and room for the rows."""
    pieces = prepared.tokenizer.size
    if start is not None:
        given = {f"model.{name}": value for name, value in asdict(start.config).items()}
        given["model.dropout"] = config.model.dropout
        given["model.masked_words"] = True
        given["model.vocabulary"] = max(start.config.vocabulary, pieces)
        return override(config, given, "the model to start from")
    length = max(config.model.max_length, config.training.length)
    return override(
        config, {"model.vocabulary": pieces, "model.max_length": length}, "the tokenizer"
    )


def _prepare(config: EncoderRunConfig, folder: Path, machine: Machine, emit: Emit) -> EncoderJob:
    training = config.training
    start = opened(EncoderBundle, training.start, training.length) if training.start else None
    prepared = prepare_encoder(config, start, folder, emit)
    job = EncoderJob(config, prepared, start, machine)

    def note(text: str) -> None:
        emit({"kind": "note", "text": text})

    entropy, cost = job.unigram
    note(
        f"the hidden words held out have a unigram entropy of {entropy:.3f} nats; by the training "
        f"text's frequencies they cost {cost:.3f}"
    )
    if job.config.model.next_sentence:
        for source in job.rows.sources:
            if len(source.corpus.documents) == 2:
                note(
                    f"{source.corpus.text.folder.name} is one document: texts that do not follow "
                    "are from far away in it; --data.split parts it"
                )
    if len(prepared.train) > 1:
        shares = ", ".join(f"{share:.1%}" for share in job.rows.shares)
        note(f"shares of the texts: {shares} (--data.smoothing {config.data.smoothing:g})")
        if job.config.model.next_sentence and training.mixed:
            passes = "pass" if training.mixed == 1 else f"{training.mixed} passes"
            note(
                f"in the first {passes} second texts that stand elsewhere come from all the texts, "
                "then from their own (--training.mixed)"
            )
    if start is not None:
        if config.optimizer.kind == "muon":
            note(
                f"the rates of the recipe {config.recipe} suit models that begin from nothing: "
                "headway train bert-domain goes on more carefully"
            )
        _tell_start(job, note)
    return job


def _tell_start(job: EncoderJob, note: Callable[[str], None]) -> None:
    before = job.surprise_before
    if before is None:
        note("the model to start from has no head for hidden words: it begins with a new one")
        return
    note(
        f"before: pseudo-perplexity {before.a_word:,.1f} a word ({math.log(before.a_word):.3f} "
        f"nats), {before.fertility:.3f} tokens a word"
    )


ENCODER = Family(check=check_encoder, prepare=_prepare)
