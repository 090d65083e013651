"""Generated text: characters are whole, stop strings are removed, streaming changes nothing."""

import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from headway.base.errors import UsageError
from headway.decoding import (
    GenerationConfig,
    ModelDraft,
    PromptLookup,
    TextStreamer,
    generate,
    log_probabilities,
    stream,
)
from tests.fixtures.written_language import Bytes, gpt

TOKENIZER = Bytes()
PROMPTS = ["", "né", "The theatre", "a\n\nb"]
TEXT = st.text(st.sampled_from("ab\né😀 "), max_size=30)


def model(seed=0, **changes):
    return gpt(seed, TOKENIZER.size, sharp=3.0, **changes)


def settings(**changes):
    return GenerationConfig(**({"max_tokens": 12, "temperature": 1.0, "seed": 3} | changes))


def cut(text, stops):
    """Return the text before the first complete stop string, or the longest of several."""
    ends = [(text.find(s) + len(s), text.find(s)) for s in stops if s in text]
    return text[: min(ends)[1]] if ends else text


@given(TEXT, st.lists(TEXT.filter(bool), max_size=3), st.randoms())
def test_streamed_parts_join_to_the_text_before_the_first_stop_string(text, stops, random):
    """This holds for any division of the bytes into tokens."""
    raw, tokens = text.encode(), []
    while raw:
        size = random.randint(1, 3)
        tokens.append(raw[:size])
        raw = raw[size:]
    tokenizer = Bytes(joined=list(dict.fromkeys(tokens)))
    writer, parts = TextStreamer(tokenizer, stop=stops), []
    for token in tokens:
        parts.append(writer.feed(tokenizer.ids[token]))
        assert "\ufffd" not in parts[-1]
    parts.append(writer.finish())
    assert "".join(parts) == cut(text, stops)
    assert writer.stopped == any(stop in text for stop in stops)


@examples(max_examples=50)
@given(st.lists(st.integers(0, TOKENIZER.size - 1), max_size=90))
def test_invalid_bytes_are_streamed_as_decoded_all_at_once(tokens):
    writer = TextStreamer(TOKENIZER)
    parts = [*(writer.feed(token) for token in tokens), writer.finish()]
    assert "".join(parts) == TOKENIZER.decode(tokens)


def test_a_long_output_is_decoded_in_short_windows():
    sizes, tokenizer = [], Bytes()
    decode = tokenizer.decode
    tokenizer.decode = lambda ids: (sizes.append(len(ids)), decode(ids))[1]
    writer = TextStreamer(tokenizer)
    for token in [2 + 0x80] * 500 + tokenizer.encode("é" * 200):
        writer.feed(token)
    assert max(sizes) <= 26


@pytest.mark.turns(3)
@pytest.mark.parametrize("draft", [None, PromptLookup(2, 4), ModelDraft(model(1), 3)])
@pytest.mark.parametrize("changes", [{}, {"temperature": 0.0}, {"stop": ("a", "\x10", "e")}])
def test_outputs_are_equal_streamed_or_whole_and_alone_or_in_a_batch(changes, draft):
    config = settings(**changes)
    outputs = generate(model(), TOKENIZER, PROMPTS, config, draft)
    for prompt, (best,) in zip(PROMPTS, outputs, strict=True):
        ((alone,),) = generate(model(), TOKENIZER, [prompt], config, draft)
        assert (alone.text, alone.tokens, alone.reason) == (best.text, best.tokens, best.reason)
        assert "".join(stream(model(), TOKENIZER, prompt, config, draft)) == best.text
        assert len(best.tokens) == len(best.log_probabilities)
        assert not any(stop in best.text for stop in config.stop)


def test_each_sample_is_reproduced_from_its_seed():
    (outputs,) = generate(model(), TOKENIZER, ["ab"], settings(samples=3, alternatives=2))
    assert len({c.tokens for c in outputs}) == 3
    for sample in outputs:
        repeated = generate(model(), TOKENIZER, ["ab"], settings(seed=sample.seed))[0][0]
        assert repeated.text == sample.text
        assert all(len(best) == 2 for best in sample.alternatives)


