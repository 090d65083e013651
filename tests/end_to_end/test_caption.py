"""Image captioning through the command line: from a table and images to captions and scores."""

import json

import numpy as np
import pytest

from tests.fixtures.captioners import exportable
from tests.fixtures.command_line import headway
from tests.fixtures.images import png

TINY = [
    *("--model.vit.model-dim", "24", "--model.vit.num-heads", "3", "--model.vit.ffn-dim", "40"),
    *("--model.vit.num-layers", "1", "--model.gpt.model-dim", "32", "--model.gpt.num-heads", "4"),
    *("--model.gpt.ffn-dim", "40", "--model.gpt.num-layers", "1", "--training.batch-size", "6"),
    *("--model.gpt.dropout", "0", "--data.vocabulary", "280", "--training.average", "0"),
    *("--schedule.warmup", "5", "--evaluation.every", "30", "--checkpoint.every", "30"),
    *("--optimizer.kind", "adamw", "--optimizer.lr", "1e-2", "--training.smoothing", "0"),
    *("--threads", "1", "--steps", "60"),
]
CAPTIONS = {40: ("a dark night over the hill", "eine dunkle Nacht am Berg")}
CAPTIONS[200] = ("the light day by the sea", "der helle Tag an der See")


@pytest.fixture(scope="module")
def working_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("captions")
    (folder / "p").mkdir()
    rows = ["image\tsplit\ten\tde"]
    for i in range(20):
        shade = (40, 200)[i % 2]
        noise = np.random.default_rng(i).integers(-30, 31, (8, 8, 3))
        (folder / "p" / f"{i}.png").write_bytes(png((shade + noise).astype(np.uint8)))
        split = "train" if i < 14 else "test" if i > 15 else "valid"
        rows.append("\t".join([f"p/{i}.png", split, *CAPTIONS[shade]]))
    (folder / "c.tsv").write_text("\n".join(rows))
    words = ["train", "caption", "c.tsv", "--data.text", "en,de", "--run", "c", *TINY]
    done = headway(*words, cwd=folder)
    (folder / "training.txt").write_text(done.stderr)
    for name, shade in (("a.png", 35), ("b.png", 205)):
        (folder / name).write_bytes(png(np.full((9, 13, 3), shade, np.uint8)))
    return folder


def test_training_reports_its_progress_and_saves_a_bundle(working_folder):
    output = (working_folder / "training.txt").read_text()
    for part in (
        "data      train: 14 images",
        "4 images of the test split are left for headway eval",
        "images of 8 x 8 x 3 in patches of 4 x 4, 1+1 layers, d=24+32, languages en, de",
        "cider=",
        "reference  der helle Tag an der See",
        "caption runs/c IMAGE --plot words.png",
    ):
        assert part in output, part


def test_each_image_is_captioned_on_a_line_in_the_requested_language(run_headway):
    lines = run_headway("caption", "runs/c", "a.png", "b.png")[0].splitlines()
    assert lines == [f"a.png\t{CAPTIONS[40][0]}", f"b.png\t{CAPTIONS[200][0]}"]
    lines = run_headway("caption", "runs/c", "a.png", "--language", "de,en", "--beam", "1")[
        0
    ].splitlines()
    assert lines == [f"a.png\tde\t{CAPTIONS[40][1]}", f"a.png\ten\t{CAPTIONS[40][0]}"]
    best = run_headway("caption", "runs/c", "b.png", "--top", "3")[0].splitlines()
    cells = [line.split("\t") for line in best]
    assert [cell[0] for cell in cells] == ["b.png"] * 3 and cells[0][2] == CAPTIONS[200][0]
    assert [float(cell[1]) for cell in cells] == sorted((float(c[1]) for c in cells), reverse=True)
    row = json.loads(run_headway("caption", "runs/c", "a.png", "--language", "de,en", "--json")[0])
    assert (row["line"], row["file"]) == (1, "a.png")
    assert [caption["language"] for caption in row["captions"]] == ["de", "en"]
    assert row["captions"][1]["text"] == CAPTIONS[40][0] and row["captions"][1]["finished"]


def test_sampled_captions_follow_from_the_seed(run_headway):
    words = ["caption", "runs/c", "a.png", "--sample", "3", "--temperature", "3", "--seed", "4"]
    first = run_headway(*words)[0]
    assert first == run_headway(*words)[0] and len(first.splitlines()) == 3
    greedy = run_headway("caption", "runs/c", "a.png", "--sample", "1", "--temperature", "0")[0]
    assert greedy == f"a.png\t{CAPTIONS[40][0]}\n"


