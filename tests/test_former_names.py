"""Files of earlier versions are read; a former name that a user types gets the name of today."""

import hashlib
import json
from functools import partial

import pytest
import torch

from headway import load
from headway.blocks import PrototypeHead
from headway.cli.main import main
from headway.data.documents import Part
from headway.data.formats.images import LabelledImage
from headway.data.image_corpus import ImageCorpus, prepare_images
from headway.data.image_reader import ImageReader
from headway.data.text_corpus import TextCorpus, prepare_text
from headway.errors import UsageError
from headway.former_names import FORMER_NAMES, PAGE_KEYS, current_name, with_current_names
from headway.models import SelfDistilled, ViT, ViTConfig
from headway.models.registry import MODELS
from headway.runs import recipe, saved
from headway.runs.attention_over_time import AttentionSnapshots, read_attention_snapshots
from headway.runs.recipes import configurations
from headway.settings import fields_of, override
from headway.tasks.job import Example
from headway.tensors import read_tensors, write_tensors
from headway.text import EncoderTokenizer, TextBPE
from headway.training import TrainingState, load_state, save_state
from tests.fixtures.image_classifiers import classifier
from tests.fixtures.images import pixels_of
from tests.fixtures.manifests import reseal
from tests.fixtures.small_encoder import TEXTS, encoder


def with_former_names(path, *former):
    """Give names of a JSON or safetensors file their former names, as an earlier version did."""
    if path.suffix == ".safetensors":
        tensors = read_tensors(path)
        for old in former:
            tensors = {name.replace(FORMER_NAMES[old], old): t for name, t in tensors.items()}
        path.unlink()
        write_tensors(path, tensors)
        reseal(path.parent)
        return
    text = path.read_text(encoding="utf-8")
    for old in former:
        assert f'"{FORMER_NAMES[old]}"' in text, f"{path.name} has no {FORMER_NAMES[old]}"
        text = text.replace(f'"{FORMER_NAMES[old]}"', f'"{old}"', 1)
    path.write_text(text, encoding="utf-8")
    reseal(path.parent)


def test_each_renamed_setting_is_one_of_today_and_its_former_name_is_not():
    known = {key for config in configurations() for key in fields_of(config)}
    fields = {key for spec in MODELS.values() for key in fields_of(spec.config())}
    for old, new in FORMER_NAMES.items():
        if "." in old and not old.endswith(".json"):
            assert new in known and old not in known, old
    assert {"first_position", "masked_lm_head"} <= fields


def test_names_of_other_packages_stay_as_they_are():
    values = {"training.rows": 3, "data.said": 1, "model.first_place": 2}
    assert current_name("model.first_place") == "model.first_position"
    assert (
        with_current_names(values, {"training.rows", "training.batch_size"}.__contains__) == values
    )
    renamed = with_current_names(values, {"model.first_position"}.__contains__)
    assert renamed == {"training.rows": 3, "data.said": 1, "model.first_position": 2}


RUN = """
recipe: bert
training: {rows: 5}
evaluation: {rows: 7}
masking: {share: 0.2, hidden: 0.5}
data: {new_pieces: 4}
model: {first_place: 2, masked_words: true}
"""


def test_a_run_of_an_earlier_version_is_read(tmp_path):
    (tmp_path / "run.yaml").write_text(RUN)
    config = saved(tmp_path)
    assert (config.training.batch_size, config.evaluation.sequences) == (5, 7)
    assert (config.masking.fraction, config.masking.masked) == (0.2, 0.5)
    assert (config.data.new_tokens, config.model.first_position) == (4, 2)


def test_a_run_of_images_of_an_earlier_version_is_read(tmp_path):
    views = "views: {whole: 3, local: 1, whole_share: 0.5, local_share: 0.3, least: 0.1}"
    (tmp_path / "run.yaml").write_text(f"recipe: dino\nevaluation: {{pictures: 9}}\n{views}\n")
    config = saved(tmp_path)
    assert config.evaluation.images == 9
    crops = config.views
    assert (crops.global_crops, crops.local_crops, crops.global_min_area) == (3, 1, 0.5)
    assert (crops.local_max_area, crops.local_min_area) == (0.3, 0.1)


def test_a_model_of_an_earlier_version_is_read(tmp_path):
    encoder(first_position=1).save(tmp_path / "m")
    before = load(tmp_path / "m")
    with_former_names(tmp_path / "m" / "config.json", "first_place", "masked_words")
    with_former_names(tmp_path / "m" / "model.safetensors", "masked_words")
    with_former_names(tmp_path / "m" / "tokenizer.json", "marks")
    after = load(tmp_path / "m")
    assert after.config == before.config
    assert after.tokenizer.fingerprint == before.tokenizer.fingerprint
    assert after.fill(["The old [MASK]"]) == before.fill(["The old [MASK]"])


def test_a_tokenizer_has_the_fingerprint_that_models_of_earlier_versions_name(tmp_path):
    tokenizer = EncoderTokenizer.train(TEXTS, 120)
    (tmp_path / "t").mkdir()
    tokenizer.save(tmp_path / "t")
    with_former_names(tmp_path / "t" / "tokenizer.json", "marks")
    assert EncoderTokenizer.load(tmp_path / "t").fingerprint == tokenizer.fingerprint
    content = (tmp_path / "t" / "tokenizer.json").read_bytes()
    assert hashlib.sha256(content).hexdigest() == tokenizer.fingerprint


def state_of(model):
    parameters = [p for p in model.parameters() if p.requires_grad]
    return TrainingState(model, torch.optim.AdamW(parameters, lr=0.1), None)


