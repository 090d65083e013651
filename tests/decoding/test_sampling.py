"""Sampling compared with exact probabilities, and each row compared with itself alone."""

import math
from collections import Counter

import pytest
import torch

from headway.base.errors import UsageError
from headway.decoding import (
    Bias,
    Forbidden,
    FrequencyPenalty,
    Limits,
    MinLength,
    MinP,
    MostProbable,
    NoRepeat,
    Prefix,
    PresencePenalty,
    RepetitionPenalty,
    Sampling,
    Temperature,
    TopK,
    TopP,
    Typical,
    open_rows,
    run,
    sample,
    sample_search,
)
from tests.fixtures.searches import greedy_search
from tests.fixtures.written_language import (
    EOS,
    apply_rules,
    chi_square_deviation,
    gpt,
    output_probabilities,
    some_prompts,
)

RULES = {
    "none": [],
    "greedy": [MostProbable()],
    "temperature": [Temperature(0.7)],
    "cutting": [TopK(6), TopP(0.9), MinP(0.02), Typical(0.95)],
    "penalties": [RepetitionPenalty(1.3), FrequencyPenalty(0.2), PresencePenalty(0.3)],
    "no repeat": [NoRepeat(2), Forbidden([[4], [5, 6]]), MinLength(4, EOS)],
    "forced": [Bias({3: 2.0}), Prefix([[5, 3], [6], [7, 7, 7], [], [4]])],
}
MODELS = {
    "learned": {},
    "modern": {
        "num_kv_heads": 2,
        "norm_kind": "rms",
        "qk_norm": True,
        "activation": "swiglu",
        "positions": "rotary",
    },
}


def sampling(rules=(), **changes):
    return Sampling(**({"eos": EOS, "max_tokens": 9, "rules": rules} | changes))


def outcome(row):
    return tuple(row.tokens), row.reason, row.seed


@pytest.mark.turns(3)
@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("name", RULES)
def test_the_output_of_a_row_does_not_depend_on_the_batch(name, kind):
    model, prompts, rules = gpt(1, **MODELS[kind]), some_prompts(5), RULES[name]
    seeds = [[7, 8], [7], [1, 2, 3], [9], [4]]
    samples = sample(model, prompts, sampling(rules), seeds)
    assert [len(rows) for rows in samples] == [2, 1, 3, 1, 1]
    for item, (prompt, rows) in enumerate(zip(prompts, samples, strict=True)):
        for row in rows:
            rules_alone = [Prefix([r.tokens[item]]) if isinstance(r, Prefix) else r for r in rules]
            alone = sample(model, [prompt], sampling(rules_alone), [[row.seed]])[0][0]
            assert outcome(alone) == outcome(row)
            assert alone.log_probabilities == pytest.approx(row.log_probabilities, abs=1e-5)


@torch.no_grad()
@pytest.mark.parametrize("name", RULES)
def test_samples_do_not_depend_on_the_cache(name):
    """Whole forward passes give the same samples and the same log-probabilities."""
    from headway.decoding.sampling import choose

    model, prompts, config = gpt(2), some_prompts(5, seed=3), sampling(RULES[name], alternatives=3)
    cached = sample(model, prompts, config, [[5]] * 5)
    plain = open_rows(model, prompts, [[5]] * 5, config)
    for row, (twin,) in zip(plain, cached, strict=True):
        for _ in range(config.max_tokens):
            logits = model(torch.tensor([row.seen]))[:, -1]
            chosen = choose(apply_rules(config.rules, logits, [row]), [row], config.rules)
            token = int(chosen)
            if token == EOS:
                break
            log_p = logits.log_softmax(-1)[0]
            position = len(row.tokens)
            assert twin.log_probabilities[position] == pytest.approx(float(log_p[token]), abs=1e-5)
            best = sorted(range(11), key=lambda v: -log_p[v])[:3]
            assert [v for v, _ in twin.alternatives[position]] == best
            for v, value in twin.alternatives[position]:
                assert value == pytest.approx(float(log_p[v]), abs=1e-5)
            row.tokens.append(token)
        assert row.tokens == twin.tokens
        assert len(twin.log_probabilities) == len(twin.tokens) == len(twin.alternatives)
        assert (twin.reason == "end") == (len(row.tokens) < config.max_tokens)


@pytest.mark.turns(3)
@pytest.mark.parametrize("rules", [[], [Temperature(0.6), TopK(3)], [NoRepeat(1)]])
def test_outputs_have_the_frequency_of_their_probability(rules):
    model, prompt = gpt(3, vocabulary=5), [3, 4, 0]
    exact = output_probabilities(model, prompt, 3, rules)
    assert sum(exact.values()) == pytest.approx(1)
    rows = sample(model, [prompt], sampling(rules, max_tokens=3), [list(range(12_000))])[0]
    counts = Counter((*row.tokens, *[EOS] * (row.reason == "end")) for row in rows)
    assert chi_square_deviation(counts, exact) < 4
    wrong = output_probabilities(model, prompt, 3, [*rules, Temperature(0.9)])
    assert rules == [NoRepeat(1)] or chi_square_deviation(counts, wrong) > 8, (
        "the test detects nothing"
    )


