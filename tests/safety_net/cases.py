"""The table of runs: recipe, data, sizes, evaluation and prediction of each.

When the names of recipes or settings change, this table changes; the records stay.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Case:
    """One run, its evaluation and its prediction. Paths are relative to the tiny data's folder.

    train: the arguments of `headway train`, without --run, which is the case's name.
    evaluation: those of `headway eval` after the run; None where `eval` cannot judge the model.
    prediction: a command that predicts once; {run} is replaced by the run's folder.
    after: the cases whose models it starts from.
    before: commands that are run first.
    diverges: whether rounding on another machine leads to other scores: of long runs at a high
        rate. Their training losses alone are then compared, roughly.
    """

    recipe: str
    train: tuple[str, ...]
    evaluation: tuple[str, ...] | None = ()
    prediction: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    before: tuple[tuple[str, ...], ...] = ()
    diverges: bool = False


def words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


MACHINE = words("--seed 42 --threads 1 --device cpu")
LOOP = (*words("--steps 20 --evaluation.every 10 --checkpoint.every 20"), *MACHINE)
QUICK = words("--schedule.warmup 4")
TRANSLATOR = (
    *words("--model.model-dim 24 --model.num-heads 3 --model.ffn-dim 40 --model.encoder-layers 1"),
    *words("--model.decoder-layers 2 --data.vocabulary 300 --training.tokens 220"),
    *words("--evaluation.sentences 6"),
)
GPT = (
    *words("--model.model-dim 24 --model.num-heads 2 --model.num-kv-heads 1 --model.ffn-dim 40"),
    *words("--model.num-layers 2 --training.batch-size 4 --training.length 24"),
    *words("--evaluation.sample 8 --evaluation.tokens 400"),
)
BERT = (
    *words("--model.model-dim 24 --model.num-heads 3 --model.ffn-dim 40 --model.num-layers 2"),
    *words("--data.vocabulary 160 --data.split line --data.held-out 0.2 --evaluation.sequences 20"),
    *words("--training.batch-size 6 --training.length 32"),
)
HELD_OUT = words("--data.held-out 0.25")
FINE_TUNING = words("--training.batch-size 8")
WINDOWS = words("--data.window 32 --data.stride 8")
STUDENT = (*words("--data.held-out 0.25 --training.batch-size 8 --model.num-layers 1"), *QUICK)
VIT = (
    *words("--model.model-dim 24 --model.num-heads 3 --model.ffn-dim 40 --model.num-layers 2"),
    *words("--training.batch-size 6 --data.held-out 0.3"),
)
CAPTIONER = (
    *words("--model.vit.model-dim 24 --model.vit.num-heads 3 --model.vit.ffn-dim 40"),
    *words("--model.vit.num-layers 1 --model.gpt.model-dim 32 --model.gpt.num-heads 4"),
    *words("--model.gpt.ffn-dim 40 --model.gpt.num-layers 1 --training.batch-size 6"),
    *words("--data.vocabulary 290"),
)
SEEING = (
    *words("--model.vit.model-dim 24 --model.vit.num-heads 3 --model.vit.ffn-dim 40"),
    *words("--model.vit.num-layers 1 --model.vit.patch-size 4 --model.model-dim 32"),
    *words("--model.num-heads 4 --model.ffn-dim 40 --model.num-layers 1 --data.vocabulary 290"),
    *words("--training.batch-size 6 --evaluation.conversations 6 --evaluation.sample 1"),
)
LEARNED = (
    *words("--steps 60 --evaluation.every 20 --checkpoint.every 500 --optimizer.lr 1e-2"),
    *MACHINE,
)
"""More steps and a higher rate, for scores and predictions that are neither 0 nor chance."""
TWO_STAGES = ("--distillation.first-stage", "0.5")
HF_ENCODER = "hf-encoder"
SENTENCE = "the fox sees the lemon"
STORY = "waits in a shed Cleo Quinn sings in the lake"
TRANSLATE = ("translate", "{run}", SENTENCE, "the old dog likes the tree", "--nbest", "2", "--json")
GENERATE = (
    *("generate", "{run}", "The fox", "--max-tokens", "8", "--seed", "3", "--samples", "2"),
    *("--alternatives", "2", "--json"),
)
FILL = ("fill", "{run}", "The [MASK] sees [MASK] lemon .", "--top", "3", "--json")
PAIR = ("classify", "{run}", "the toad is at home", "--second", "it is alive", "--json")
CLASSIFY = ("classify", "{run}", "the toad is at home", "one rake near us", "--json")
TAG = ("tag", "{run}", "in the lake Zoë Thorn waits .", "a red barn", "--json")
ANSWER = ("answer", "{run}", "who is there ?", "--context", STORY)
ANSWER = (*ANSWER, "--top", "3", "--json")
EMBED = ("embed", "{run}", "the toad is at home", "--json")
IMAGES = ("dark.png", "light.png")


def pairs(recipe: str, *more: str) -> Case:
    """A translator."""
    languages = ("--source", "en", "--target", "de")
    train = ("pairs", *languages, *TRANSLATOR, *QUICK, *LOOP, *more)
    return Case(recipe, train, ("--beam", "2"), TRANSLATE)


def tuned(
    recipe: str, data: str, prediction: tuple[str, ...], *more: str, start: str = "bert-tiny"
) -> Case:
    """A model that starts from the run of another case."""
    train = (data, "--from", f"runs/{start}", *HELD_OUT, *FINE_TUNING, *LOOP, *more)
    return Case(recipe, train, (), prediction, (start,))


def student(
    data: str,
    teacher: str,
    prediction: tuple[str, ...],
    *more: str,
    evaluation: tuple[str, ...] | None = (),
    after: tuple[str, ...] = (),
) -> Case:
    """A student of the run of another case."""
    train = (data, "--teacher", f"runs/{teacher}", *STUDENT, *LOOP, *more)
    return Case("distil", train, evaluation, prediction, (teacher, *after))


def language(recipe: str, *more: str, after: tuple[str, ...] = ()) -> Case:
    """A language model; `headway eval` does not judge these."""
    return Case(recipe, ("text.txt", *more, *QUICK, *LOOP), None, GENERATE, after)


def encoder(recipe: str, *more: str) -> Case:
    """An encoder that is pre-trained from scratch."""
    return Case(recipe, ("text.txt", *BERT, *QUICK, *LOOP, *more), (), FILL)


def images(
    recipe: str, data: str, prediction: tuple[str, ...], *more: str, after: tuple[str, ...] = ()
) -> Case:
    """A model of images."""
    return Case(recipe, (data, *QUICK, *LOOP, *more), (), prediction, after)


_CASES: dict[str, Case] = {
    # translation
    "translate": pairs("translate"),
    "translate-multi30k": pairs("translate-multi30k"),
    "emoji-names": Case(
        "emoji-names",
        ("names.tsv", "--source", "en", "--target", "xx", *TRANSLATOR, *QUICK, *LOOP),
        ("pairs/test.tsv", "--source", "en", "--target", "de", "--beam", "2"),
        TRANSLATE,
    ),
    "text-to-text": pairs("text-to-text"),
    "span-corruption": Case(
        "span-corruption",
        ("text.txt", *(word.replace("300", "400") for word in TRANSLATOR), *QUICK, *LOOP),
        (),
        TRANSLATE,
    ),
    "text-to-text-tuned": Case(
        "text-to-text",
        (
            *words("pairs --source en --target de --from runs/span-corruption"),
            *words("--training.tokens 220 --evaluation.sentences 6"),
            *QUICK,
            *LOOP,
        ),
        ("--beam", "2"),
        TRANSLATE,
        ("span-corruption",),
    ),
    "translate-rnn": pairs(
        "translate",
        *words("--model.encoder rnn --model.decoder rnn --model.attention additive"),
        *words("--data.joint false --model.share-embeddings false"),
    ),
    "translate-learned": pairs(
        "translate",
        *LEARNED,
        *words("--training.average 0 --evaluation.metric chrf --steps 100 --training.tokens 800"),
    ),
    # word vectors
    "words": Case(
        "words",
        (
            *words("text.txt --data.min-count 1 --model.dim 6 --training.batch-size 64"),
            *words("--data.held-out 0.1 --training.subsample 0.2"),
            *QUICK,
            *LOOP,
        ),
        None,
        ("words", "nearest", "{run}", "fox", "--count", "4", "--json"),
    ),
    "words-cbow": Case(
        "words",
        (
            *words("text.txt --model.kind cbow --data.min-count 1 --model.dim 6"),
            *words("--training.batch-size 64 --data.held-out 0.1"),
            *QUICK,
            *LOOP,
        ),
        None,
        ("words", "analogy", "{run}", "fox", "owl", "sees", "--json"),
    ),
    # language models
    "gpt": language("gpt", *GPT, "--data.vocabulary", "280"),
    "gpt-tiny": language("gpt-tiny", *GPT, "--data.vocabulary", "280"),
    "gpt-shakespeare": language(
        "gpt-shakespeare", *GPT, "--model.num-kv-heads", "none", "--valid", "held-out.txt"
    ),
    "gpt-lora": language(
        "gpt-tiny",
        *words("--from runs/gpt-tiny --lora.rank 2 --training.batch-size 4 --training.length 24"),
        *words("--evaluation.sample 0"),
        after=("gpt-tiny",),
    ),
    "chat": Case(
        "chat",
        (
            *words("dialogues.jsonl --from runs/gpt-tiny --training.batch-size 4"),
            *words("--training.length 48 --evaluation.answers 4 --evaluation.sample 1"),
            *HELD_OUT,
            *QUICK,
            *LOOP,
        ),
        (),
        GENERATE,
        ("gpt-tiny",),
    ),
    "prefer": Case(
        "prefer",
        (
            *words("preferences.jsonl --from runs/chat --training.batch-size 4"),
            *words("--evaluation.answers 4 --evaluation.sample 1 --evaluation.tokens 8"),
            *HELD_OUT,
            *QUICK,
            *LOOP,
        ),
        (),
        GENERATE,
        ("chat",),
    ),
    "reward": Case(
        "reward",
        (
            *words("problems.jsonl --from runs/chat --training.batch-size 4 --objective.samples 3"),
            *words("--objective.tokens 8 --data.reward words --evaluation.prompts 6"),
            *words("--evaluation.groups 2 --evaluation.sample 1"),
            *HELD_OUT,
            *QUICK,
            *LOOP,
        ),
        (),
        GENERATE,
        ("chat",),
    ),
    "see": Case("see", ("seen.jsonl", *SEEING, *HELD_OUT, *QUICK, *LOOP), (), GENERATE),
    "see-from-halves": Case(
        "see",
        (
            *words("seen.jsonl --from runs/gpt-tiny --from-encoder runs/vision"),
            *words("--training.batch-size 6 --training.frozen true --evaluation.conversations 6"),
            *HELD_OUT,
            *QUICK,
            *LOOP,
        ),
        (),
        GENERATE,
        ("gpt-tiny", "vision"),
    ),
    # encoders
    "bert": encoder("bert"),
    "bert-tiny": encoder("bert-tiny"),
    "roberta": encoder("roberta"),
    "bert-domain": Case(
        "bert-domain",
        (
            *words("domain.txt --from runs/bert-tiny --data.new-tokens 4 --data.split line"),
            *words("--data.held-out 0.2 --evaluation.sequences 20 --evaluation.sentences 4"),
            *words("--training.batch-size 6 --training.length 32"),
            *QUICK,
            *LOOP,
        ),
        ("--sentences", "6"),
        FILL,
        ("bert-tiny",),
    ),
    HF_ENCODER: encoder(
        "bert-tiny", *words("--model.positions learned --model.norm post --model.dropout 0.1")
    ),
    "bert-of-two-texts": Case(
        "bert-tiny",
        ("text.txt", "domain.txt", *BERT, *QUICK, *LOOP, *words("--training.mixed 1")),
        (),
        FILL,
    ),
    # from an encoder or a language model
    "classify": tuned("classify", "classes.tsv", CLASSIFY),
    "classify-gpt": tuned("classify", "classes.tsv", CLASSIFY, start="gpt-tiny"),
    "pairs": tuned("pairs", "pair-classes.tsv", PAIR),
    "regress": tuned("regress", "numbers.tsv", CLASSIFY),
    "tag": tuned("tag", "tags.conll", TAG, *QUICK),
    "tag-from-hf": Case(
        "tag",
        ("tags.conll", "--from", f"runs/{HF_ENCODER}/hf", *HELD_OUT, *FINE_TUNING, *QUICK, *LOOP),
        (),
        TAG,
        (HF_ENCODER,),
        (("export", f"runs/{HF_ENCODER}", "--to", "hf"),),
    ),
    "answer": tuned(
        "answer",
        "questions.json",
        ANSWER,
        *WINDOWS,
        *QUICK,
    ),
    "embed": tuned("embed", "similar.tsv", EMBED, *QUICK),
    "embed-scored": tuned("embed", "similar-scored.tsv", EMBED, *QUICK, "--data.held-out", "0.5"),
    "classify-learned": tuned("classify", "classes.tsv", CLASSIFY, *LEARNED, "--steps", "30"),
    "pairs-learned": tuned("pairs", "pair-classes.tsv", PAIR, *LEARNED, "--steps", "40"),
    "regress-learned": tuned("regress", "numbers.tsv", CLASSIFY, *LEARNED),
    "tag-learned": tuned("tag", "tags.conll", TAG, *QUICK, *LEARNED),
    "answer-learned": tuned("answer", "questions.json", ANSWER, *WINDOWS, *QUICK, *LEARNED),
    "classify-varied": tuned(
        "classify",
        "classes.tsv",
        CLASSIFY,
        *words("--training.frozen 1 --training.accumulate 2 --training.balance true"),
        *words("--optimizer.layer_decay 0.8 --training.recompute true --model.pooling first"),
    ),
    "tag-by-epochs": tuned(
        "tag",
        "tags.conll",
        TAG,
        *words("--steps none --epochs 3 --training.average 0.9 --data.max-length 8"),
    ),
    # students
    "distil": student("classes.tsv", "classify-learned", CLASSIFY, "--data.augment", "1"),
    "distil-tag": student("tags.conll", "tag-learned", TAG, *TWO_STAGES),
    "distil-answer": student("questions.json", "answer-learned", ANSWER, *TWO_STAGES),
    "distil-gpt": student(
        "text.txt",
        "gpt-tiny",
        GENERATE,
        *words("--training.length 24 --data.held-out 0.1 --evaluation.sample 8"),
        *TWO_STAGES,
        evaluation=None,
    ),
    "distil-encoder": student(
        "text.txt",
        "bert-tiny",
        EMBED,
        *words("--training.length 32 --data.split line --evaluation.sequences 20"),
        evaluation=("similar.tsv",),
    ),
    "distil-second-stage": student(
        "classes.tsv",
        "classify-learned",
        CLASSIFY,
        *words("--training.student runs/distil-encoder --distillation.embedding 1"),
        *words("--distillation.hidden 1 --distillation.attention 1"),
        after=("distil-encoder",),
    ),
    # images and sounds
    "vision": images("vision", "images", ("classify", "{run}", *IMAGES, "--json"), *VIT),
    "vision-digits": images(
        "vision-digits", "images", ("classify", "{run}", *IMAGES, "--json"), *VIT
    ),
    "vision-from-dino": images(
        "vision",
        "images",
        ("classify", "{run}", *IMAGES, "--json"),
        *words("--from runs/dino --training.batch-size 6 --data.held-out 0.3"),
        after=("dino",),
    ),
    "vision-varied": images(
        "vision",
        "images",
        ("embed", "{run}", *IMAGES, "--json"),
        *VIT,
        *words("--model.pooling both --model.registers 2 --model.projection pca"),
        *words("--augmentation.mixup 0.4 --augmentation.crop 0.5 --augmentation.colour 0.3"),
        *words("--optimizer.kind adamw --model.positions learned"),
    ),
    "sound": images("sound", "sounds", ("classify", "{run}", "sounds/low/3.wav", "--json"), *VIT),
    "dino": images(
        "dino",
        "images",
        ("embed", "{run}", *IMAGES, "--json"),
        *VIT,
        *words(
            "--model.hidden-dim 16 --model.bottleneck 8 --model.prototypes 12 --views.local-crops 2"
        ),
        *words("--evaluation.neighbours 3"),
    ),
    "caption": images(
        "caption", "captions.tsv", ("caption", "{run}", *IMAGES, "--top", "2", "--json"), *CAPTIONER
    ),
    "transcribe": images(
        "transcribe",
        "recordings.tsv",
        ("caption", "{run}", "sounds/low/3.wav", "--json"),
        *CAPTIONER,
    ),
    "speech": Case(
        "speech",
        (
            *words("recordings.tsv --from whisper --data.sound image --data.text caption"),
            *words("--data.language en --data.held-out 0.4 --training.batch-size 6"),
            *words("--evaluation.recordings 4 --evaluation.sample 1"),
            *QUICK,
            *LOOP,
        ),
        ("--recordings", "4"),
        words("transcribe {run} sounds/low/3.wav --language en --json"),
    ),
    "caption-learned": Case(
        "caption",
        ("captions.tsv", *QUICK, *LEARNED, *CAPTIONER, "--training.average", "0"),
        (),
        ("caption", "{run}", *IMAGES, "--top", "2", "--json"),
    ),
    "caption-from-halves": Case(
        "caption",
        (
            *words("captions.tsv --from-encoder runs/vision --from-decoder runs/gpt-tiny"),
            *words("--training.batch-size 6 --training.frozen true"),
            *QUICK,
            *LOOP,
        ),
        (),
        ("caption", "{run}", *IMAGES, "--beam", "1", "--json"),
        ("vision", "gpt-tiny"),
    ),
    "caption-emoji": images(
        "caption-emoji",
        "captions.tsv",
        ("caption", "{run}", "dark.png", "--language", "fr,de", "--json"),
        *words("--data.images captions.npz"),
        *CAPTIONER,
    ),
}

DIVERGING = {
    *("embed-scored", "translate-learned", "classify-learned", "pairs-learned", "regress-learned"),
    *("tag-learned", "answer-learned", "caption-learned", "distil", "distil-tag", "distil-answer"),
    *("distil-second-stage", "tag-by-epochs"),
}
"""Long runs at a high rate, students of such, and ranks of nearly equal numbers."""
CASES = {name: replace(case, diverges=name in DIVERGING) for name, case in _CASES.items()}
"""Name -> run. Every name of the catalogue of recipes is here; others vary one of them."""

QUICK_CASES = ("translate", "gpt-tiny", "tag")
"""Those that every test run compares; the others are `slow`."""


def data_files(name: str) -> set[str]:
    """Files and folders of the tiny data that the command lines of a case name."""
    case = CASES[name]
    every = [*case.train, *(case.evaluation or ()), *case.prediction]
    return {word.split("/")[0] for word in every}


def with_prerequisites(names: Iterable[str]) -> list[str]:
    """The cases of these names and of all that they start from, each after what it starts from."""
    ordered: dict[str, None] = {}
    for name in names:
        ordered |= dict.fromkeys([*with_prerequisites(CASES[name].after), name])
    return list(ordered)


def chosen_cases(names: Sequence[str]) -> list[str]:
    """These cases, or all if there is no name. SystemExit for a name that is unknown."""
    if unknown := [name for name in names if name not in CASES]:
        raise SystemExit(f"unknown case {unknown[0]!r}; cases: {', '.join(CASES)}")
    return list(names or CASES)
