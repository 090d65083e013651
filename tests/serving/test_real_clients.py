"""The field's own clients speak with the server: `pip install -e '.[clients]'`, `-m slow`."""

import base64
import json
import math
import re
import shutil
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from headway.interop import write_text_model
from tests.fixtures import bundles
from tests.fixtures.chat_model import BUNDLE, HELLO, TEMPLATE
from tests.fixtures.image_classifiers import classifier
from tests.fixtures.images import png
from tests.fixtures.model_server import language_model, running
from tests.fixtures.small_whisper import noise, transcriber, write_wav

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]

MODEL = language_model()
PROMPT, TEXT, TOKENS = "The old baker", bundles.SENTENCE, 12
PICTURE = png(np.random.default_rng(0).integers(0, 256, (24, 27, 3)).astype(np.uint8))
PLACE = {
    "type": "object",
    "properties": {"place": {"enum": ["Bonn", "Ulm"]}},
    "required": ["place"],
}
WITH_TOOLS = (
    "{{ style }}{% for tool in tools or [] %}{{ tool.function.name }}\n{% endfor %}"
    "{# <tool_call></tool_call> #}"
) + TEMPLATE.replace("m.content", "(m.content or m.tool_calls | tojson)")
TOOL_TURNS = [
    *HELLO,
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {"id": "a", "type": "function", "function": {"name": "weather", "arguments": "{}"}}
        ],
    },
    {"role": "tool", "tool_call_id": "a", "content": "rain"},
]
MODELS = {
    "gpt": MODEL,
    "chat": BUNDLE,
    "tools": BUNDLE,
    "translator": bundles.translator(),
    "classifier": bundles.bert_classifier(),
    "encoder": bundles.encoder(max_length=40),
    "tagger": bundles.tagger(),
    "answerer": bundles.answerer(),
    "images": classifier(),
    "captioner": bundles.captioner(),
    "whisper": transcriber(),
}


@pytest.fixture(scope="module")
def client():
    with running(MODELS, templates={"chat": TEMPLATE, "tools": WITH_TOOLS}) as client:
        yield client


@pytest.fixture
def url(client):
    return f"http://127.0.0.1:{client.port}/v1"


@pytest.fixture
def expected(client):
    """The server's own replies, which other tests compare with the Python API."""
    fields = {"temperature": 0, "max_tokens": TOKENS}
    chat = {"model": "chat", "messages": HELLO, **fields}
    turn = client.post("/v1/chat/completions", chat).json["choices"][0]["message"]["content"]
    completion = client.complete(model="gpt", prompt=PROMPT, **fields)["choices"][0]["text"]
    return SimpleNamespace(completion=completion, turn=turn)


