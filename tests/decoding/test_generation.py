"""Text in, text out: no character split, no stop string leaked, streamed or whole the same."""

import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from headway.decoding import (
    GenerationConfig,
    ModelDraft,
    PromptLookup,
    TextStreamer,
    generate,
    log_probabilities,
    stream,
)
from headway.errors import UsageError
from tests.fixtures.written_language import Bytes, gpt

TOKENIZER = Bytes()
PROMPTS = ["", "né", "The theatre", "a\n\nb"]
TEXT = st.text(st.sampled_from("ab\né😀 "), max_size=30)


def model(seed=0, **changes):
    return gpt(seed, TOKENIZER.size, sharp=3.0, **changes)


def settings(**changes):
    return GenerationConfig(**({"max_tokens": 12, "temperature": 1.0, "seed": 3} | changes))


def cut(text, stops):
    """Before the stop string that is complete first; of several then, the longest."""
    ends = [(text.find(s) + len(s), text.find(s)) for s in stops if s in text]
    return text[: min(ends)[1]] if ends else text


@given(TEXT, st.lists(TEXT.filter(bool), max_size=3), st.randoms())
def test_pieces_joined_are_the_text_before_the_first_stop_string(text, stops, random):
    """However the bytes fall into tokens."""
    raw, joined = text.encode(), []
    while raw:
        size = random.randint(1, 3)
        joined.append(raw[:size])
        raw = raw[size:]
    tokenizer = Bytes(joined=list(dict.fromkeys(joined)))
    writer, pieces = TextStreamer(tokenizer, stop=stops), []
    for piece in joined:
        pieces.append(writer.feed(tokenizer.ids[piece]))
        assert "\ufffd" not in pieces[-1]
    pieces.append(writer.finish())
    assert "".join(pieces) == cut(text, stops)
    assert writer.stopped == any(stop in text for stop in stops)


@examples(max_examples=50)
@given(st.lists(st.integers(0, TOKENIZER.size - 1), max_size=90))
def test_broken_bytes_come_out_as_decoding_all_at_once_shows_them(tokens):
    writer = TextStreamer(TOKENIZER)
    pieces = [*(writer.feed(token) for token in tokens), writer.finish()]
    assert "".join(pieces) == TOKENIZER.decode(tokens)


def test_a_long_output_is_decoded_in_short_windows():
    sizes, tokenizer = [], Bytes()
    decode = tokenizer.decode
    tokenizer.decode = lambda ids: (sizes.append(len(ids)), decode(ids))[1]
    writer = TextStreamer(tokenizer)
    for token in [2 + 0x80] * 500 + tokenizer.encode("é" * 200):
        writer.feed(token)
    assert max(sizes) <= 26


@pytest.mark.parametrize("draft", [None, PromptLookup(2, 4), ModelDraft(model(1), 3)])
@pytest.mark.parametrize("changes", [{}, {"temperature": 0.0}, {"stop": ("a", "\x10", "e")}])
def test_streamed_is_whole_and_alone_is_in_company(changes, draft):
    config = settings(**changes)
    outputs = generate(model(), TOKENIZER, PROMPTS, config, draft)
    for prompt, (best,) in zip(PROMPTS, outputs, strict=True):
        ((alone,),) = generate(model(), TOKENIZER, [prompt], config, draft)
        assert (alone.text, alone.tokens, alone.reason) == (best.text, best.tokens, best.reason)
        assert "".join(stream(model(), TOKENIZER, prompt, config, draft)) == best.text
        assert len(best.tokens) == len(best.log_probabilities)
        assert not any(stop in best.text for stop in config.stop)


def test_each_sample_comes_again_from_its_own_seed():
    (three,) = generate(model(), TOKENIZER, ["ab"], settings(samples=3, alternatives=2))
    assert len({c.tokens for c in three}) == 3
    for sample in three:
        again = generate(model(), TOKENIZER, ["ab"], settings(seed=sample.seed))[0][0]
        assert again.text == sample.text
        assert all(len(best) == 2 for best in sample.alternatives)


@pytest.mark.parametrize("groups", [1, 2])
def test_beams_are_told_as_if_written_token_by_token(groups):
    config = settings(beam=4, beam_groups=groups, samples=2, stop=("e",))
    for prompt, best in zip(PROMPTS, generate(model(), TOKENIZER, PROMPTS, config), strict=True):
        assert len({c.tokens for c in best}) == len(best) == 2
        for c in best:
            expected = log_probabilities(model(), TOKENIZER.begin(prompt), c.tokens)
            assert list(c.log_probabilities) == pytest.approx(expected, abs=1e-5)
            assert "e" not in c.text


def test_what_is_forced_stands_first_and_what_is_forbidden_nowhere():
    likely = generate(model(), TOKENIZER, ["ab"], settings(temperature=0.0))[0][0]
    letter = next(p for t in likely.tokens if (p := TOKENIZER.decode([t])).isalpha())
    config = settings(temperature=0.0, force="né ", forbid=(letter,))
    outputs = generate(model(), TOKENIZER, ["ab", ""], config)
    assert all(c.text.startswith("né ") and letter not in c.text[3:] for (c,) in outputs)
    biased = settings(bias=("Q=90",))
    assert generate(model(), TOKENIZER, ["ab"], biased)[0][0].text == "Q" * 12


def test_edges():
    small = model(max_length=8)
    assert generate(small, TOKENIZER, [], settings()) == []
    with pytest.raises(UsageError, match="12 tokens, but the model's context is 8"):
        generate(small, TOKENIZER, ["b", "b" * 11], settings())
    (full,) = generate(small, TOKENIZER, ["b" * 5], settings(min_tokens=12))[0]
    assert (len(full.tokens), full.reason) == (3, "context")
    with pytest.raises(UsageError, match="draft"):
        generate(small, TOKENIZER, ["b"], settings(beam=2), PromptLookup())
    with pytest.raises(UsageError, match="one sampled output"):
        next(stream(small, TOKENIZER, "b", settings(samples=2)))
    for wrong in ({"stop": ("",)}, {"beam": 3, "beam_groups": 2}, {"min_tokens": 13}):
        with pytest.raises(ValueError):
            settings(**wrong)


@pytest.mark.parametrize("how", [{}, {"temperature": 0.0}, {"beam": 3}, {"lookup": 2}])
def test_what_pads_a_vocabulary_is_never_written(how):
    """Models are made wider than their tokenizer, to a round number."""
    padded = gpt(1, TOKENIZER.size + 40, sharp=0.2)
    outputs = generate(padded, TOKENIZER, PROMPTS, settings(max_tokens=30, **how))
    assert all(token < TOKENIZER.size for (output,) in outputs for token in output.tokens)
