"""`python -m bench.emoji`: "What is this?" about emoji, a multimodal GPT beside a captioner.

Both learn the same images, the same names in three languages and the same held-out images: the
captioner from the table of the recipe caption-emoji, the GPT from conversations about it. Both
write their best guess greedily; the captioner also by beam search.

    python -m bench.emoji --write FOLDER     the conversations, for `headway train see FOLDER`
    python -m bench.emoji RUN ...            scores of runs of caption-emoji and of see
"""

import argparse
import json
from collections.abc import Callable, Sequence
from pathlib import Path

from PIL import Image

import headway
from headway.base.chunks import chunks
from headway.base.files import write_file
from headway.base.folders import new_folder
from headway.decoding import GenerationConfig, generate_from_tokens
from headway.evaluation import score_against_several
from headway.tasks.captioning.caption_files import CaptionedImage
from headway.tasks.captioning.cider import cider_d
from headway.tasks.captioning.config import caption_emoji
from headway.tasks.captioning.data import SPLITS, captioned_images
from headway.tasks.captioning.model import CaptionerBundle
from headway.tasks.seeing.model import MultimodalBundle, asked

QUESTIONS = {"en": "What is this?", "fr": "Qu'est-ce que c'est ?", "de": "Was ist das?"}
BEAM, ROWS = 4, 32

Naming = Callable[[Sequence[CaptionedImage], str], list[str]]
"""Names images in a language."""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.emoji", description=__doc__)
    parser.add_argument("runs", type=Path, nargs="*")
    parser.add_argument("--write", type=Path, help="new folder for the conversations")
    options = parser.parse_args()
    splits = captioned_images(caption_emoji().data)
    if options.write:
        write_conversations(splits, options.write)
    for run in options.runs:
        for title, name_all in ways(run).items():
            for language in QUESTIONS:
                print(f"{title:40} {scored(splits['valid'], language, name_all)}", flush=True)


def write_conversations(splits: dict[str, list[CaptionedImage]], folder: Path) -> None:
    """Write each image as a file, and each of its names as the answer to a question about it."""
    with new_folder(folder) as temporary:
        for split in SPLITS:
            (temporary / split).mkdir()
            lines = []
            for number, one in enumerate(splits[split]):
                path = f"{split}/{number}.png"
                Image.fromarray(one.image.pixels()).save(temporary / path)
                for language, question in QUESTIONS.items():
                    shown = {"type": "image", "path": path}
                    content = [shown, {"type": "text", "text": question}]
                    messages = [
                        {"role": "user", "content": content},
                        {"role": "assistant", "content": one.captions[language][0]},
                    ]
                    lines.append(json.dumps({"messages": messages, "kind": language}) + "\n")
            write_file(temporary / f"{split}.jsonl", "".join(lines).encode())


def ways(run: Path) -> dict[str, Naming]:
    """Return the ways in which a trained model names images."""
    bundle = headway.load(run)
    if isinstance(bundle, CaptionerBundle):

        def captions(beam: int) -> Naming:
            return lambda shown, language: bundle.caption(
                [one.image.pixels() for one in shown], language=language, beam=beam
            )

        return {f"{run}, greedy": captions(1), f"{run}, beam {BEAM}": captions(BEAM)}
    assert isinstance(bundle, MultimodalBundle), f"{run} must be a run of caption-emoji or of see"

    def answers(shown: Sequence[CaptionedImage], language: str) -> list[str]:
        return [text for part in chunks(shown, ROWS) for text in answered(bundle, part, language)]

    return {f"{run}, greedy": answers}


def answered(bundle: MultimodalBundle, shown: Sequence[CaptionedImage], language: str) -> list[str]:
    """Return the answers to the question about images, as `MultimodalBundle.answer` does."""
    pixels = [one.image.pixels() for one in shown]
    prompts = [bundle.prompt([asked(QUESTIONS[language], [image])]) for image in pixels]
    seeing, config = bundle.with_images(pixels), GenerationConfig(temperature=0.0)
    outputs = generate_from_tokens(seeing.model, bundle.tokenizer, prompts, config)
    return [output[0].text.strip() for output in outputs]


def scored(shown: Sequence[CaptionedImage], language: str, name_all: Naming) -> str:
    """Return the scores of the names of images in a language, as one line."""
    outputs, references = name_all(shown, language), [one.captions[language] for one in shown]
    is_exact = [name.strip() in right for name, right in zip(outputs, references, strict=True)]
    ciders, corpus = cider_d(outputs, references), score_against_several(outputs, references)
    return (
        f"{language}   {sum(is_exact) / len(shown):.3f} exact   "
        f"{sum(ciders) / len(shown):.2f} CIDEr-D   {corpus.bleu:.2f} BLEU   {corpus.chrf:.2f} chrF"
    )


if __name__ == "__main__":
    main()