def test_openai(url, expected):
    openai = pytest.importorskip("openai")
    client = openai.OpenAI(base_url=url, api_key="none")
    assert {model.id for model in client.models.list()} == set(MODELS)
    fields = {"model": "gpt", "prompt": PROMPT, "temperature": 0, "max_tokens": TOKENS}
    whole = client.completions.create(**fields, logprobs=2, n=1)
    (choice,) = whole.choices
    assert choice.text == expected.completion
    assert whole.usage.completion_tokens == len(choice.logprobs.token_logprobs) == TOKENS
    streamed = list(client.completions.create(**fields, stream=True))
    assert "".join(event.choices[0].text for event in streamed) == expected.completion
    two = client.completions.create(**{**fields, "temperature": 1, "n": 2, "seed": 4})
    assert len(two.choices) == 2 and two.choices[0].text != two.choices[1].text
    echoed = client.completions.create(
        model="gpt", prompt=PROMPT, max_tokens=0, echo=True, logprobs=1
    )
    scores = echoed.choices[0].logprobs.token_logprobs
    assert scores[0] is None and all(score < 0 for score in scores[1:])

    chat = {"model": "chat", "messages": HELLO, "temperature": 0, "max_tokens": TOKENS}
    turn = client.chat.completions.create(**chat)
    assert turn.choices[0].message.content == expected.turn
    parts = client.chat.completions.create(**chat, stream=True)
    text = "".join(part.choices[0].delta.content or "" for part in parts if part.choices)
    assert text == expected.turn

    question = {"model": "chat", "input": HELLO[0]["content"], "temperature": 0}
    response = client.responses.create(**question, max_output_tokens=TOKENS)
    assert response.output_text == expected.turn
    events = list(client.responses.create(**question, max_output_tokens=TOKENS, stream=True))
    assert [event.type for event in events][:2] == ["response.created", "response.in_progress"]
    deltas = [event.delta for event in events if event.type == "response.output_text.delta"]
    assert "".join(deltas) == events[-1].response.output_text == expected.turn
    tool = {"type": "function", "name": "weather", "parameters": PLACE}
    called = client.responses.create(
        model="tools", input="?", tools=[tool], tool_choice="required", max_output_tokens=150
    )
    (call,) = called.output
    assert call.type == "function_call" and json.loads(call.arguments)["place"] in ("Bonn", "Ulm")
    options = {"temperature": 1, "top_p": 0, "max_tokens": -1, "stream": True}
    usage = {"include_usage": True}
    parts = list(client.chat.completions.create(**{**chat, **options}, stream_options=usage))
    assert parts[-1].usage.completion_tokens > TOKENS and not parts[-1].choices
    asked = {**chat, "messages": TOOL_TURNS, "model": "tools"}
    forced = {"type": "function", "function": {"name": "weather"}}
    tools = [{"type": "function", "function": {"name": "weather", "parameters": PLACE}}]
    turn = client.chat.completions.create(
        **{**chat, "model": "tools", "max_tokens": 150}, tools=tools, tool_choice=forced
    )
    (call,) = turn.choices[0].message.tool_calls
    assert json.loads(call.function.arguments)["place"] in ("Bonn", "Ulm")
    variables = {"chat_template_kwargs": {"style": "short"}}
    short = client.chat.completions.create(**asked, extra_body=variables)
    plain = client.chat.completions.create(**asked)
    assert short.usage.prompt_tokens > plain.usage.prompt_tokens

    vectors = MODELS["encoder"].embed([TEXT]).numpy()[0]
    for form in ("float", "base64"):
        made = client.embeddings.create(model="encoder", input=TEXT, encoding_format=form)
        value = made.data[0].embedding
        if isinstance(value, str):
            value = np.frombuffer(base64.b64decode(value), "<f4")
        assert np.abs(np.array(value) - vectors).max() < 1e-6
    with pytest.raises(openai.BadRequestError, match="cannot"):
        client.completions.create(model="encoder", prompt="x")
    with pytest.raises(openai.BadRequestError, match="tools"):
        client.chat.completions.create(**chat, tools=[{"type": "function"}])


def test_openai_transcribes(url, tmp_path):
    openai = pytest.importorskip("openai")
    audio = openai.OpenAI(base_url=url, api_key="none").audio
    path = write_wav(tmp_path / "talk.wav", noise(2.5))
    (expected,) = MODELS["whisper"].transcribe([path], timestamps=True)
    fields = {"model": "whisper", "file": path}
    (plain,) = MODELS["whisper"].transcribe([path], language="de")
    assert audio.transcriptions.create(**fields, language="de").text == plain.text
    assert audio.transcriptions.create(**fields, language="de", response_format="text") == (
        f"{plain.text}\n"
    )
    timed = audio.transcriptions.create(
        **fields,
        response_format="verbose_json",
        timestamp_granularities=["segment"],
        temperature=0,
    )
    times = [(one.start, one.end, one.text) for one in timed.segments]
    assert times == [(one.start, one.end, one.text) for one in expected.segments]
    assert (timed.language, timed.duration) == (expected.language, 2.5)
    for form, arrow in (("srt", "00:00:00,520 --> "), ("vtt", "00:00:00.520 --> ")):
        assert arrow in audio.transcriptions.create(**fields, response_format=form)
    (english,) = MODELS["whisper"].transcribe([path], translate=True)
    assert audio.translations.create(**fields).text == english.text
    for wrong in ({"prompt": "Ada"}, {"stream": True}, {"timestamp_granularities": ["word"]}):
        with pytest.raises(openai.BadRequestError, match=next(iter(wrong))):
            audio.transcriptions.create(**fields, **wrong)


