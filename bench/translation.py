"""Translation speed in sentences per second, beam 4, compared with transformers' `generate`.

Both sides have the same trained weights (`bench.marian` copies them, and the logits are compared
first). Measured from source ids to target ids and text, with the same sentences, sorted by length,
in batches of 64. The two libraries have different length penalties (Headway ((5 + n) / 6)^a, Wu et
al. 2016; transformers n^a), so the fraction of equal translations is also computed without one.

Three rows, by when a search ends. The first is what both do by default: Headway when no other
output can be better at any length, transformers earlier. In the two others both sides have the same
rule and the length penalty n^a, and search for `BEAM` outputs of each sentence, as transformers
always does: exact (its early_stopping="never"), and early (its default, Headway's
early_stopping=True).
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

import headway
from bench.marian import Specials, to_marian
from bench.report import Row, row
from bench.sides import Answer, Settings, Side, Worker, faster_attention, interleave
from headway.decoding import BeamSettings, Forbidden, Limits, fast_beam_search, run
from headway.tasks.opening import expect
from headway.tasks.translation.batches import collate_sources
from headway.tasks.translation.bundle import TranslatorBundle

BEAM, BATCH = 4, 64
RULES = {
    "default": "translation, beam 4",
    "exact": "translation, beam 4, both exact",
    "early": "translation, beam 4, both stop early",
}
"""When a search ends (see above), and the names of the rows."""
SENTENCES = "sentences.txt"  # in the run folder, one per line


def measure(ours: Side, peer: Side, rounds: int, device: str) -> Iterator[Row]:
    """Measure beam search. AssertionError if the logits of the two models differ."""
    a, b = (torch.tensor(side.ask(logits=True)["logits"]) for side in (ours, peer))
    difference = float((a - b).abs().max())
    assert difference < 1e-4, f"not the same model: logits differ by {difference}"
    attention = faster_attention(peer, max(1, rounds // 2), alpha=1.0, rule="default")
    name = f"transformers generate ({attention})"
    plain = [side.ask(alpha=0.0, rule="default", attention=attention) for side in (ours, peer)]
    for rule, title in RULES.items():
        pairs = interleave(ours, peer, rounds, alpha=1.0, rule=rule, attention=attention)
        first, second = pairs[0]
        without = f" (without length penalty {_equal(*plain):.1%})" if rule == "default" else ""
        words = sum(len(text.split()) for text in first["texts"]) / len(first["texts"])
        note = (
            f"equal translations: {_equal(first, second):.1%}{without}; {words:.1f} words each; "
            f"steps for all batches: ours {first['steps']}, peer {second['steps']}; logits within "
            f"{difference:.0e}"
        )
        yield row(title, pairs, "sentences/s", name, device, note=note)


def _equal(a: Answer, b: Answer) -> float:
    same = sum(x == y for x, y in zip(a["texts"], b["texts"], strict=True))
    return same / len(a["texts"])


def ours(settings: Settings) -> Worker:
    """Headway: `fast_beam_search`, as in `bundle.translate`."""
    bundle, batches = _start(settings)
    side = bundle.tokenizer.target
    counter = _Counter(bundle.model)

    def translate(rows: list[list[int]], alpha: float, rule: str) -> list[str]:
        limits = Limits(
            side.bos,
            side.eos,
            [2 * len(ids) + 10 for ids in rows],
            [Forbidden([[side.pad], [side.bos]])],
        )
        settings = BeamSettings(
            beam=BEAM,
            length_penalty=alpha,
            normalisation="gnmt" if rule == "default" else "average",
            early_stopping=rule == "early",
        )
        search = fast_beam_search(
            counter,
            collate_sources(rows, bundle.tokenizer.source),
            limits,
            settings,
            num_best=1 if rule == "default" else BEAM,
        )
        beams = run(counter, search)
        return [side.decode(hypotheses[0].tokens) for hypotheses in beams]

    def work(question: dict[str, Any]) -> Answer:
        if question.get("logits"):
            source, read, keys = _probe(bundle, batches[0])
            with torch.inference_mode():
                return {"logits": bundle.model(source, read, keys)[:, -1].tolist()}
        counter.steps, started = 0, time.perf_counter()
        alpha, rule = question["alpha"], question["rule"]
        texts = [text for rows in batches for text in translate(rows, alpha, rule)]
        seconds = time.perf_counter() - started
        return {"work": len(texts), "seconds": seconds, "texts": texts, "steps": counter.steps}

    return work


class _Counter(torch.nn.Module):
    """A model that counts the steps of a search."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self._model, self.steps = model, 0
        self.start = model.start

    def step(self, tokens: Any, state: Any) -> Any:
        self.steps += 1
        return self._model.step(tokens, state)


