"""Which layers attend to a window, or have no positions: `layer_types` and older keys."""

from collections.abc import Callable

from headway.interop.config_fields import Key, Values
from headway.interop.decoders.rotary import FULL, LOCAL
from headway.interop.hf_config import HFConfig
from headway.models import BertConfig, GPTConfig

Pattern = Callable[[HFConfig, int], str]
"""(config.json, number of layers) -> the letter of each layer, if there is no `layer_types`."""


def shortest(letters: str) -> str:
    """Return the shortest text whose repetition begins with `letters`: "lglgl" is "lg"."""
    lengths = range(1, len(letters) + 1)
    return next(p for n in lengths if ((p := letters[:n]) * len(letters)).startswith(letters))


def layer_types(otherwise: Pattern, letters: str = "gl", size: int = 4096) -> tuple[Key, ...]:
    """The keys of layers with windows and of their size.

    otherwise: the pattern of a file without `layer_types`. letters: of a layer that attends to all
    tokens, and of one with a window. size: of a window, if its key is missing.
    """
    names = {FULL: letters[0], LOCAL: letters[1]}
    theirs = {letter: name for name, letter in names.items()}

    def read(file: HFConfig, fields: Values) -> str:
        count = int(fields["num_layers"])
        by_default = otherwise(file, count)  # reads its keys in any case
        kinds = file.values.get("layer_types")
        if kinds is None:
            return shortest(by_default)
        valid = isinstance(kinds, list) and len(kinds) == count and {*kinds} <= {*names}
        if not valid:
            raise file.refusal(
                "layer_types", kinds, f"a list of {' or '.join(names)} for every layer"
            )
        return shortest("".join(names[kind] for kind in kinds))

    def write(config: GPTConfig | BertConfig) -> list[str]:
        return [theirs.get(kind, FULL) for kind in config.kinds]

    return Key("layer_types", "layers", read, write), window(size)


def window(default: int | None = None) -> Key:
    """The key of the size of windows, which is null where no layer has one. default: that of a
    missing key, if some layers have windows."""

    def read(file: HFConfig, fields: Values) -> int:
        used = default is not None and "l" in str(fields["layers"]).lower()
        if used and "sliding_window" in file.nulls:
            raise file.refusal("sliding_window", None, "a number, since some layers have a window")
        return file.whole("sliding_window", default if used else GPTConfig.window)

    def write(config: GPTConfig) -> int | None:
        return config.window if "l" in config.layers.lower() else None

    return Key("sliding_window", "window", read, write)


def all_or_none(default: int | None = None) -> tuple[Key, ...]:
    """The key of a window that all layers have, or, if it is null, none. default: that of a missing
    key; None: no window."""

    def read(file: HFConfig, fields: Values) -> str:
        is_default = default is not None and "sliding_window" not in file.nulls
        return "l" if "sliding_window" in file.values or is_default else "g"

    return Key("", "layers", read, lambda config: None, ("g", "l")), window(default)


def only(letters: str) -> Callable[[GPTConfig], list[str]]:
    """Return the check that the layers are of these kinds."""
    return lambda config: [f"layers={config.layers}"] if {*config.kinds} - {*letters} else []


def every(distance: int, key: str = "sliding_window_pattern") -> Pattern:
    """Return the pattern in which each `distance`-th layer attends to all tokens, the others to a
    window. key: the key of the distance."""

    def letters(file: HFConfig, count: int) -> str:
        step = file.whole(f"_{key}", file.whole(key, distance))
        return "".join("g" if (n + 1) % step == 0 else "l" for n in range(count))

    return letters