def test_a_checkpoint_of_an_earlier_version_is_read_with_its_moments(tmp_path):
    model = encoder().model
    run = state_of(model)
    model(torch.tensor([[5, 6, 7]])).sum().backward()
    run.optimizer.step()
    save_state(run, tmp_path / "step-1")
    with_former_names(tmp_path / "step-1" / "state.safetensors", "masked_words")
    again = state_of(encoder(seed=3).model)
    load_state(again, tmp_path / "step-1")
    name = "masked_lm_head.transform.weight"
    saved, loaded = (dict(state.model.named_parameters())[name] for state in (run, again))
    assert torch.equal(saved, loaded)
    assert torch.equal(
        run.optimizer.state[saved]["exp_avg"], again.optimizer.state[loaded]["exp_avg"]
    )


def test_buffers_and_positions_of_an_earlier_version_are_read(tmp_path):
    size = {"model_dim": 8, "num_heads": 2, "ffn_dim": 16, "num_layers": 1}

    def dino():
        vit = ViT(ViTConfig(image_size=4, patch_size=2, channels=1, **size))
        return SelfDistilled(vit, PrototypeHead(8, 8, 4, prototypes=5), temperature=0.04)

    model = dino()
    model.teacher_probabilities([torch.randn(3, 1, 4, 4)])
    torch.nn.init.normal_(model.student.embedding.class_position)
    save_state(state_of(model), tmp_path / "step-1")
    former = ("said", "heard", "class_place")
    with_former_names(tmp_path / "step-1" / "state.safetensors", *former)
    again = dino()
    load_state(state_of(again), tmp_path / "step-1")
    assert again.logit_count == 3 and torch.equal(again.logit_sum, model.logit_sum)
    position = model.student.embedding.class_position
    assert torch.equal(again.student.embedding.class_position, position)


def prepared_text(folder):
    tokenizer = TextBPE.train(TEXTS, 270)
    prepare_text(iter([Part(text, True) for text in TEXTS]), tokenizer, folder)
    return tokenizer


def test_prepared_text_of_an_earlier_version_is_read(tmp_path):
    tokenizer = prepared_text(tmp_path / "t")
    with_former_names(tmp_path / "t" / "text.json", "marks_ends")
    assert len(TextCorpus.open(tmp_path / "t", tokenizer)) > 0


def test_prepared_images_of_an_earlier_version_are_read(tmp_path):
    reader = ImageReader(height=4, width=6, mean=(0.0,) * 3, deviation=(1.0,) * 3)
    images = [LabelledImage("ant", f"{i}", partial(pixels_of, 4, 6, 3, i)) for i in range(10)]
    folder = prepare_images(images, ["ant"], reader, tmp_path / "i").folder
    (folder / "description.json").rename(folder / "facts.json")
    reseal(folder)
    assert len(ImageCorpus.open(folder)) == 10


def former(header):
    """A page's header as an earlier version wrote it."""
    old_names = {new: old for old, new in PAGE_KEYS.items()}
    if isinstance(header, list):
        return [former(item) for item in header]
    if not isinstance(header, dict):
        return old_names.get(header, header) if header == "image" else header
    return {old_names.get(key, key): former(value) for key, value in header.items()}


@pytest.mark.parametrize("kind", ["text encoder", "image classifier"])
def test_attention_that_an_earlier_version_saved_is_shown(kind, tmp_path):
    bundle, example = encoder(), Example("The old [MASK] waves.")
    if kind == "image classifier":
        bundle, example = classifier(), Example(pixels_of(8, 8, 3, 0))
    AttentionSnapshots(tmp_path / "glimpses", example).keep(bundle, step=3)
    frames, blocks = read_attention_snapshots(tmp_path)
    (path,) = (tmp_path / "glimpses").iterdir()
    parts = read_tensors(path)
    header = json.loads(bytes(parts["header"].numpy()))
    header["frames"] = former(header["frames"])
    assert "guesses" in header["frames"][0] and "predictions" not in header["frames"][0]
    text = bytearray(json.dumps(header).encode())
    parts["header"] = torch.frombuffer(text, dtype=torch.uint8)
    path.unlink()
    write_tensors(path, parts)
    assert read_attention_snapshots(tmp_path) == (frames, blocks)


@pytest.mark.parametrize("where", ["the command line", "my.yaml"])
def test_a_former_setting_that_a_user_types_is_an_error_with_the_name_of_today(where):
    name = "--training.batch-size" if where == "the command line" else "training.batch_size"
    with pytest.raises(UsageError, match=f"training.rows, which is now {name}\n"):
        recipe("bert", (where, {"training.rows": 3}))
    with pytest.raises(UsageError, match="which is now"):
        override(recipe("bert"), {"masking.share": 0.1}, where)


@pytest.mark.parametrize(
    ("command", "advice"),
    [
        ("look run a.png --share 0.5", "--share, which is now --outline"),
        ("figures heads --picture a.png", "--picture, which is now --image"),
        ("inspect run text --place 3", "--place, which is now --position"),
        ("eval run --rows 3", "--rows, which is now --sequences"),
        ("export run --to hf --out new", "--out, which is now --output"),
        ("words scatter run --out new.svg", "--out, which is now --output"),
        ("config explain masking.share", "masking.share, which is now masking.fraction"),
    ],
)
def test_a_former_flag_is_an_error_with_the_name_of_today(command, advice, capsys):
    with pytest.raises(SystemExit) as leaving:
        main(command.split())
    assert leaving.value.code == 2 and advice in capsys.readouterr().err


def test_no_other_command_advises_a_flag_that_it_lacks(capsys):
    with pytest.raises(SystemExit):
        main(["look", "run", "a.png", "--rows", "3"])
    assert "which is now" not in capsys.readouterr().err
