"""/v1/completions over HTTP, beside the Python API."""

from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from headway.serving.engine import EngineSettings
from tests.fixtures.model_server import language_model, running

BUNDLE = language_model()
PROMPT = "the fox eats"


@pytest.fixture(scope="module")
def client():
    with running({"gpt": BUNDLE}, EngineSettings(slots=8)) as client:
        yield client


def expected(prompts, **settings):
    """The texts of the Python API, prompt by prompt."""
    outputs = BUNDLE.generate(prompts, **settings)
    return [output.text for of_prompt in outputs for output in of_prompt]


def texts(reply):
    choices = sorted(reply["choices"], key=lambda choice: choice["index"])
    assert [choice["index"] for choice in choices] == list(range(len(choices)))
    return [choice["text"] for choice in choices]


@pytest.mark.parametrize(
    "request_fields, settings",
    [
        ({"temperature": 0}, {"temperature": 0.0}),
        ({"seed": 4, "n": 3}, {"seed": 4, "samples": 3, "temperature": 1.0}),
        (
            {"seed": 1, "top_p": 0.7, "top_k": 9},
            {"seed": 1, "top_p": 0.7, "top_k": 9, "temperature": 1.0},
        ),
        (
            {"temperature": 0.5, "seed": 2, "presence_penalty": 1, "frequency_penalty": 0.5},
            {"temperature": 0.5, "seed": 2, "presence_penalty": 1.0, "frequency_penalty": 0.5},
        ),
        (
            {"temperature": 0, "repetition_penalty": 1.4, "min_tokens": 5},
            {"temperature": 0.0, "repetition_penalty": 1.4, "min_tokens": 5},
        ),
        (
            {"seed": 9, "stop": [" the", "e"]},
            {"seed": 9, "stop": (" the", "e"), "temperature": 1.0},
        ),
        (
            {"use_beam_search": True, "best_of": 4, "n": 2, "length_penalty": 0.5},
            {"beam": 4, "samples": 2, "length_penalty": 0.5},
        ),
    ],
)
def test_texts_are_those_of_the_python_api(client, request_fields, settings):
    prompts = [PROMPT, "dog"]
    reply = client.complete(prompt=prompts, max_tokens=14, **request_fields)
    assert texts(reply) == expected(prompts, max_tokens=14, **settings)
    of_prompts = BUNDLE.generate(prompts, max_tokens=14, **settings)
    outputs = [output for of_prompt in of_prompts for output in of_prompt]
    length = sum(len(BUNDLE.tokenizer.begin(prompt)) for prompt in prompts)
    generated = sum(len(output.tokens) for output in outputs)
    assert reply["usage"]["prompt_tokens"] == length
    assert reply["usage"]["completion_tokens"] == generated
    reasons = {"end": "stop", "stop": "stop", "length": "length"}
    assert [c["finish_reason"] for c in reply["choices"]] == [reasons[o.reason] for o in outputs]


@pytest.mark.parametrize("form", ["text", "texts", "tokens", "lists of tokens"])
def test_a_prompt_has_four_forms(client, form):
    tokens = BUNDLE.tokenizer.begin(PROMPT)
    forms = {"text": PROMPT, "texts": [PROMPT], "tokens": tokens, "lists of tokens": [tokens]}
    reply = client.complete(prompt=forms[form], max_tokens=9, temperature=0)
    assert texts(reply) == expected([PROMPT], max_tokens=9, temperature=0.0)