def peer(settings: Settings) -> Worker:
    """transformers: `generate` with the same weights and limits."""
    bundle, batches = _start(settings)
    side = bundle.tokenizer.target
    model = to_marian(bundle.model, Specials(side.pad, side.bos, side.eos))
    forbidden = [side.pad, side.bos]
    steps = 0

    def count(*_: Any) -> None:
        nonlocal steps
        steps += 1

    model.model.decoder.register_forward_pre_hook(count)

    @torch.inference_mode()
    def translate(rows: list[list[int]], alpha: float, rule: str) -> list[str]:
        source, keys = collate_sources(rows, bundle.tokenizer.source)
        longest = max(2 * len(ids) + 10 for ids in rows)
        output = model.generate(
            input_ids=source,
            attention_mask=torch.ones_like(source) if keys is None else keys.long(),
            num_beams=BEAM,
            do_sample=False,
            length_penalty=alpha,
            early_stopping="never" if rule == "exact" else False,
            use_cache=True,
            max_length=longest + 2,  # <s>, the tokens, </s>
        )
        return [side.decode(ids) for ids in cut(output.tolist(), side.eos)]

    def work(question: dict[str, Any]) -> Answer:
        nonlocal steps
        if question.get("logits"):
            source, read, keys = _probe(bundle, batches[0])
            with torch.inference_mode():
                out = model(input_ids=source, attention_mask=keys, decoder_input_ids=read)
            return {"logits": out.logits[:, -1].tolist()}
        # Marian adds this bias in any case, so that it excludes <pad> and <s> at no cost.
        model.final_logits_bias[:, forbidden] = -1e9
        model.set_attn_implementation(question["attention"])
        steps, started = 0, time.perf_counter()
        alpha, rule = question["alpha"], question["rule"]
        texts = [text for rows in batches for text in translate(rows, alpha, rule)]
        seconds = time.perf_counter() - started
        return {"work": len(texts), "seconds": seconds, "texts": texts, "steps": steps}

    return work


def cut(rows: list[list[int]], eos: int) -> list[list[int]]:
    """Return tokens of `generate` without the first <s>, and without everything from </s> on."""
    return [row[1 : row.index(eos, 1) if eos in row[1:] else None] for row in rows]


def _start(settings: Settings) -> tuple[TranslatorBundle, list[list[list[int]]]]:
    """Return the trained bundle and `settings.work` sentences as batches of ids, longest first."""
    folder = Path(settings.folder)
    bundle = expect(TranslatorBundle, headway.load(folder), folder)
    texts = (folder / SENTENCES).read_text(encoding="utf-8").splitlines()[: settings.work]
    ids = [row for row in bundle.tokenizer.source.encode_batch(texts) if row]
    ids.sort(key=len, reverse=True)
    return bundle, [ids[i : i + BATCH] for i in range(0, len(ids), BATCH)]


def _probe(bundle: TranslatorBundle, rows: list[list[int]]) -> tuple[Any, Any, Any]:
    """Return a few padded sources and starts of targets, on which logits are compared."""
    source, keys = collate_sources([rows[0], rows[-1][:5], rows[1]], bundle.tokenizer.source)
    read = torch.tensor([[bundle.tokenizer.target.bos, *row[:4]] for row in source.tolist()])
    return source, read, keys
