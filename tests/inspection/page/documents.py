"""Documents to look at: invented sentences, and maps of the shapes that trained heads take."""

import math

import numpy as np
import torch

from headway.inspection.document import (
    Attribution,
    Document,
    Frame,
    Guess,
    Leaf,
    Lens,
    Maps,
    Numbers,
    Side,
    Step,
    Vectors,
)

ENGLISH = [
    "[CLS]",
    "The",
    "old",
    "light",
    "##house",
    "keeper",
    "counted",
    "the",
    "ships",
    ",",
    "and",
    "then",
    "he",
    "slept",
    ".",
    "[SEP]",
]
WORDS = [[0], [1], [2], [3, 4], [5], [6], [7], [8], [9], [10], [11], [12], [13], [14], [15]]
SOURCE = ["the", "keeper", "saw", "three", "ships", "in", "the", "fog"]
TARGET = ["le", "gardien", "vit", "trois", "bateaux", "dans", "la", "brume", "."]
HOSTILE = [
    "<script>document.title='owned'</script>",
    "</script><img src=x onerror=alert(1)>",
    "שלום",
    "مرحبا",
    "👩‍👩‍👧‍👦",
    "\u202e reversed",
    "=1+1",
    "a\u0000b",
    "\ud800",
    "   ",
    "\n",
    "",
    "x" * 500,
    "]]><!--",
    "__proto__",
]


def softmax_of(scores: torch.Tensor, causal: bool) -> torch.Tensor:
    """Random scores as shares, the strictly later ones left out."""
    if causal:
        later = torch.ones(scores.shape[-2:]).triu(1).bool()
        scores = scores.masked_fill(later, -math.inf)
    return scores.softmax(-1)


def heads(layers, num_heads, queries, keys, *, causal=False, seed=0):
    """Heads that look at the token before, at the first, at themselves, at many, as real ones."""
    random = torch.Generator().manual_seed(seed)
    t, s = torch.arange(queries)[:, None], torch.arange(keys)[None]
    shapes = [
        -3.0 * (s - t + 1).abs(),
        5.0 * (s == 0).expand(queries, keys),
        -3.0 * (s - t * keys / queries).abs(),
        -0.02 * (s - t).abs(),
        -0.4 * (s - t).abs(),
    ]
    found = []
    for layer in range(layers):
        noise = torch.randn(num_heads, queries, keys, generator=random)
        kinds = [
            shapes[(layer + 2 * head) % len(shapes)].expand(queries, keys)
            for head in range(num_heads)
        ]
        found.append(softmax_of(torch.stack(kinds) + noise, causal))
    return found


NAMES = ("previous token", "first token", "itself", "broad", "local")


def looks(num_heads, queries, beside, seed=0):
    """Heads that look at the sun in a grid of 4 x 6, and a little at everything else."""
    random = torch.Generator().manual_seed(seed)
    scores = torch.randn(num_heads, queries, beside + 24, generator=random) / 2
    scores[..., beside + 6 + 4] += 2.5
    return scores.softmax(-1)


def kinds(layers, num_heads):
    """Scores of what `heads` made."""
    return [
        [
            {
                name: 0.9 - 0.02 * layer if (layer + 2 * head) % 5 == at else 0.1
                for at, name in enumerate(NAMES)
            }
            for head in range(num_heads)
        ]
        for layer in range(layers)
    ]


def vectors(num_heads, queries, keys, width=16, seed=0):
    """q and k, and the weights that follow from them."""
    random = torch.Generator().manual_seed(seed)
    q = torch.randn(num_heads, queries, width, generator=random) * 1.6
    k = torch.randn(num_heads, keys, width, generator=random)
    norms = torch.rand(num_heads, keys, generator=random) + 0.2
    return Vectors(q=q, k=k, norms=norms, scale=width**-0.5)