@pytest.mark.parametrize("stop", [None, ["x", "ea"]])
def test_the_events_of_a_stream_joined_are_the_plain_answer(client, stop):
    fields = {"prompt": [PROMPT, "the dog"], "max_tokens": 20, "seed": 3, "n": 2, "logprobs": 1}
    fields |= {} if stop is None else {"stop": stop}
    plain = client.complete(**fields)
    streamed = {"stream": True, "stream_options": {"include_usage": True}}
    events = client.post("/v1/completions", {**fields, **streamed}).events
    assert events[-1]["choices"] == [] and events[-1]["usage"] == plain["usage"]
    for choice in plain["choices"]:
        own = [e["choices"][0] for e in events[:-1] if e["choices"][0]["index"] == choice["index"]]
        assert "".join(part["text"] for part in own) == choice["text"]
        assert [part["finish_reason"] for part in own[:-1]] == [None] * (len(own) - 1)
        assert own[-1]["finish_reason"] == choice["finish_reason"]
        for name in ("tokens", "token_logprobs", "top_logprobs", "text_offset"):
            joined, whole = (
                [x for part in parts for x in part["logprobs"][name]] for parts in (own, [choice])
            )
            if name == "top_logprobs":
                assert [one.keys() for one in joined] == [one.keys() for one in whole]
                joined, whole = ([v for one in of for v in one.values()] for of in (joined, whole))
            # a prompt may be read beside others or alone, which rounds otherwise
            assert joined == pytest.approx(whole, abs=1e-5) if "probs" in name else joined == whole


def test_logprobs_of_an_echoed_prompt_are_those_of_the_model(client):
    tokens = BUNDLE.tokenizer.begin(PROMPT)
    (choice,) = client.complete(prompt=tokens, max_tokens=1, temperature=0, logprobs=2, echo=True)[
        "choices"
    ]
    lists = choice["logprobs"]
    with torch.inference_mode():
        log_p = BUNDLE.model(torch.tensor([tokens]))[0].log_softmax(-1)
    assert lists["token_logprobs"][0] is None and lists["top_logprobs"][0] is None
    for position, token in enumerate(tokens[1:]):
        value = lists["token_logprobs"][position + 1]
        assert value == pytest.approx(log_p[position, token].item(), abs=1e-4)
        top = lists["top_logprobs"][position + 1]
        assert top[lists["tokens"][position + 1]] == value and len(top) in (2, 3)
        assert max(top.values()) == pytest.approx(log_p[position].max().item(), abs=1e-4)
    whole = choice["text"]
    for token, offset in zip(lists["tokens"], lists["text_offset"], strict=True):
        assert token.startswith("token_id:") or whole[offset : offset + len(token)] == token
    assert len(lists["tokens"]) == len(tokens) + 1


def test_max_tokens_of_0_with_echo_returns_the_prompt_alone(client):
    reply = client.complete(prompt=PROMPT, max_tokens=0, echo=True, logprobs=0)
    (choice,) = reply["choices"]
    assert choice["text"] == PROMPT and reply["usage"]["completion_tokens"] == 0
    assert len(choice["logprobs"]["tokens"]) == len(BUNDLE.tokenizer.begin(PROMPT))


def test_a_bias_forbids_a_token(client):
    first = client.complete(prompt=PROMPT, max_tokens=1, temperature=0, logprobs=1)
    ((token,),) = [BUNDLE.generate([PROMPT], max_tokens=1, temperature=0.0)[0][0].tokens]
    bias = {str(token): -100}
    reply = client.complete(prompt=PROMPT, max_tokens=1, temperature=0, logit_bias=bias)
    assert texts(reply) != texts(first)


