"""transformers.js reads the tokenizers of exported folders: 1,000 texts have Headway's ids."""

import json
import subprocess

import pytest

from headway.base.errors import HeadwayError
from headway.exporting.hugging_face import HUGGING_FACE
from headway.exporting.verified import tokenizers_of
from headway.exporting.web.packages import node
from tests.fixtures.bundles import BUNDLES
from tests.fixtures.encoder_tokenizers import a_thousand_texts
from tests.fixtures.web_pages import transformers_js

SCRIPT = """
const {env, AutoTokenizer} = await import("@huggingface/transformers");
env.allowRemoteModels = false; env.localModelPath = process.argv[1];
const tokenizer = await AutoTokenizer.from_pretrained(process.argv[2]);
const texts = JSON.parse((await import("node:fs")).readFileSync(process.argv[3]));
const ids = (text) => tokenizer.encode(text, {add_special_tokens: false});
console.log(JSON.stringify(texts.map(ids)));
"""


@pytest.mark.slow
@pytest.mark.parametrize("name", ["gpt", "translator writes", "encoder"])
def test_transformers_js_gives_a_thousand_texts_the_same_ids(tmp_path, name):
    package, bundle = transformers_js(), BUNDLES[name][0]()
    (tmp_path / "out").mkdir()
    HUGGING_FACE.write(bundle, tmp_path / "out", None, lambda fraction: None)
    (tokenizer, *_), expected = tokenizers_of(bundle), {}
    for text in a_thousand_texts():
        try:
            expected[text] = list(tokenizer.encode(text))
        except HeadwayError:  # a tokenizer of characters has no other ones
            continue
    asked = tmp_path / "texts.json"
    asked.write_text(json.dumps([*expected]))
    words = [node(), "--input-type=module", "-e", SCRIPT, str(tmp_path), "out", str(asked)]
    done = subprocess.run(
        words, cwd=package.parents[2], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    for (text, ids), theirs in zip(expected.items(), found, strict=True):
        assert theirs == ids, text
    assert len(expected) > 900