def test_langchain(url, expected):
    langchain = pytest.importorskip("langchain_openai")
    access = {"base_url": url, "api_key": "none"}
    fields = {"temperature": 0, "max_tokens": TOKENS}
    plain = langchain.OpenAI(model="gpt", **access, **fields)
    assert plain.invoke(PROMPT) == expected.completion
    assert "".join(plain.stream(PROMPT)) == expected.completion
    chat = langchain.ChatOpenAI(model="chat", **access, **fields)
    assert chat.invoke([("user", HELLO[0]["content"])]).content == expected.turn
    text = "".join(part.content for part in chat.stream([("user", HELLO[0]["content"])]))
    assert text == expected.turn
    embeddings = langchain.OpenAIEmbeddings(
        model="encoder", check_embedding_ctx_length=False, **access
    )
    difference = np.array(embeddings.embed_query(TEXT)) - MODELS["encoder"].embed([TEXT]).numpy()[0]
    assert np.abs(difference).max() < 1e-6


def test_llama_index(url, expected):
    module = pytest.importorskip("llama_index.llms.openai_like")
    access = {"api_base": url, "api_key": "none", "temperature": 0, "max_tokens": TOKENS}
    plain = module.OpenAILike(model="gpt", is_chat_model=False, **access)
    assert plain.complete(PROMPT).text == expected.completion
    assert "".join(part.delta for part in plain.stream_complete(PROMPT)) == expected.completion
    from llama_index.core.llms import ChatMessage

    chat = module.OpenAILike(model="chat", is_chat_model=True, **access)
    turn = chat.chat([ChatMessage(role="user", content=HELLO[0]["content"])])
    assert turn.message.content == expected.turn


def test_litellm(url, expected):
    litellm = pytest.importorskip("litellm")
    access = {"api_base": url, "api_key": "none", "temperature": 0, "max_tokens": TOKENS}
    plain = litellm.text_completion(model="text-completion-openai/gpt", prompt=PROMPT, **access)
    assert plain.choices[0].text == expected.completion
    turn = litellm.completion(model="openai/chat", messages=HELLO, **access)
    assert turn.choices[0].message.content == expected.turn
    parts = litellm.completion(model="openai/chat", messages=HELLO, stream=True, **access)
    assert "".join(p.choices[0].delta.content or "" for p in parts) == expected.turn
    made = litellm.embedding(model="openai/encoder", input=[TEXT], api_base=url, api_key="none")
    difference = np.array(made.data[0]["embedding"]) - MODELS["encoder"].embed([TEXT]).numpy()[0]
    assert np.abs(difference).max() < 1e-6


def test_the_inference_client(client):
    hub = pytest.importorskip("huggingface_hub")

    def of(verb, model=None):
        query = f"?model={model}" if model else ""
        return hub.InferenceClient(model=f"http://127.0.0.1:{client.port}/{verb}{query}")

    (best,) = MODELS["translator"].translate([TEXT])
    assert of("translate").translation(TEXT).translation_text == best
    (expected,) = MODELS["classifier"].classify([TEXT])
    assert of("classify", "classifier").text_classification(TEXT)[0].label == expected.label
    filled = of("fill").fill_mask("The old [MASK] waves.")
    assert filled[0].sequence.startswith("The old") and 0 < filled[0].score <= 1
    assert isinstance(of("tag").token_classification(TEXT), list)
    answer = of("answer").question_answering(question="Who waves?", context=TEXT)
    assert answer.answer == TEXT[answer.start : answer.end]
    vectors = MODELS["encoder"].embed([TEXT, "A fox looks on."]).numpy()
    similar = of("embed").sentence_similarity(TEXT, [TEXT, "A fox looks on."])
    assert similar == pytest.approx([1.0, float(vectors[0] @ vectors[1])], abs=1e-5)
    embedded = np.array(of("embed").feature_extraction(TEXT)).reshape(-1)
    assert np.abs(embedded - vectors[0]).max() < 1e-6
    classes = of("classify", "images").image_classification(PICTURE)
    assert sum(one.score for one in classes) == pytest.approx(1, abs=1e-3)
    assert isinstance(of("caption").image_to_text(PICTURE).generated_text, str)