def encoder_frame(label="as trained", seed=0, layers=4, num_heads=6):
    """A reader of one sentence, with everything that a frame may hold."""
    n = len(ENGLISH)
    inside = [vectors(num_heads, n, n, seed=seed + at) for at in range(layers)]
    weights = heads(layers, num_heads, n, n, seed=seed)
    weights[0] = (inside[0].q @ inside[0].k.mT * inside[0].scale).softmax(-1)
    rolled = torch.stack([w.mean(0) for w in weights]).mean(0, keepdim=True)
    random = torch.Generator().manual_seed(seed)
    importance = (torch.rand(layers, num_heads, generator=random) - 0.3).tolist()
    common = {"name": "encoder", "queries": "sentence", "keys": "sentence"}
    names = [str(at + 1) for at in range(layers)]
    probable = torch.rand(layers + 1, n, 5, generator=random).sort(-1, descending=True).values / 3
    words = ["ships", "boats", "stars", "hours", "sheep"]
    place = {
        at: [Guess(place=t, tokens=words, probabilities=probable[at, t].tolist()) for t in range(n)]
        for at in range(layers + 1)
    }
    return Frame(
        label=label,
        model={"kind": "encoder", "layers": layers, "heads": num_heads, "parameters": 1_234_567},
        answer="he slept",
        sides={"sentence": Side(tokens=ENGLISH, words=WORDS)},
        maps=[
            Maps(
                **common,
                layers=names,
                weights=weights,
                kinds=kinds(layers, num_heads),
                vectors=inside,
            ),
            Maps(
                **common,
                layers=names,
                weights=[w * 3 for w in weights],
                measure="value-weighted",
                normalised=False,
            ),
            Maps(**common, layers=["all"], weights=[rolled], measure="rollout"),
        ],
        guesses=[
            Guess(place=t, tokens=words, probabilities=probable[-1, t].tolist()) for t in (6, 8)
        ],
        guesses_side="sentence",
        lens=Lens(
            side="sentence",
            layers=["embedding", *names],
            guesses=[place[at] for at in range(layers + 1)],
        ),
        attributions=[
            Attribution(
                measure="gradient x input",
                side="sentence",
                of=of,
                scores=torch.randn(n, generator=random).tolist(),
            )
            for of in ("“ships”", "“slept”")
        ],
        metric="log probability",
        importance={"encoder": importance},
    )


def translator_frame(label="beam 1", seed=3):
    """A translation with its cross attention and its search."""
    s, t = len(SOURCE), len(TARGET)
    beam = [Leaf(parent=None, token="<s>", log_probability=0.0, kept=True, chosen=True)]
    last = 0
    for at, word in enumerate(TARGET):
        for other, rank in ((word, 0), ("un" if at % 2 else "et", 1), ("…", 2)):
            beam.append(
                Leaf(
                    parent=last,
                    token=other,
                    log_probability=-0.3 * at - rank,
                    kept=rank < 2,
                    chosen=rank == 0,
                )
            )
        last = len(beam) - 3
    return Frame(
        label=label,
        model={"kind": "translator", "layers": 3},
        answer=" ".join(TARGET),
        sides={"source": Side(tokens=SOURCE), "target": Side(tokens=TARGET)},
        maps=[
            Maps(
                name="encoder",
                queries="source",
                keys="source",
                layers=["1", "2", "3"],
                weights=heads(3, 4, s, s, seed=seed + 1),
            ),
            Maps(
                name="cross",
                queries="target",
                keys="source",
                layers=["1", "2", "3"],
                weights=heads(3, 4, t, s, seed=seed),
            ),
            Maps(
                name="decoder",
                queries="target",
                keys="target",
                layers=["1", "2", "3"],
                causal=True,
                weights=heads(3, 4, t, t, causal=True, seed=seed + 2),
            ),
        ],
        beam=beam,
    )


