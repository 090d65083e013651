"""The tokenizers of exported pages give 1,000 texts the ids that Python gives them."""

import json
import random
import subprocess

import pytest

from headway.exporting.web.description import described_tokenizer
from headway.exporting.web.packages import node
from headway.exporting.web.page import libraries, web_modules
from headway.inspection.page.bundling import bundle
from headway.text import CharacterTokenizer, TextBPE, TextUnigram, Tokenizer, UnigramTokenizer
from tests.fixtures.small_encoder import TEXTS, encoder
from tests.fixtures.web_pages import installed_packages

WORDS = [*" ".join(TEXTS).split(), "Grüße", "naïve", "Σωκράτης", "日本語", "🙂", "12.5", "it's"]
BETWEEN = [" ", " ", " ", "  ", "\n", "\t", ", ", "-", "…", "</s>", "[MASK]", "\u00a0", "\u0301"]
CORPUS = [*TEXTS, *WORDS] * 3
MADE = {
    "text BPE": lambda: TextBPE.train(CORPUS, 320),
    "text unigram": lambda: TextUnigram.train(CORPUS, 320),
    "sentence BPE": lambda: Tokenizer.train(CORPUS, 320),
    "sentence unigram": lambda: UnigramTokenizer.train(CORPUS, 320),
    "word pieces": lambda: encoder(max_length=40).tokenizer,
    "characters": lambda: CharacterTokenizer.train([*WORDS, *BETWEEN]),
}


def texts():
    generator = random.Random(0)
    return [
        "".join(
            generator.choice(WORDS) + generator.choice(BETWEEN)
            for _ in range(generator.randint(0, 12))
        )
        for _ in range(1000)
    ]


@pytest.mark.slow
@pytest.mark.parametrize("name", MADE)
def test_a_thousand_texts_have_the_ids_of_python_and_become_texts_again(tmp_path, name):
    packages, tokenizer = installed_packages(), MADE[name]()
    request = tmp_path / "request.json"
    request.write_text(json.dumps({"described": described_tokenizer(tokenizer), "texts": texts()}))
    script = tmp_path / "script.cjs"
    run = b"""
const {described, texts} = JSON.parse(require("node:fs").readFileSync(process.argv[2]));
const one = module_tokenizing.tokenizerOf(described, globalThis.libraries.Tokenizer);
const found = texts.map((text) => { const ids = one.encode(text); return [ids, one.decode(ids)]; });
process.stdout.write(JSON.stringify(found));
"""
    module = bundle({"tokenizing": web_modules()["tokenizing"]}).encode()
    script.write_bytes(libraries(packages) + module + run)
    done = subprocess.run(
        [node(), str(script), str(request)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    for text, (ids, decoded) in zip(texts(), json.loads(done.stdout), strict=True):
        assert ids == tokenizer.encode(text), text
        if name != "word pieces":  # the page shows no text of an encoder
            assert decoded == tokenizer.decode(ids), text
