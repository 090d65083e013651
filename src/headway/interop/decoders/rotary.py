"""Rotary positions in config.json: `rope_parameters` of transformers 5, and the keys before it.

transformers 5 writes one object, or one for each type of layer. Older files have `rope_theta` and
`rope_scaling`, `partial_rotary_factor` at the top, or the names of GPT-NeoX. All are read; both
forms of the base are written, since other programs read the older one.
"""

import math
from collections.abc import Mapping

from headway.attention import RotaryScaling
from headway.base.errors import DataError
from headway.interop.config_fields import Key, Values
from headway.interop.hf_config import HFConfig
from headway.interop.ignored_keys import lost
from headway.models import GPTConfig

FULL, LOCAL = "full_attention", "sliding_attention"
_CONTAINERS = ("rope_scaling", "rope_parameters")
_OLD = {
    "rope_theta": ("rope_theta", "rotary_emb_base"),
    "partial_rotary_factor": ("partial_rotary_factor", "rotary_pct"),
    "original_max_position_embeddings": ("original_max_position_embeddings",),
}
"""Keys of the object -> keys at the top of older files."""
_KINDS = {
    "default": "none",
    "linear": "linear",
    "llama3": "llama3",
    "yarn": "yarn",
    "longrope": "longrope",
    "su": "longrope",
}
"""Their `rope_type` -> our kind of scaling; "su" is the first name of longrope."""
_NAMES = {ours: theirs for theirs, ours in reversed(_KINDS.items())}
_YARN_TURNS = 32.0


def _object(file: HFConfig, layer: str) -> HFConfig:
    """Return the keys of the rotary positions of a type of layer."""
    file.number("rope_theta", 10_000.0, low=1.0)
    values: dict[str, object] = {
        name: file.values[key] for name, keys in _OLD.items() for key in keys if key in file.values
    }
    where = "rope_theta"
    for container in _CONTAINERS:
        inner = file.values.get(container, {})
        if not isinstance(inner, dict):
            raise file.refusal(container, inner, "an object (names and values)")
        if any(isinstance(value, dict) for value in inner.values()):
            inner = inner.get(layer) or {}
        values |= {name: value for name, value in inner.items() if value is not None}
        where = container if inner else where
    if "type" in values:  # its name in transformers 4
        values.setdefault("rope_type", values.pop("type"))
    return HFConfig(values, f"{file.where} ({where})")


def base_of(file: HFConfig, layer: str, default: float) -> float:
    """Return the base of a type of layer; its positions must not be scaled otherwise."""
    rope = _object(file, layer)
    rope.must_be("rope_type", "default")
    return rope.number("rope_theta", default, low=1.0)


def _base(layer: str, default: float) -> Key:
    def read(file: HFConfig, fields: Values) -> float:
        return _object(file, layer).number("rope_theta", default, low=1.0)

    return Key("rope_theta", "rotary_base", read, lambda config: config.rotary_base)


def _fraction(default: float, name: str) -> Key:
    def read(file: HFConfig, fields: Values) -> float:
        return _object(file, FULL).number("partial_rotary_factor", default, high=1.0 + 1e-9)

    return Key(name, "rotary_fraction", read, lambda config: config.rotary_fraction)


def _scaling(file: HFConfig, fields: Values) -> RotaryScaling:
    rope = _object(file, FULL)
    kind = rope.choice("rope_type", _KINDS, "default")
    rope.values.get("rope_theta"), rope.values.get("partial_rotary_factor")
    longest = int(fields["max_length"])
    length = rope.whole("original_max_position_embeddings", longest)
    if kind == "none":  # an object without scaling may keep what has no effect
        return RotaryScaling()
    if kind != "longrope" and "factor" not in rope.values:
        raise DataError("the key factor is missing", rope.where)
    factor = rope.number("factor", max(1.0, longest / length), low=1e-9)
    settings: dict[str, object] = {"kind": kind, "factor": factor, "original_length": length}
    if kind == "llama3":
        low, high = rope.number("low_freq_factor", 1.0), rope.number("high_freq_factor", 4.0)
        settings |= {"low": low, "high": high}
    elif kind == "yarn":
        low, high = rope.number("beta_slow", 1.0), rope.number("beta_fast", _YARN_TURNS)
        whole = rope.flag("truncate", True)
        amplitude = rope.number("attention_factor", _yarn_amplitude(rope, factor), low=1e-9)
        settings |= {"low": low, "high": high, "whole_pairs": whole, "amplitude": amplitude}
    elif kind == "longrope":
        by_length = 1.0 if factor <= 1 else math.sqrt(1 + math.log(factor) / math.log(length))
        settings["amplitude"] = rope.number("attention_factor", by_length, low=1e-9)
        settings["pair_factors"] = _numbers(rope, "short_factor")
        settings["factor"] = factor
    rules = {
        "long_factor": lost(f"texts end at {length} tokens, for which short_factor is made"),
        "finetuned": lost("it says how the model was made", True, False),
    }
    rope.check_all_read(rules)
    return RotaryScaling(**settings)  # type: ignore[arg-type]