def picture():
    """A sea, a sky and a sun."""
    y, x = np.mgrid[0:66, 0:90]
    sky = np.stack([120 + y, 170 + y // 2, 230 - y // 2], -1)
    sea = np.stack([20 + 0 * y, 70 + 10 * np.sin(x / 3), 120 + y // 2], -1)
    made = np.where((y > 40)[..., None], sea, sky)
    made[(y - 18) ** 2 + (x - 64) ** 2 < 90] = (255, 214, 90)
    return np.clip(made, 0, 255).astype(np.uint8)


def image_frame(label="a picture"):
    """A ViT: [CLS], a register and 4 x 6 patches that cover 60 x 90 of 66 x 90 pixels."""
    names = ["[CLS]", "[REG]", *[f"patch {at}" for at in range(24)]]
    side = Side(tokens=names, picture=picture(), grid=(4, 6), reach=(60, 90), beside=2)
    weights = [looks(3, 26, 2, seed=at) for at in range(2)]
    maps = [
        Maps(name="encoder", queries="picture", keys="picture", layers=["1", "2"], weights=weights)
    ]
    return Frame(
        label=label, model={"kind": "vit"}, answer="sea", sides={"picture": side}, maps=maps
    )


def caption_frame(label="a caption"):
    """Words that look at a picture."""
    words = ["a", "sun", "over", "the", "sea"]
    names = [f"patch {at}" for at in range(24)]
    sides = {
        "words": Side(tokens=words),
        "picture": Side(tokens=names, picture=picture(), grid=(4, 6)),
    }
    maps = [
        Maps(
            name="cross",
            queries="words",
            keys="picture",
            layers=["1"],
            weights=[looks(2, 5, 0, seed=9)],
        )
    ]
    return Frame(
        label=label, model={"kind": "captioner"}, answer=" ".join(words), sides=sides, maps=maps
    )


def walk():
    """Two steps with numbers."""
    random = torch.Generator().manual_seed(4)
    matrix = torch.randn(5, 8, generator=random)
    return [
        Step(
            title="Embedding",
            text="Each token is a row of a table: 64 numbers, of which the first eight are shown.",
            equation="x_i = E[w_i]",
            source="blocks/embeddings.py:40",
            arrays=[Numbers(name="x", values=matrix, shape=(15, 64), rows=ENGLISH[:5])],
        ),
        Step(
            title="Weights",
            text="Softmax makes shares of the scores.",
            equation="A = softmax(Q Kᵀ / √d)",
            source="attention/dot.py:30",
            arrays=[
                Numbers(
                    name="A",
                    values=(matrix @ matrix.mT).softmax(-1),
                    shape=(5, 5),
                    rows=ENGLISH[:5],
                    columns=ENGLISH[:5],
                )
            ],
        ),
    ]


def report():
    """Curves and samples of a training."""
    steps = list(range(0, 1000, 20))
    loss = [7 * math.exp(-step / 250) + 1.2 for step in steps]
    return {
        "curves": [
            {
                "title": "Loss",
                "lines": [
                    {"name": "training", "steps": steps, "values": loss},
                    {
                        "name": "validation",
                        "steps": steps[::5],
                        "values": [v + 0.3 for v in loss[::5]],
                    },
                ],
            },
            {
                "title": "BLEU",
                "lines": [
                    {
                        "name": "BLEU",
                        "steps": steps[::5],
                        "values": [30 - 28 * math.exp(-s / 300) for s in steps[::5]],
                    }
                ],
            },
        ],
        "samples": [
            {
                "step": s,
                "items": [
                    {
                        "input": " ".join(SOURCE),
                        "output": " ".join(TARGET[:n]),
                        "reference": " ".join(TARGET),
                    }
                ],
            }
            for s, n in ((100, 1), (500, 4), (980, 8))
        ],
        "config": {"model.size": "tiny", "optimizer.lr": 0.0003},
        "data": {"sentences": 12000},
        "result": {"BLEU": 28.4},
    }


def everything():
    """All kinds of frames in one document."""
    frames = [encoder_frame(f"step {n}00", seed=n) for n in (1, 4, 9)]
    return Document(
        title="The keeper and the ships",
        frames=[
            *frames,
            translator_frame(),
            translator_frame("beam 2", seed=8),
            image_frame(),
            caption_frame(),
        ],
        walk=walk(),
        notes=["Invented for looking at the page."],
    )


def hostile():
    """What strangers put into tokens."""
    n = len(HOSTILE)
    side = Side(tokens=HOSTILE, words=[[at] for at in range(n)])
    maps = [
        Maps(
            name="<b>encoder</b>",
            queries="<i>",
            keys="<i>",
            layers=["<u>1"],
            weights=heads(1, 2, n, n),
        )
    ]
    guess = Guess(place=0, tokens=HOSTILE[:3], probabilities=[0.5, 0.3, 0.1])
    frame = Frame(
        label=HOSTILE[0],
        model={"<b>": HOSTILE[1]},
        answer=HOSTILE[1],
        sides={"<i>": side},
        maps=maps,
        guesses=[guess],
        guesses_side="<i>",
    )
    return Document(title=HOSTILE[0], frames=[frame], notes=[HOSTILE[1]])
