"""Captioners as a run."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from headway import load
from headway.base.devices import MachineConfig, prepare
from headway.base.errors import DataError, UsageError
from headway.base.metrics_file import read_metrics
from headway.bundle import ImageEncoderBundle, TextBundle
from headway.cli.main import main
from headway.data.image_reader import ImageReader
from headway.decoding.input_search import InputSearch
from headway.models import GPT, GPTConfig, ViT, ViTConfig
from headway.runs import check_same, recipe, saved, train, with_settings
from headway.tasks.captioning.data import captioned_images
from headway.tasks.captioning.evaluation import CaptionEvaluation
from headway.tasks.captioning.model import CaptionerBundle, CaptionInput, CaptionOptions
from headway.tasks.captioning.task import CAPTIONING as TASK
from headway.tasks.captioning.task import CaptionObjective
from headway.text import TextBPE
from tests.fixtures.images import png

TINY = {
    **{"model.vit.model_dim": 24, "model.vit.num_heads": 3, "model.vit.ffn_dim": 40},
    **{"model.vit.num_layers": 1, "model.vit.dropout": 0.0, "model.gpt.model_dim": 32},
    **{"model.gpt.num_heads": 4, "model.gpt.ffn_dim": 40, "model.gpt.num_layers": 2},
    **{"model.gpt.dropout": 0.0, "training.batch_size": 6, "training.steps": 60},
    **{"training.average": 0.0, "schedule.warmup": 5, "evaluation.every": 30},
    **{"checkpoint.every": 30, "machine.threads": 1, "augmentation.padding": 0},
    **{"data.text": ("en", "de"), "data.vocabulary": 280, "optimizer.kind": "adamw"},
    **{"optimizer.lr": 1e-2, "training.smoothing": 0.0},
}
CAPTIONS = {
    "dark": ("a dark night over the hill", "eine dunkle Nacht am Berg"),
    "light": ("the light day by the sea", "der helle Tag an der See"),
}
SHADES = {"dark": 40, "light": 200}


@pytest.fixture(scope="module")
def data_folder(tmp_path_factory):
    """A folder with 24 images, alternately dark and light, the last eight of them held out."""
    folder = tmp_path_factory.mktemp("captions")
    images, rows = [], ["split\ten\tde"]
    for i in range(24):
        kind = ("dark", "light")[i % 2]
        noise = np.random.default_rng(i).integers(-30, 31, (8, 8, 3))
        images.append((SHADES[kind] + noise).astype(np.uint8))
        rows.append("\t".join(["train" if i < 16 else "valid", *CAPTIONS[kind]]))
    np.savez(folder / "a.npz", images=np.stack(images))
    (folder / "c.tsv").write_text("\n".join(rows))
    return folder


def configured(data_folder, **changes):
    """Return the configuration of a captioning run; two underscores in a name are a dot."""
    dotted = {key.replace("__", "."): value for key, value in changes.items()}
    data = {"data.train": str(data_folder / "c.tsv"), "data.images": str(data_folder / "a.npz")}
    return recipe("caption", ("test", {**TINY, **data, **dotted}))


def job_of(config, folder):
    machine = prepare(MachineConfig(threads=1))
    return TASK.prepare(config, folder, machine, lambda event: None)


@pytest.fixture(scope="module")
def trained(data_folder, tmp_path_factory):
    folder = tmp_path_factory.mktemp("run") / "run"
    events = []
    train(configured(data_folder), folder, listeners=[events.append])
    return folder, events


def test_one_model_captions_images_in_both_languages(trained, data_folder):
    folder, _ = trained
    bundle = load(folder)
    assert isinstance(bundle, CaptionerBundle) and bundle.languages == ("en", "de")
    images = [np.full((8, 8, 3), SHADES[kind], np.uint8) for kind in ("light", "dark")]
    for column, language in enumerate(("en", "de")):
        expected = [CAPTIONS["light"][column], CAPTIONS["dark"][column]]
        assert bundle.caption(images, language=language, beam=2) == expected


def test_the_run_reports_its_scores_and_samples_and_keeps_the_best_model(trained):
    folder, events = trained
    rows = read_metrics(folder / "metrics.jsonl", "valid")
    assert {"nats", "cider", "bleu", "chrf"} < rows[-1].keys()
    assert rows[-1]["cider"] > 9 and rows[-1]["bleu"] > 99  # ten words of ten, and all right
    samples = [event for event in events if event["kind"] == "sample"]
    assert {event["language"] for event in samples} == {"en", "de"}
    assert samples[-1]["output"] in {captions[1] for captions in CAPTIONS.values()}
    config = saved(folder)
    assert (
        config.model.vit.image_size == 8 and config.model.gpt.vocabulary == load(folder).reader.size
    )
    check_same(folder, config)


def test_training_python_and_the_command_line_give_the_same_scores(trained, capsys):
    """The evaluation of the saved model equals that of the step it was saved at, in every number,
    with the same options."""
    from headway.tasks.captioning.cider import cider_d

    run, events = trained
    (best,) = [row for row in read_metrics(run / "metrics.jsonl", "valid") if row["is_best"]][-1:]
    bundle, config = load(run), saved(run)
    options = CaptionEvaluation(beam=1, worst=1, samples=2)
    held_out = TASK.held_out(bundle, run, config, options)
    scores = TASK.evaluate(bundle, held_out, options)
    assert scores.numbers() == {name: best[name] for name in scores.numbers()}
    assert list(scores.numbers()) == ["cider", "bleu", "chrf", "nats"]
    assert held_out.split == "valid" and scores.counts == {"images": 8}
    shown = [event for event in events if event["kind"] == "sample"][-4:]
    assert [{k: e[k] for k in ("language", "reference", "output")} for e in shown] == list(
        scores.samples
    )
    with pytest.raises(SystemExit) as leaving:
        main(["eval", str(run), "--beam", "1", "--worst", "1", "--json"])
    assert leaving.value.code == 0
    assert json.loads(capsys.readouterr().out) == scores.as_dict()
    for row in scores.details["languages"]:
        images = [captioned.image.pixels() for captioned in captioned_images(config.data)["valid"]]
        outputs = bundle.caption(images, language=row["language"], beam=1)
        ciders = cider_d(outputs, [held_out.captions[i][row["language"]] for i in range(8)])
        assert row["cider"] == pytest.approx(sum(ciders) / 8) and row["images"] == 8
        assert row["worst"][0]["cider"] == min(ciders)
    means = [sum(row["cider"] for row in scores.details["languages"]) / 2]
    assert scores["cider"] == pytest.approx(means[0])


def test_an_evaluation_stops_early_if_it_is_requested(trained, monkeypatch):
    run, asked = trained[0], []
    monkeypatch.setattr(InputSearch, "stops_early", lambda *search: bool(asked.append(search)))
    for stops in (False, True):
        options = CaptionEvaluation(beam=2, early_stopping=stops)
        scores = TASK.evaluate(
            load(run), TASK.held_out(load(run), run, saved(run), options), options
        )
        assert bool(asked) is stops is scores.details.get("early_stopping", False)


def test_images_called_test_are_evaluated_unless_those_of_validation_are_requested(trained):
    run, bundle = trained[0], load(trained[0])
    config = saved(run)
    table = Path(config.data.train)
    lines = table.read_text().split("\n")
    changed = table.with_name("with-test.tsv")
    changed.write_text(
        "\n".join([*lines[:-3], *(line.replace("valid", "test") for line in lines[-3:])])
    )
    config = with_settings(config, ("test", {"data.train": str(changed)}))
    for split, count in (("test", 3), ("valid", 5)):
        held_out = TASK.held_out(bundle, run, config, CaptionEvaluation(split=split))
        assert (held_out.split, len(held_out)) == (split, count)


def test_nats_are_of_every_token_of_the_captions_in_each_language(trained):
    bundle, run = load(trained[0]), trained[0]
    options = CaptionEvaluation(beam=1)
    held_out = TASK.held_out(bundle, run, saved(run), options)
    scores, total = TASK.evaluate(bundle, held_out, options), [0.0, 0]
    for row in scores.details["languages"]:
        nats = []
        for i, captions in enumerate(held_out.captions):
            images = held_out.images.batch([i], bundle.reader.images)
            for ids in bundle.reader.encode(captions[row["language"]]):
                read = torch.tensor([[bundle.reader.first(row["language"]), *ids]])
                with torch.no_grad():
                    logs = bundle.model(images, read)[0].double().log_softmax(-1)
                targets = [*ids, bundle.reader.tokenizer.eos]
                nats += [-logs[t, i].item() for t, i in enumerate(targets)]
        assert row["nats"] == pytest.approx(sum(nats) / len(nats), rel=1e-4)
        total = [total[0] + sum(nats), total[1] + len(nats)]
    assert scores["nats"] == pytest.approx(total[0] / total[1], rel=1e-4)
    assert not scores.metric("nats").higher_is_better


def test_a_language_with_captions_of_one_image_is_left_out_and_without_any_there_are_no_scores(
    trained, tmp_path
):
    run, bundle = trained[0], load(trained[0])
    images = captioned_images(saved(run).data)["valid"]
    for i in range(3):
        (tmp_path / f"{i}.png").write_bytes(png(images[i].image.pixels()))
    text = "\n".join(["image\ten\tde", "0.png\ta\tb", "1.png\tc\t", "2.png\td\t"])
    (tmp_path / "t.tsv").write_text(text)
    examples = TASK.read(bundle, [tmp_path / "t.tsv"], None, CaptionEvaluation())
    assert (len(examples), examples.columns) == (3, ("en", "de"))
    scores = TASK.evaluate(bundle, examples)
    assert [row["language"] for row in scores.details["languages"]] == ["en"]
    assert scores["cider"] == scores.details["languages"][0]["cider"]
    (tmp_path / "t.tsv").write_text("\n".join(text.split("\n")[:2]))
    examples = TASK.read(bundle, [tmp_path / "t.tsv"], saved(run), CaptionEvaluation())
    with pytest.raises(DataError, match="two images"):
        TASK.evaluate(bundle, examples)


def test_a_prediction_has_the_captions_of_every_language_that_was_requested(trained, tmp_path):
    bundle, path = load(trained[0]), tmp_path / "a.png"
    path.write_bytes(png(np.full((8, 8, 3), SHADES["dark"], np.uint8)))
    inputs = [CaptionInput(image=path)]
    (both,) = bundle.predict(inputs, CaptionOptions(language="de,en", top=2))
    assert both.file == str(path)
    assert [caption.language for caption in both.captions] == ["de", "de", "en", "en"]
    assert [both.captions[i].text for i in (2, 0)] == list(CAPTIONS["dark"])
    (first,) = bundle.predict(inputs)
    assert [(c.language, c.text) for c in first.captions] == [("en", CAPTIONS["dark"][0])]
    with pytest.raises(UsageError, match="has no captions in the language 'fr'"):
        bundle.predict(inputs, CaptionOptions(language="en,fr"))
    with pytest.raises(ValueError, match="top=5"):
        CaptionOptions(top=5)


def test_a_run_that_was_interrupted_ends_as_one_that_was_not(data_folder, tmp_path):
    changes = {"training__steps": 8, "evaluation__every": 4, "checkpoint__every": 4}
    changes |= {"augmentation__padding": 1, "model__gpt__dropout": 0.1}

    class Stop:
        def after_step(self, run, report):
            if run.step == 4:
                run.stop = "interrupted"

    whole, parts = tmp_path / "whole", tmp_path / "parts"
    train(configured(data_folder, **changes), whole)
    train(configured(data_folder, **changes), parts, observers=[Stop()])
    train(configured(data_folder, **changes), parts)
    name = "model/model.safetensors"
    assert (whole / name).read_bytes() == (parts / name).read_bytes()


def test_images_are_held_out_by_content_if_no_column_names_the_split(data_folder):
    data = configured(data_folder, data__split_column="none", data__held_out=0.4).data
    splits = captioned_images(data)
    assert len(splits["train"]) + len(splits["valid"]) == 24 and len(splits["valid"]) > 3
    again = captioned_images(data)
    assert [e.image.where for e in again["valid"]] == [e.image.where for e in splits["valid"]]


def test_an_image_with_the_only_captions_in_a_language_is_not_held_out(data_folder, tmp_path):
    data = configured(data_folder, data__split_column="none", data__held_out=0.4).data
    location = captioned_images(data)["valid"][0].image.where
    row = int(location.split("[")[1].removesuffix("]"))
    lines = [
        "en\tde",
        *(f"{CAPTIONS['dark'][0]}\t{'nur hier' if i == row else ''}" for i in range(24)),
    ]
    (tmp_path / "c.tsv").write_text("\n".join(lines))
    changes = {"data__split_column": "none", "data__held_out": 0.4}
    data = configured(data_folder, data__train=str(tmp_path / "c.tsv"), **changes).data
    notes = []
    splits = captioned_images(data, notes.append)
    assert location in {example.image.where for example in splits["train"]}
    assert "to hold out stay in training" in notes[0]["text"]


def test_a_language_without_a_training_caption_is_refused(data_folder, tmp_path):
    lines = ["split\ten\tde", *["train\ta night\t"] * 20, *["valid\ta day\tein Tag"] * 4]
    (tmp_path / "c.tsv").write_text("\n".join(lines))
    with pytest.raises(DataError, match="no training image has a caption in the column 'de'"):
        captioned_images(configured(data_folder, data__train=str(tmp_path / "c.tsv")).data)


def save_pretrained(tmp_path, **changes):
    """Save a ViT and a GPT; return both, and settings that start a captioner from them."""
    shape = {"model_dim": 24, "num_heads": 3, "ffn_dim": 40, "num_layers": 2, "image_size": 16}
    reader = ImageReader(height=16, width=16, mean=(0.4,) * 3, deviation=(0.2,) * 3)
    vit = ImageEncoderBundle(ViT(ViTConfig(**shape, positions="learned")), reader)
    vit.save(tmp_path / "vit")
    texts = [text for captions in CAPTIONS.values() for text in captions] * 3
    tokenizer = TextBPE.train([f" {text}" for text in texts], 270)
    config = GPTConfig(
        **{"model_dim": 32, "num_heads": 2, "ffn_dim": 48, "num_layers": 3, "max_length": 64},
        vocabulary=tokenizer.size + 5,
    )
    TextBundle(GPT(config), tokenizer).save(tmp_path / "gpt")
    settings = {
        "training__encoder": str(tmp_path / "vit"),
        "training__decoder": str(tmp_path / "gpt"),
    }
    vit, gpt = (load(tmp_path / name, fast=False) for name in ("vit", "gpt"))
    return vit, gpt, {**settings, **changes}


def unsized(data_folder, **changes):
    """Return a configuration without the sizes of TINY: the pre-trained models have their own."""
    settings = {k: v for k, v in TINY.items() if not k.startswith("model.")}
    dotted = {key.replace("__", "."): value for key, value in changes.items()}
    data = {"data.train": str(data_folder / "c.tsv"), "data.images": str(data_folder / "a.npz")}
    return recipe("caption", ("test", {**settings, **data, **dotted}))


def test_a_run_starts_from_a_vit_and_a_gpt(data_folder, tmp_path):
    vit, gpt, settings = save_pretrained(tmp_path, training__frozen=True, training__steps=3)
    config = unsized(data_folder, **settings)
    job = job_of(config, tmp_path / "data")
    model, images = job.build().eval(), torch.randn(2, 3, 16, 16)
    reader = job.bundle(model).reader
    assert reader.images == vit.reader
    assert reader.tokenizer.fingerprint == gpt.tokenizer.fingerprint
    assert torch.equal(model.vit(images), vit.model(images))
    size = gpt.tokenizer.size
    words = model.embedding.tokens.weight
    assert words.shape[0] == size + 2
    assert torch.equal(words[:size], gpt.model.embedding.tokens.weight[:size])
    assert torch.equal(words[size], gpt.model.embedding.tokens.weight[gpt.tokenizer.bos])
    assert not any(p.requires_grad for p in model.vit.parameters())
    folder = tmp_path / "run"
    train(config, folder)
    assert torch.equal(load(folder, fast=False).model.vit(images), vit.model(images))
    check_same(folder, config)


def test_settings_that_do_not_fit_the_pretrained_models_are_refused(data_folder, tmp_path):
    _, _, settings = save_pretrained(tmp_path)
    for changes, message in (
        (
            {"model__vit__num_layers": 3},
            "model.vit.num_layers=3, but the pre-trained model has 2",
        ),
        ({"model__gpt__ffn_dim": 56}, "model.gpt.ffn_dim=56, but the pre-trained model has 48"),
        ({"data__max_length": 64}, "has 64 positions, one of them"),
        ({"training__encoder": str(tmp_path / "gpt")}, "holds a language model"),
        ({"training__decoder": str(tmp_path / "vit")}, "holds an image encoder"),
    ):
        with pytest.raises(UsageError) as error:
            job_of(unsized(data_folder, **{**settings, **changes}), tmp_path / "data")
        assert message in error.value.what


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"data__train": None}, "no table of training captions is named"),
        ({"data__train": "nowhere.tsv"}, "no such file"),
        ({"data__images": "nowhere.npz"}, "no such file"),
        ({"data__text": ("en", "en")}, "each of them once"),
        ({"data__max_length": 64}, "is too small: captions have up to"),
        ({"training__frozen": True}, "freezes a pre-trained encoder, and none is named"),
    ],
)
def test_a_configuration_that_cannot_work_is_refused_before_anything_is_written(
    changes, message, data_folder
):
    with pytest.raises(UsageError) as error:
        TASK.check(configured(data_folder, **changes))
    assert message in error.value.what


def test_captions_that_are_too_long_are_left_out_and_reported(data_folder, tmp_path):
    whole = job_of(configured(data_folder), tmp_path / "all")
    reader = whole.bundle(whole.build()).reader
    lengths = [len(ids) for captions in CAPTIONS.values() for ids in reader.encode(captions)]
    job = job_of(configured(data_folder, data__max_length=min(lengths)), tmp_path / "few")
    longer = 8 * sum(length > min(lengths) for length in lengths)
    assert longer and f"({longer} captions left out as too long)" in job.summary.batches
    with pytest.raises(DataError, match="all captions have more than"):
        job_of(configured(data_folder, data__max_length=1), tmp_path / "none")


def test_the_objective_counts_every_real_token_once_and_pairs_it_with_its_image(
    data_folder, tmp_path
):
    job = job_of(configured(data_folder), tmp_path / "data")
    model, batch = job.build().eval(), next(job.batches.stream(0, 0))[2]
    loss = CaptionObjective(0.0)(model, batch)
    logs = torch.log_softmax(model(batch.images[batch.of], batch.read), -1)
    chosen = logs.gather(-1, batch.targets[..., None])[..., 0]
    assert_close(loss.nats, -(chosen * batch.real).sum(), rtol=1e-5, atol=1e-4)
    assert loss.count == int(batch.real.sum())


def test_prepared_data_is_reused(data_folder, tmp_path):
    events = []
    config, machine = configured(data_folder), prepare(MachineConfig(threads=1))
    first = TASK.prepare(config, tmp_path, machine, lambda event: None)
    again = TASK.prepare(config, tmp_path, machine, events.append)
    readers = [job.bundle(job.build()).reader for job in (first, again)]
    assert readers[0].fingerprint == readers[1].fingerprint
    assert all(event["reused"] for event in events if event["kind"] == "prepared")
    assert json.loads((tmp_path / "captions.json").read_text())["languages"] == ["en", "de"]
