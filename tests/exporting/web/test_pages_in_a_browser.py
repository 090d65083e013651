"""Exported pages in Chromium, opened from a file without a network, on a screen of 390 pixels."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest
import torch
from playwright.sync_api import sync_playwright

from headway.exporting.target import export
from headway.exporting.web.export import web_page
from tests.fixtures.accessibility import findings
from tests.fixtures.bundles import BUNDLES
from tests.fixtures.captioners import PIXELS
from tests.fixtures.web_pages import installed_packages, transformers_js

pytest.importorskip("onnxruntime")
pytest.importorskip("onnxscript")

CHROMIUM = shutil.which("chromium") or "/usr/bin/chromium"
SECONDS = 60_000  # of a test machine under load, in milliseconds
TEXTS = {
    "gpt": "the fox eats",
    "translator writes": "the fox eats the lemon",
    "encoder": "The old [MASK] waves.",
    "classifier": "The old baker waves.",
}
IMAGES = ("image classifier", "captioner writes")


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """exported(name) -> the folder of a tiny model, made once."""
    installed_packages()
    folders: dict[str, Path] = {}

    def make(name):
        if name not in folders:
            torch.manual_seed(0)
            folder = tmp_path_factory.mktemp("web") / "out"
            examples = (TEXTS[name],) if name in TEXTS else ()
            export(BUNDLES[name][0](), folder, web_page(examples=examples))
            folders[name] = folder
        return folders[name]

    return make


@pytest.fixture(scope="module")
def context():
    if not Path(CHROMIUM).exists():
        pytest.skip("no chromium is installed")
    with sync_playwright() as playwright:
        arguments = ["--no-sandbox", "--disable-gpu"]
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=arguments)
        context = browser.new_context(viewport={"width": 390, "height": 844})
        context.set_offline(True)
        yield context
        browser.close()


@pytest.fixture
def opened(context, exported):
    """opened(name, scheme) -> the page; a request or an error in it fails the test."""
    problems: list[str] = []

    def open_page(name, scheme="light"):
        page = context.new_page()
        page.emulate_media(color_scheme=scheme)
        page.on("request", lambda one: problems.append(one.url) if "://" in one.url else None)
        page.on("console", lambda one: problems.append(one.text) if one.type == "error" else None)
        page.on("pageerror", lambda one: problems.append(str(one)))
        page.goto(f"file://{exported(name)}/index.html")
        page.locator(".live").wait_for(timeout=SECONDS)
        return page

    yield open_page
    inside = ("file://", "blob:")
    assert not [one for one in problems if not one.startswith(inside)], problems


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", TEXTS)
def test_a_page_answers_a_text_and_draws_its_attention(opened, name, scheme):
    page = opened(name, scheme)
    page.locator("nav button[aria-current]").wait_for(timeout=SECONDS)
    page.locator("#text").fill(TEXTS[name])
    page.locator(".live .primary").click()
    page.get_by_text("in this browser").wait_for(timeout=SECONDS)
    assert page.locator(".body canvas, .body .token").count()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert not findings(page)


@pytest.mark.slow
@pytest.mark.parametrize("name", IMAGES)
def test_a_page_reads_an_image_and_shows_which_patches_the_model_looks_at(opened, name, tmp_path):
    pillow = pytest.importorskip("PIL.Image")
    file = tmp_path / "image.png"
    pillow.fromarray(PIXELS[1].squeeze()).save(file)
    page = opened(name)
    page.locator("input[type=file]").set_input_files(file)
    page.get_by_text("in this browser").wait_for(timeout=SECONDS)
    page.get_by_role("button", name="Image", exact=True).click()
    page.locator("canvas[data-image]").wait_for(timeout=SECONDS)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert not findings(page)


@pytest.mark.slow
def test_higher_temperatures_write_other_texts(opened):
    page = opened("gpt")
    page.locator("nav button[aria-current]").wait_for(timeout=SECONDS)
    outputs = set()
    for temperature in ("0", "1.5", "1.5", "1.5"):
        page.get_by_label("Temperature").fill(temperature)
        page.locator(".live .primary").click()
        page.get_by_text("in this browser").wait_for(timeout=SECONDS)
        outputs.add(page.locator(".top .output").inner_text())
    assert len(outputs) > 1


@pytest.mark.slow
def test_transformers_js_writes_the_same_tokens(exported):
    """The folder is one of transformers.js, too, if its package is installed beside the others."""
    folder = exported("gpt")
    script = """
const {env, AutoTokenizer, AutoModelForCausalLM} = await import("@huggingface/transformers");
env.allowRemoteModels = false; env.localModelPath = process.argv[1];
const tokenizer = await AutoTokenizer.from_pretrained("out");
const model = await AutoModelForCausalLM.from_pretrained("out", {dtype: "fp32"});
const inputs = tokenizer(process.argv[2]);
const ids = await model.generate({...inputs, max_new_tokens: 12, do_sample: false});
console.log(JSON.stringify([inputs.input_ids, ids].map((one) => one.tolist()[0].map(Number))));
"""
    package = transformers_js()
    words = ["node", "--input-type=module", "-e", script, str(folder.parent), TEXTS["gpt"]]
    done = subprocess.run(
        words, cwd=package.parents[2], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    prompt, ids = json.loads(done.stdout.splitlines()[-1])
    bundle = BUNDLES["gpt"][0]()
    ours = bundle.model.start(torch.tensor([prompt[:-1]])) if len(prompt) > 1 else None
    assert ours is not None
    expected, tokens = [*prompt], torch.tensor([prompt[-1:]])
    for _ in range(len(ids) - len(prompt)):
        with torch.inference_mode():
            logits, ours = bundle.model.step(tokens, ours)
        tokens = logits[:, -1:].argmax(-1)
        expected.append(int(tokens))
    assert ids == expected