@pytest.mark.parametrize("groups", [1, 2])
def test_log_probabilities_of_beams_are_those_of_their_tokens(groups):
    config = settings(beam=4, beam_groups=groups, samples=2, stop=("e",))
    for prompt, best in zip(PROMPTS, generate(model(), TOKENIZER, PROMPTS, config), strict=True):
        assert len({c.tokens for c in best}) == len(best) == 2
        for c in best:
            expected = log_probabilities(model(), TOKENIZER.begin(prompt), c.tokens)
            assert list(c.log_probabilities) == pytest.approx(expected, abs=1e-5)
            assert "e" not in c.text


def test_forced_text_is_first_and_forbidden_text_does_not_occur():
    greedy = generate(model(), TOKENIZER, ["ab"], settings(temperature=0.0))[0][0]
    letter = next(p for t in greedy.tokens if (p := TOKENIZER.decode([t])).isalpha())
    config = settings(temperature=0.0, force="né ", forbid=(letter,))
    outputs = generate(model(), TOKENIZER, ["ab", ""], config)
    assert all(c.text.startswith("né ") and letter not in c.text[3:] for (c,) in outputs)
    biased = settings(bias=("Q=90",))
    assert generate(model(), TOKENIZER, ["ab"], biased)[0][0].text == "Q" * 12


@pytest.mark.turns(3)
@pytest.mark.parametrize("changes", [{}, {"dola": "low"}, {"length_penalty": 0.0}])
@pytest.mark.parametrize("stop", [(), ("a",)])
def test_the_output_of_a_beam_is_streamed_as_it_becomes_certain(changes, stop):
    writer = model(num_layers=2)
    for prompt in ("ab", "ca b", ""):
        chosen = settings(beam=4, stop=stop, **changes)
        ((whole,),) = generate(writer, TOKENIZER, [prompt], chosen)
        assert "".join(stream(writer, TOKENIZER, prompt, chosen)) == whole.text


def test_empty_input_full_contexts_and_invalid_settings():
    small = model(max_length=8)
    assert generate(small, TOKENIZER, [], settings()) == []
    with pytest.raises(UsageError, match="12 tokens, but the model's context is 8"):
        generate(small, TOKENIZER, ["b", "b" * 11], settings())
    (full,) = generate(small, TOKENIZER, ["b" * 5], settings(min_tokens=12))[0]
    assert (len(full.tokens), full.reason) == (3, "context")
    with pytest.raises(UsageError, match="draft"):
        generate(small, TOKENIZER, ["b"], settings(beam=2), PromptLookup())
    with pytest.raises(UsageError, match="shows one output"):
        next(stream(small, TOKENIZER, "b", settings(samples=2)))
    for invalid in ({"stop": ("",)}, {"beam": 3, "beam_groups": 2}, {"min_tokens": 13}):
        with pytest.raises(ValueError):
            settings(**invalid)


def test_beams_fill_the_context_as_a_model_with_more_of_it_would_go_on():
    wide, small = (model(positions="learned", max_length=length) for length in (20, 8))
    weights = dict(wide.state_dict())
    name = next(n for n in weights if "positions" in n)
    small.load_state_dict({**weights, name: weights[name][:8]})
    prompts = ["", "b" * 5, "né"]  # 1, 6 and 3 tokens
    outputs = generate(small, TOKENIZER, prompts, settings(beam=3, min_tokens=12, samples=3))
    for prompt, room, best in zip(prompts, (8, 3, 6), outputs, strict=True):
        assert {(len(c.tokens), c.reason) for c in best} == {(room, "context")}
        config = settings(beam=3, min_tokens=room, max_tokens=room, samples=3)
        (expected,) = generate(wide, TOKENIZER, [prompt], config)
        assert [c.tokens for c in best] == [c.tokens for c in expected]
        parts = stream(small, TOKENIZER, prompt, settings(beam=3, min_tokens=12))
        assert "".join(parts) == best[0].text


@pytest.mark.parametrize("changes", [{}, {"temperature": 0.0}, {"beam": 3}, {"lookup": 2}])
def test_padding_of_a_vocabulary_is_never_generated(changes):
    """The vocabulary of a model may be larger than that of its tokenizer, to a round number."""
    padded = gpt(1, TOKENIZER.size + 40, sharp=0.2)
    outputs = generate(padded, TOKENIZER, PROMPTS, settings(max_tokens=30, **changes))
    assert all(token < TOKENIZER.size for (output,) in outputs for token in output.tokens)