def scaling_or(default: Mapping[str, object]) -> Key:
    """The key of the scaling. default: the object that a file without one means."""

    def read(file: HFConfig, fields: Values) -> RotaryScaling:
        if not any(name in file.values for name in _CONTAINERS):
            file = HFConfig({**file.values, _CONTAINERS[0]: dict(default)}, file.where)
        return _scaling(file, fields)

    return Key("", "rotary_scaling", read, lambda config: None)


def _yarn_amplitude(rope: HFConfig, factor: float) -> float:
    """Return 0.1 m ln s + 1, or the ratio of two of them. Peng et al. 2023, equation 22."""

    def of(m: float) -> float:
        return 1.0 if factor <= 1 else 0.1 * m * math.log(factor) + 1.0

    m, of_all = rope.number("mscale", 0.0), rope.number("mscale_all_dim", 0.0)
    return of(m) / of(of_all) if m and of_all else of(1.0)


def _numbers(rope: HFConfig, key: str) -> tuple[float, ...]:
    values = rope.values.get(key)
    if not isinstance(values, list) or not all(type(x) in (int, float) and x > 0 for x in values):
        raise rope.refusal(key, values, "a list of numbers above 0")
    return tuple(map(float, values))


def _parameters(config: GPTConfig) -> dict[str, object]:
    """Return `rope_parameters` of layers that attend to all tokens."""
    scaling = config.rotary_scaling
    values: dict[str, object] = {
        "rope_theta": config.rotary_base,
        "rope_type": _NAMES[scaling.kind],
    }
    if config.rotary_fraction != 1:
        values["partial_rotary_factor"] = config.rotary_fraction
    if scaling.kind == "none":
        return values
    values["factor"] = scaling.factor
    if scaling.kind != "linear":
        values["original_max_position_embeddings"] = scaling.original_length
    if scaling.kind == "llama3":
        values |= {"low_freq_factor": scaling.low, "high_freq_factor": scaling.high}
    elif scaling.kind == "yarn":
        values |= {"beta_slow": scaling.low, "beta_fast": scaling.high}
        values |= {"truncate": scaling.whole_pairs, "attention_factor": scaling.amplitude}
    elif scaling.kind == "longrope":
        factors = list(scaling.pair_factors)
        values |= {"short_factor": factors, "long_factor": factors}
        values["attention_factor"] = scaling.amplitude
    return values


def _local_base(file: HFConfig, fields: Values) -> float | None:
    old = file.number("rope_local_base_freq", 10_000.0, low=1.0)
    if any(name in file.values for name in _CONTAINERS if LOCAL in file.values.get(name, {})):
        return _object(file, LOCAL).number("rope_theta", old, low=1.0)
    return old


def _same_base(file: HFConfig, fields: Values) -> float:
    base = float(fields["rotary_base"])
    has_own = any(LOCAL in file.values.get(name, {}) for name in _CONTAINERS if name in file.values)
    return base_of(file, LOCAL, base) if has_own else base


def _by_layer(config: GPTConfig) -> Mapping[str, object]:
    local = {"rope_theta": config.local_rotary_base or config.rotary_base, "rope_type": "default"}
    return {FULL: _parameters(config), LOCAL: local}


def check_all_turn(file: HFConfig) -> None:
    """Raise DataError unless all dimensions of a head are rotated."""
    _object(file, FULL).must_be("partial_rotary_factor", 1.0)


SCALING = Key("", "rotary_scaling", _scaling, lambda config: None)


def rotary(base: float = 10_000.0) -> tuple[Key, ...]:
    """The keys of rotary positions, alike in all layers. base: the value of a missing one."""
    return _base(FULL, base), SCALING, Key("rope_parameters", "", _nothing, _parameters)


def partial(fraction: float, name: str = "partial_rotary_factor") -> Key:
    """The key of the rotated share of dimensions. name: where older programs read it."""
    return _fraction(fraction, name)


def rotary_by_layer(base: float, *, one_base: bool = False) -> tuple[Key, ...]:
    """The keys of rotary positions whose layers with a window have a base of their own, unscaled.

    one_base: whether a missing base of theirs is that of the other layers.
    """
    theirs, read = ("", _same_base) if one_base else ("rope_local_base_freq", _local_base)
    local = Key(theirs, "local_rotary_base", read, lambda config: config.local_rotary_base)
    return _base(FULL, base), SCALING, local, Key("rope_parameters", "", _nothing, _by_layer)


def _nothing(file: HFConfig, fields: Values) -> None:
    return None