def test_a_prompt_in_the_prefix_cache_gives_the_same_text(client):
    prompt = (PROMPT + " the lemon and ") * 30
    runs = [client.complete(prompt=prompt, max_tokens=8, temperature=0) for _ in range(2)]
    without = client.complete(prompt=prompt, max_tokens=8, temperature=0, cache_prompt=False)
    salted = client.complete(prompt=prompt, max_tokens=8, temperature=0, cache_salt="mine")
    assert texts(runs[0]) == texts(runs[1]) == texts(without) == texts(salted)
    assert texts(without) == expected([prompt], max_tokens=8, temperature=0.0)
    usages = [reply["usage"] for reply in (*runs, without, salted)]
    cached = [usage["prompt_tokens_details"]["cached_tokens"] for usage in usages]
    length = len(BUNDLE.tokenizer.begin(prompt))
    assert cached == [0, (length - 1) // 64 * 64, 0, 0] and cached[1] > 0


@pytest.mark.parametrize(
    "fields, param",
    [
        ({"prompt": PROMPT, "suffix": "."}, "suffix"),
        ({"prompt": PROMPT, "best_of": 3}, "best_of"),
        ({"prompt": PROMPT, "best_of": 3, "use_beam_search": True, "stream": True}, "stream"),
        ({"prompt": PROMPT, "max_tokens": 0}, "max_tokens"),
        ({"prompt": PROMPT, "temperature": -1}, "temperature"),
        ({"prompt": PROMPT, "temperature": "hot"}, "temperature"),
        ({"prompt": PROMPT, "n": 9}, "n"),
        ({"prompt": PROMPT, "n": True}, "n"),
        ({"prompt": PROMPT, "logit_bias": {"x": 1}}, "logit_bias"),
        ({"prompt": PROMPT, "logit_bias": {"99999": 1}}, "logit_bias"),
        ({"prompt": PROMPT, "stop": [""]}, "stop"),
        ({"prompt": PROMPT, "max_tokens": 4, "min_tokens": 5}, "min_tokens"),
        ({"prompt": []}, "prompt"),
        ({"prompt": [[]]}, "prompt"),
        ({"prompt": [1, "x"]}, "prompt"),
        ({"prompt": [100_000]}, "prompt"),
        ({"prompt": [-1]}, "prompt"),
        ({"prompt": "fox " * 2000}, "prompt"),
        ({"prompt": PROMPT, "model": "other"}, "model"),
    ],
)
def test_an_invalid_field_is_named(client, fields, param):
    reply = client.post("/v1/completions", fields)
    assert reply.status == (404 if param == "model" else 400), reply.body
    assert reply.json["error"]["param"] == param and reply.json["error"]["message"]


def test_unknown_fields_are_ignored_and_what_is_no_json_is_refused(client):
    client.complete(prompt=PROMPT, max_tokens=1, other=["x"], user="me")
    for body in (b"", b"{", b"[]", b'{"prompt": NaN}', b"\xff", b"[" * 100_000):
        reply = client.post("/v1/completions", body, content_type="application/json")
        assert reply.status == 400 and reply.json["error"]["message"], body[:20]
    reply = client.post("/v1/completions", b"{}", content_type="text/plain")
    assert reply.status == 415


def test_tokens_of_a_text_and_back(client):
    asked = {"prompt": PROMPT, "add_special_tokens": False}
    tokens = client.post("/tokenize", asked).json["tokens"]
    assert tokens == BUNDLE.tokenizer.encode(PROMPT)
    assert client.post("/detokenize", {"tokens": tokens}).json == {"prompt": PROMPT}
    info = client.get("/tokenizer_info").json
    assert info["eos_token"] == BUNDLE.tokenizer.token_strings([BUNDLE.tokenizer.eos])[0]


def test_an_error_names_the_fields_of_the_request():
    with running({"gpt": language_model()}) as client:
        reply = client.post("/v1/completions", {"prompt": "a", "min_tokens": 10, "max_tokens": 5})
        assert "min_tokens=10 is more than max_tokens=5" in reply.json["error"]["message"]


def test_a_top_p_of_0_is_greedy(client):
    greedy = texts(client.complete(prompt=PROMPT, max_tokens=12, temperature=0))
    for seed in range(4):
        fields = {"temperature": 1, "top_p": 0, "seed": seed}
        assert texts(client.complete(prompt=PROMPT, max_tokens=12, **fields)) == greedy


def test_a_best_of_1_is_one_output_without_n(client):
    one = texts(client.complete(prompt=PROMPT, max_tokens=5, temperature=0))
    assert texts(client.complete(prompt=PROMPT, max_tokens=5, temperature=0, best_of=1)) == one


def test_max_tokens_of_minus_1_fills_the_context(client):
    prompt = list(BUNDLE.tokenizer.begin(PROMPT)) * 100
    fields = {"temperature": 0, "ignore_eos": True}
    prompts = [prompt[:390], prompt[:380]]
    reply = client.complete(prompt=prompts, max_tokens=-1, **fields)
    generated = reply["usage"]["completion_tokens"]
    assert generated == 11 + 20 and {c["finish_reason"] for c in reply["choices"]} == {"length"}


def test_max_tokens_of_minus_1_ends_at_the_length_that_the_list_of_models_shows():
    """Rotary positions alone would never end an output; a longer prompt is still continued."""
    fields = {"temperature": 0, "ignore_eos": True, "max_tokens": -1}
    with running({"gpt": language_model(positions="rotary", max_length=24)}) as client:
        (model,) = client.get("/v1/models").json["data"]
        for length in (3, 23):
            usage = client.complete(prompt=[9] * length, **fields)["usage"]
            assert usage["total_tokens"] == model["max_model_len"] == 24
        assert client.complete(prompt=[9] * 30, temperature=0, max_tokens=1)["usage"]


def generated(client, **fields):
    """The tokens of an output, and why it ended."""
    fields = {"prompt": PROMPT, "temperature": 0, "max_tokens": 20, "logprobs": 0, **fields}
    reply = client.complete(**fields)
    (choice,) = reply["choices"]
    assert reply["usage"]["completion_tokens"] == len(choice["logprobs"]["tokens"])
    return choice["text"], len(choice["logprobs"]["tokens"]), choice["finish_reason"]


def test_a_stop_token_ends_an_output_and_its_text_is_left_out(client):
    (output,) = BUNDLE.generate([PROMPT], max_tokens=20, temperature=0.0)[0]
    token = output.tokens[6]
    first = output.tokens.index(token)
    decode = BUNDLE.tokenizer.decode
    start = list(BUNDLE.tokenizer.begin(PROMPT))
    before = decode([*start, *output.tokens[:first]])[len(decode(start)) :]
    behind = decode([*start, *output.tokens[: first + 1]])[len(decode(start)) :]
    stopped = generated(client, stop_token_ids=[token])
    assert stopped == (before, first + 1, "stop")
    kept = generated(client, stop_token_ids=[token], include_stop_str_in_output=True)
    assert kept == (behind, first + 1, "stop")
    streamed = {"prompt": PROMPT, "temperature": 0, "max_tokens": 20, "stream": True}
    events = client.post("/v1/completions", {**streamed, "stop_token_ids": [token]}).events
    assert "".join(event["choices"][0]["text"] for event in events) == before
    text, length, _ = generated(client, stop_token_ids=[token], min_tokens=first + 3)
    assert length > first + 2 and text != before


def test_an_output_ends_with_its_stop_string_if_a_request_wants_it(client):
    text, _, _ = generated(client)
    stop = text[4:7]
    end = text.index(stop)
    assert generated(client, stop=[stop])[0] == text[:end]
    kept = generated(client, stop=[stop], include_stop_str_in_output=True)
    assert kept[0] == text[: end + len(stop)] and kept[2] == "stop"


def test_the_end_token_ends_no_output_that_ignores_it(client):
    always = {str(BUNDLE.tokenizer.eos): 100}
    assert generated(client, logit_bias=always)[1:] == (0, "stop")
    assert generated(client, logit_bias=always, ignore_eos=True)[1:] == (20, "length")


def test_outputs_that_ignore_the_end_token_do_not_change_others_beside_them(client):
    always = {str(BUNDLE.tokenizer.eos): 100}
    with ThreadPoolExecutor(8) as pool:
        asked = [
            {"logit_bias": always, "ignore_eos": n % 2 == 0, "max_tokens": 40} for n in range(8)
        ]
        lengths = [item[1] for item in pool.map(lambda f: generated(client, **f), asked)]
    assert lengths == [40, 0] * 4


def test_only_allowed_tokens_are_generated_and_no_bad_words(client):
    tokenizer = BUNDLE.tokenizer
    allowed = sorted({*tokenizer.encode("the fox"), *tokenizer.encode(" bread")})
    fields = {"prompt": PROMPT, "max_tokens": 12, "seed": 1, "allowed_token_ids": allowed}
    reply = client.complete(**fields, logprobs=0)
    names = {tokenizer.decode([5, token])[len(tokenizer.decode([5])) :] for token in allowed}
    assert set(reply["choices"][0]["logprobs"]["tokens"]) <= names


def test_a_bad_word_is_not_generated(client):
    (token,) = BUNDLE.tokenizer.encode("a")
    wanted = {"logit_bias": {str(token): 100}, "max_tokens": 5}
    assert generated(client, **wanted)[0] == "aaaaa"
    assert "a" not in generated(client, **wanted, bad_words=["a"])[0]


def test_a_prompt_is_cut_to_its_last_tokens(client):
    tokens = list(BUNDLE.tokenizer.begin(PROMPT + " the lemon and the bread"))
    cut = client.complete(prompt=tokens, truncate_prompt_tokens=4, max_tokens=6, temperature=0)
    last = client.complete(prompt=tokens[-4:], max_tokens=6, temperature=0)
    assert texts(cut) == texts(last) and cut["usage"] == last["usage"]
    long = client.complete(prompt=tokens * 50, truncate_prompt_tokens=-1, max_tokens=1)
    assert long["usage"]["prompt_tokens"] == 400
    plain = client.complete(prompt=PROMPT, add_special_tokens=False, max_tokens=1)
    assert plain["usage"]["prompt_tokens"] == len(BUNDLE.tokenizer.encode(PROMPT))


def test_typical_sampling_is_that_of_the_python_api(client):
    reply = client.complete(prompt=PROMPT, max_tokens=12, seed=3, typical_p=0.5)
    assert texts(reply) == expected([PROMPT], max_tokens=12, seed=3, typical=0.5, temperature=1.0)


@pytest.mark.parametrize(
    "fields, param",
    [
        ({"length_penalty": 0.5}, "length_penalty"),
        ({"early_stopping": True}, "early_stopping"),
        ({"use_beam_search": True, "top_p": 0.5}, "top_p"),
        ({"use_beam_search": True, "temperature": 0.5}, "temperature"),
        ({"use_beam_search": True, "stop_token_ids": [3]}, "stop_token_ids"),
        ({"use_beam_search": True, "guided_regex": "a"}, "use_beam_search"),
        ({"guided_regex": "a", "ignore_eos": True}, "ignore_eos"),
        ({"guided_regex": "(?=a)b"}, "guided_regex"),
        ({"guided_regex": "["}, "guided_regex"),
        ({"guided_json": "no json"}, "guided_json"),
        ({"guided_choice": []}, "guided_choice"),
        ({"guided_choice": ["a"], "guided_regex": "a"}, "guided_choice"),
        ({"stop_token_ids": [99999]}, "stop_token_ids"),
        ({"allowed_token_ids": [-1]}, "allowed_token_ids"),
        ({"bad_words": [" "]}, "bad_words"),
        ({"truncate_prompt_tokens": 0}, "truncate_prompt_tokens"),
        ({"max_tokens": -2}, "max_tokens"),
        ({"typical_p": 0}, "typical_p"),
    ],
)
def test_fields_that_cannot_be_honoured_together_are_named(client, fields, param):
    reply = client.post("/v1/completions", {"prompt": PROMPT, "max_tokens": 3, **fields})
    assert reply.status == 400 and reply.json["error"]["param"] == param, reply.body
