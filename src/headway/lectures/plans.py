"""The built-in plans of `headway compare`: the comparisons of the lectures.

They train on Multi30k English-German if DATA is not set; docs/log/results.md has the tables.
"""

from collections.abc import Mapping

from headway.comparisons.plans import Plan, Variant

RECIPE = "translate-multi30k"


# Sixteen epochs: twenty minutes on one core for a Transformer.
COMMON: Mapping[str, object] = {
    "training.tokens": 2048,
    "training.steps": 4000,
    "optimizer.kind": "adamw",  # which trains recurrent models, too
    "optimizer.lr": 3e-3,
    "schedule.kind": "cosine",
    "schedule.warmup": 600,
    "schedule.final": 0.02,
    "evaluation.every": 1000,
    "evaluation.samples": 0,
    "checkpoint.keep": 1,
}
# A smaller model and three epochs for comparisons of many variants: two minutes each.
SHORT: Mapping[str, object] = {
    **COMMON,
    "data.vocabulary": 4000,
    "model.encoder_layers": 2,
    "model.decoder_layers": 2,
    "training.steps": 800,
    "schedule.warmup": 200,
    "evaluation.every": 400,
}


def _plan(title: str, common: Mapping[str, object], **variants: Mapping[str, object]) -> Plan:
    rows = tuple(Variant(name.replace("_", "-"), changes) for name, changes in variants.items())
    return Plan(RECIPE, rows, common, title)


RNN: Mapping[str, object] = {"model.size": "rnn"}

PLANS: dict[str, Plan] = {
    "ladder": _plan(
        "RNN, RNN with attention, Transformer",
        COMMON,
        rnn={**RNN, "model.attention": "none"},
        rnn_attention=dict(RNN),
        transformer={},
    ),
    "scores": _plan(
        "Scoring functions",
        SHORT,
        scaled_dot={},
        dot={"model.attention": "dot"},
        bilinear={"model.attention": "bilinear"},
        additive={"model.attention": "additive"},
        linear={"model.attention": "linear"},
        linear_elu={"model.attention": "linear-elu"},
        window={"model.attention": "window"},
    ),
    "positions": _plan(
        "Position schemes",
        SHORT,
        none={"model.positions": "none"},
        sinusoidal={},
        learned={"model.positions": "learned"},
        rotary={"model.positions": "rotary"},
        alibi={"model.positions": "alibi"},
        relative={"model.positions": "relative"},
        concatenated={
            "model.position_dim": 32,
            "model.tie_output": False,
            "model.share_embeddings": False,
        },
    ),
    "extrapolation": _plan(
        "Trained on short sentences",
        {**SHORT, "data.max_length": 16},
        none={"model.positions": "none"},
        sinusoidal={},
        learned={"model.positions": "learned", "model.max_length": 256},
        rotary={"model.positions": "rotary"},
        alibi={"model.positions": "alibi"},
        relative={"model.positions": "relative"},
    ),
    "heads": _plan(
        "Heads at one width",
        SHORT,
        **{f"heads_{h}": {"model.num_heads": h} for h in (1, 2, 4, 8)},
    ),
    "depth": _plan(
        "Depth",
        SHORT,
        **{
            f"layers_{n}": {"model.encoder_layers": n, "model.decoder_layers": n}
            for n in (1, 2, 4, 6)
        },
    ),
}
"""Name -> plan: RNN, RNN with attention and Transformer; attention scores; position encodings;
position encodings beyond the length of training; number of heads at the same width; depth.
"""