def test_the_most_probable_token_at_each_step_is_greedy_search():
    model, prompts = gpt(4), some_prompts(6)
    samples = sample(model, prompts, sampling([MostProbable()]), [[0]] * 6)
    for prompt, (row,) in zip(prompts, samples, strict=True):
        limits = Limits(prompt[-1], EOS, [9])
        best = greedy_search(model, (torch.tensor([prompt[:-1]], dtype=torch.long),), limits)[0]
        assert tuple(row.tokens) == best.tokens
        assert row.reason == ("end" if len(best.tokens) < 9 else "length")
        if row.reason == "end":
            assert row.log_probability == pytest.approx(best.log_probability, rel=1e-5)


def test_every_token_is_reported_and_the_caller_may_end_a_row():
    model, prompts, config = gpt(5), some_prompts(4), sampling([MinLength(9, EOS)])
    whole = sample(model, prompts, config, [[1]] * 4)
    rows = open_rows(model, prompts, [[1]] * 4, config)
    yielded = {row.item: [] for row in rows}

    def note(grown):
        for row in grown:
            yielded[row.item].append(row.tokens[-1])
            if row.item == 2 and len(row.tokens) == 4:
                row.end("stop")

    run(model, sample_search(model, rows, config, grown=note))
    assert [len(row.tokens) for row in rows] == [9, 9, 4, 9]
    assert [row.reason for row in rows] == ["length", "length", "stop", "length"]
    for row, (full,) in zip(rows, whole, strict=True):
        assert yielded[row.item] == row.tokens == full.tokens[: len(row.tokens)]


@pytest.mark.parametrize("rules", [[], [MostProbable()], [Temperature(0.7), TopK(4)]])
def test_steps_that_begin_before_tokens_are_read_sample_the_same(rules, monkeypatch):
    from headway.decoding import sampling as module

    model, prompts, config = gpt(5), some_prompts(4), sampling(rules, alternatives=2)
    begun_and_read = []
    read_later = module.read_later

    def noted(*tensors):
        begun_and_read.append("begun")
        values = read_later(*tensors)
        return lambda: (begun_and_read.append("read"), values())[1]

    def outcomes():
        rows = open_rows(model, prompts, [[1, 2]] * 4, config)

        def end_one(grown):
            for row in grown:
                if row.item == 2 and len(row.tokens) == 4:
                    row.end("stop")

        run(model, sample_search(model, rows, config, grown=end_one))
        return [(outcome(row), row.log_probabilities, row.alternatives) for row in rows]

    monkeypatch.setattr(module, "read_later", noted)
    expected = outcomes()
    assert begun_and_read[:4] == ["begun", "read", "begun", "read"]
    begun_and_read.clear()
    monkeypatch.setattr(module, "RUNS_AHEAD", ("cpu",))
    found = outcomes()
    assert begun_and_read[:5] == ["begun", "begun", "read", "begun", "read"]
    assert [row[0] for row in found] == [row[0] for row in expected]
    for (_, *numbers), (_, *others) in zip(found, expected, strict=True):
        assert numbers[0] == pytest.approx(others[0], abs=1e-5)
        assert [[v for v, _ in at] for at in numbers[1]] == [[v for v, _ in at] for at in others[1]]


def test_a_prompt_is_encoded_once_for_all_its_samples():
    model, read = gpt(6), []
    start = model.start
    model.start = lambda tokens, keys=None: (read.append(tokens.shape), start(tokens, keys))[1]
    samples = sample(model, [[3, 4, 5], [6, 7]], sampling(), [[1, 2, 3, 4], [5]])
    assert read == [(2, 2)]
    assert len({tuple(row.tokens) for row in samples[0]}) > 1


def test_a_text_ends_with_the_context():
    model, never = gpt(7, max_length=12), [MinLength(99, EOS)]
    prompts = [[3] * 12, [4] * 10, [5] * 3, [6] * 2]
    samples = [rows[0] for rows in sample(model, prompts, sampling(never), [[0]] * 4)]
    assert [len(row.tokens) for row in samples] == [1, 3, 9, 9]
    assert [row.reason for row in samples] == ["context", "context", "length", "length"]
    with pytest.raises(UsageError, match="13 tokens, but the model's context is 12"):
        sample(model, [[3], [4] * 13], sampling(), [[0]] * 2)


def test_no_prompts_no_samples_or_no_tokens_give_no_output():
    model = gpt()
    assert sample(model, [], sampling(), []) == []
    assert sample(model, [[3]], sampling(), [[]]) == [[]]
    (row,) = sample(model, [[3, 4]], sampling(max_tokens=0), [[1]])[0]
    assert (row.tokens, row.reason) == ([], "length")


def test_prompts_that_cannot_be_continued_are_refused():
    model = gpt()
    with pytest.raises(ValueError, match="prompt 2 is empty"):
        sample(model, [[3], []], sampling(), [[0]] * 2)
    with pytest.raises(ValueError, match="seeds for 1 prompts"):
        sample(model, [[3], [4]], sampling(), [[0]])
    with pytest.raises(UsageError, match="every token is forbidden"):
        sample(model, [[3]], sampling([Bias(dict.fromkeys(range(11), -math.inf))]), [[0]])
    with pytest.raises(ValueError, match="max_tokens=-1"):
        sampling(max_tokens=-1)