def test_attention_to_the_image_is_plotted_and_no_file_is_overwritten(run_headway, working_folder):
    stderr = run_headway("caption", "runs/c", "a.png", "--plot", "words.svg")[1]
    assert "drawn     words.svg" in stderr
    run_headway("caption", "runs/c", "a.png", "--plot", "first.svg", "--layer", "1")
    text = (working_folder / "words.svg").read_text()
    assert (working_folder / "first.svg").read_text() == text
    assert all(f">{word}  " in text for word in CAPTIONS[40][0].split())
    assert (
        "exists already"
        in run_headway("caption", "runs/c", "a.png", "--plot", "words.svg", code=2)[1]
    )
    stderr = run_headway("caption", "runs/c", "a.png", "b.png", "--plot", "two.svg", code=2)[1]
    assert "one image" in stderr and not (working_folder / "two.svg").exists()
    stderr = run_headway("caption", "runs/c", "a.png", "--plot", "x.svg", "--layer", "2", code=2)[1]
    assert "--layer 2: must be from 1 to 1" in stderr and not (working_folder / "x.svg").exists()


def test_eval_scores_every_language_on_the_test_split_or_on_a_table(run_headway, working_folder):
    output = run_headway("eval", "runs/c")[0]
    assert "en: 4 images (test), beam 5" in output and "de: 4 images (test)" in output
    assert output.count("\nCIDEr-D 10.00") == 2 and output.count("\nBLEU 100.00") == 2
    assert "mean of 2 languages: CIDEr-D 10.00   BLEU 100.00" in output
    scores = json.loads(run_headway("eval", "runs/c", "c.tsv", "--json")[0])
    rows = scores["languages"]
    assert [(row["language"], row["images"]) for row in rows] == [("en", 20), ("de", 20)]
    assert rows[0]["cider"] == pytest.approx(10) and scores["split"] == "c.tsv"


def test_a_captioner_is_exported_if_its_encoder_and_decoder_can_be_represented(
    run_headway, working_folder
):
    assert "vit.model_dim=24" in run_headway("export", "runs/c", "--to", "hf", code=2)[1]
    exportable().save(working_folder / "exportable")
    stderr = run_headway("export", "exportable", "--to", "hf")[1]
    assert "VisionEncoderDecoderModel" in stderr and "outputs differ at most in" in stderr
    assert len(run_headway("caption", "exportable/hf", "a.png")[0].split("\t")) == 2


def test_wrong_input_is_refused_with_its_location(run_headway, working_folder):
    assert (
        "has no captions in the language 'fr'"
        in run_headway("caption", "runs/c", "a.png", "--language", "fr", code=2)[1]
    )
    assert "no such file" in run_headway("caption", "runs/c", "nowhere.png", code=2)[1]
    assert "the images are missing" in run_headway("caption", "runs/c", code=2)[1]
    assert "top=5" in run_headway("caption", "runs/c", "a.png", "--top", "5", code=2)[1]
    (working_folder / "bad.tsv").write_text("image\ten\tde\np/0.png\tx\ty\np/99.png\tx\ty\n")
    stderr = run_headway("eval", "runs/c", "bad.tsv", code=3)[1]
    assert "no such image file" in stderr and "bad.tsv:3" in stderr
    np.savez(working_folder / "two.npz", images=np.zeros((2, 8, 8, 3), np.uint8))
    words = ["train", "caption", "c.tsv", "--data.images", "two.npz", "--data.text", "en"]
    stderr = run_headway(*words, "--run", "never", code=3)[1]
    assert "20 rows" in stderr and "2 images" in stderr and "c.tsv:4" in stderr
    assert not (working_folder / "runs" / "never").exists()
    assert "holds a captioner" in run_headway("classify", "runs/c", "a.png", code=2)[1]


def test_the_worst_captions_are_shown_with_their_references(run_headway):
    out = run_headway("eval", "runs/c", "--worst", "1")[0]
    for part in ("output      ", "references  "):
        assert out.count(part) == 2, part  # one for each language
    rows = json.loads(run_headway("eval", "runs/c", "--worst", "2", "--json")[0])["languages"]
    scores = [failure["cider"] for failure in rows[0]["worst"]]
    assert len(scores) == 2 and scores == sorted(scores)
    assert set(rows[0]["worst"][0]) == {"image", "cider", "output", "references"}