def test_libretranslate(client):
    module = pytest.importorskip("libretranslatepy")
    service = module.LibreTranslateAPI(f"http://127.0.0.1:{client.port}/")
    assert [service.translate(TEXT, "en", "de")] == MODELS["translator"].translate([TEXT])


def test_curl(client, expected):
    if shutil.which("curl") is None:
        pytest.skip("curl is not installed")
    fields = {"model": "gpt", "prompt": PROMPT, "temperature": 0, "max_tokens": TOKENS}
    command = ["curl", "-sSN", "--fail", "-H", "content-type: application/json"]
    url = f"http://127.0.0.1:{client.port}/v1/completions"

    def sent(**changes):
        body = ["-d", json.dumps({**fields, **changes}), url]
        return subprocess.run([*command, *body], check=True, capture_output=True).stdout.decode()

    assert json.loads(sent())["choices"][0]["text"] == expected.completion
    events = sent(stream=True).split("\n\n")
    assert events[-2:] == ["data: [DONE]", ""]
    texts = [json.loads(part[6:])["choices"][0]["text"] for part in events[:-2]]
    assert "".join(texts) == expected.completion


def test_lm_eval_over_http_scores_as_on_the_exported_folder(tmp_path):
    pytest.importorskip("lm_eval")
    from lm_eval.api.instance import Instance
    from lm_eval.models.huggingface import HFLM
    from lm_eval.models.openai_completions import LocalCompletionsAPI

    rng = np.random.default_rng(2)
    words = TEXT.split()
    pairs = [
        (" ".join(rng.choice(words, 6)), " " + " ".join(rng.choice(words, 3))) for _ in range(40)
    ]
    folder = tmp_path / "hf"
    write_text_model(MODEL.model, MODEL.tokenizer, folder)
    with running({"gpt": MODEL}) as client:
        requests = [
            Instance(request_type="loglikelihood", doc={}, arguments=pair, idx=number)
            for number, pair in enumerate(pairs)
        ]
        offline = HFLM(pretrained=str(folder), device="cpu", batch_size=4)
        server = LocalCompletionsAPI(
            model="gpt",
            base_url=f"http://127.0.0.1:{client.port}/v1/completions",
            tokenizer=str(folder),
            tokenizer_backend="huggingface",
            add_bos_token=True,  # as the tokenizer of the folder does
            num_concurrent=2,
            batch_size=4,
        )
        theirs, ours = offline.loglikelihood(requests), server.loglikelihood(requests)
    assert math.fsum(abs(a - b) for (a, _), (b, _) in zip(theirs, ours, strict=True)) <= 1e-3
    assert [greedy for _, greedy in theirs] == [greedy for _, greedy in ours]


def test_schemathesis_finds_no_reply_outside_of_the_description(client, tmp_path):
    """At least 10,000 cases, valid ones and invalid ones, with NUL: no 5xx, no status or body that
    openapi.json does not have."""
    pytest.importorskip("schemathesis")
    url = f"http://127.0.0.1:{client.port}/openapi.json"
    done = subprocess.run(
        [
            *(sys.executable, "-m", "schemathesis.cli", "run", url),
            *("--phases", "coverage,fuzzing", "-n", "700", "--mode", "all"),
            *("--generation-allow-x00", "true", "--seed", "1", "--no-color"),
            # rules that JSON Schema cannot state, such as which model has which route
            *("--exclude-checks", "positive_data_acceptance"),
            *("--request-timeout", "30"),
        ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    generated, passed = map(int, re.findall(r"(\d+) (?:generated|passed)", done.stdout)[-2:])
    assert generated == passed >= 10_000, done.stdout[-3000:]
