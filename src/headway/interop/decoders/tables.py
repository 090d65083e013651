"""What the tables of decoder families share: names of tensors, and keys of config.json."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from headway.interop.config_fields import Fields, Key, Values, flag, number, whole
from headway.interop.decoders.kind import WORDS
from headway.interop.hf_config import HFConfig
from headway.interop.weight_names import Part, Table, layers, needs
from headway.models import GPTConfig

NORMS: Table = {
    "input_layernorm": "around_attention.norm",
    "post_attention_layernorm": "around_feedforward.norm",
}
ATTENTION: Table = {
    "self_attn.q_proj": "attention.query",
    "self_attn.k_proj": "attention.key",
    "self_attn.v_proj": "attention.value",
    "self_attn.o_proj": "attention.output",
}
GATED: Table = {
    "mlp.gate_proj": "feedforward.gate",
    "mlp.up_proj": "feedforward.expand",
    "mlp.down_proj": "feedforward.contract",
}
GATED_INSIDE: Mapping[str, str] = {
    "gate_proj": "gate",
    "up_proj": "expand",
    "down_proj": "contract",
}
DENSE: Table = {
    "mlp.dense_h_to_4h": "feedforward.expand",
    "mlp.dense_4h_to_h": "feedforward.contract",
}
PER_HEAD: Table = {
    "self_attn.q_norm": "attention.query_norm",
    "self_attn.k_norm": "attention.key_norm",
}
ALL_HEADS: Table = {
    "self_attn.q_norm": "attention.query_norm.norm",
    "self_attn.k_norm": "attention.key_norm.norm",
}
JOINED = ("attention.query", "attention.key", "attention.value")
"""Queries, keys and values as one matrix."""
SINKS = "self_attn.sinks"


@dataclass(frozen=True, kw_only=True)
class ExpertNames:
    """The names of a mixture of experts, theirs -> ours.

    router: W_r. expert: prefix of expert number {}; inside: its layers. shared, shared_gate: the
    expert that reads every token, and its gate.
    """

    router: str = "mlp.gate"
    expert: str = "mlp.experts.{}."
    inside: Mapping[str, str] = field(default_factory=lambda: GATED_INSIDE)
    shared: str = "mlp.shared_expert."
    shared_gate: str = "mlp.shared_expert_gate"

    def table(self, config: GPTConfig) -> Table:
        """Return the names of all layers."""
        names: dict[str, str | tuple[str, ...]] = {self.router: "feedforward.router.project"}
        for n in range(config.experts.total):
            names |= self._one(self.expert.format(n), f"feedforward.experts.{n}.")
        if config.experts.shared_dim:
            names |= self._one(self.shared, "feedforward.shared.")
            names[self.shared_gate] = "feedforward.shared_gate"
        return names

    def _one(self, theirs: str, ours: str) -> dict[str, str]:
        return {f"{theirs}{a}": f"{ours}{b}" for a, b in self.inside.items()}


@dataclass(frozen=True, kw_only=True)
class Names:
    """The names of a family's tensors, theirs -> ours; in a block without its prefix.

    words, last: the token embedding, the last norm. block: the prefix of block n. qk: norms of
    queries and keys. experts: of a layer with them. norms: may depend on the configuration. groups:
    in how many groups of rows a joined matrix of queries, keys and values has them side by side; 1:
    all queries first.
    """

    attention: Table = field(default_factory=lambda: ATTENTION)
    feedforward: Table = field(default_factory=lambda: GATED)
    norms: Callable[[GPTConfig], Table] = lambda config: NORMS
    qk: Table = field(default_factory=lambda: PER_HEAD)
    experts: ExpertNames = field(default_factory=lambda: ExpertNames())
    words: str = "embed_tokens"
    words_norm: str = ""
    last: str = "norm"
    block: str = "layers.{}."
    groups: Callable[[GPTConfig], int] = lambda config: 1

    def parts(self, config: GPTConfig) -> Iterator[Part]:
        """Yield all tensors but those of the head."""
        yield Part(f"{self.words}.weight", (WORDS,))
        if config.embedding_norm:
            yield from self._norms(config, {self.words_norm: "embedding.norm"})
        for n in range(config.num_layers):
            names = self.block.format(n), f"decoder.blocks.{n}."
            yield from self._norms(config, self.norms(config), names)
            if config.sinks:
                yield Part(f"{names[0]}{SINKS}", (f"{names[1]}attention.kernel.sinks",))
            if config.qk_norm:
                yield from layers(self.qk, *names, biases=False)
            for theirs, ours in self.attention.items():
                is_output = ours == "attention.output"
                wanted = ("all",) if is_output else ("qkv", "all")
                yield from layers(
                    {theirs: ours},
                    *names,
                    biases=config.attention_biases in wanted,
                    groups=1 if is_output else self.groups(config),
                )
            if config.experts.are_in(n):
                yield from layers(self.experts.table(config), *names, biases=config.bias)
            else:
                yield from layers(self.feedforward, *names, biases=config.bias)
        yield from self._norms(config, {self.last: "decoder.norm"})

    def _norms(
        self, config: GPTConfig, table: Table, names: tuple[str, str] = ("", "")
    ) -> Iterator[Part]:
        if config.norm_kind != "layer-plain":
            yield from layers(table, *names, biases=config.norm_kind == "layer")


_SIZES = {
    "vocab_size": ("vocabulary", 32_000),
    "max_position_embeddings": ("max_length", 2048),
    "hidden_size": ("model_dim", 4096),
    "intermediate_size": ("ffn_dim", 11_008),
    "num_hidden_layers": ("num_layers", 32),
    "num_attention_heads": ("num_heads", 32),
}
"""Theirs -> ours, and the default of Llama."""


def sizes(
    eps: str = "rms_norm_eps", default_eps: float = 1e-6, tied: bool = False, **defaults: int
) -> Fields:
    """Return the keys that most families have: sizes and the epsilon of the norms.

    eps: the key of epsilon. defaults: what missing keys mean, if not what they mean in Llama.
    """
    return Fields(
        keys=(
            *(
                whole(theirs, ours, defaults.get(theirs, default))
                for theirs, (ours, default) in _SIZES.items()
            ),
            number(eps, "norm_eps", default_eps),
            flag("tie_word_embeddings", "tie_output", tied),
        ),
        fixed={"attention": "scaled-dot", "positions": "rotary"},
        constant={"attention_dropout": 0.0},
    )


def groups(default: int | None = None) -> Key:
    """The key of the number of key and value heads. default: that of a missing one; None: H."""
    return whole(
        "num_key_value_heads",
        "num_kv_heads",
        default or (lambda fields: int(fields["num_heads"])),
        source="kv_heads",
    )


def head_width(default: int | None = None) -> Key:
    """The key of the dimension of a head. default: that of a missing one; None: D / H."""

    def divided(fields: Values) -> int:
        return max(1, int(fields["model_dim"]) // int(fields["num_heads"]))

    return whole("head_dim", "head_dim", default or divided, source="head_width")


def biases_of_attention(theirs: str, which: str, default: bool = False) -> Key:
    """The key that says whether attention has biases; `bias` is fixed, or has a key before it.

    which: "all" or "qkv".
    """

    def read(file: HFConfig, fields: Values) -> str:
        has_biases, others = file.flag(theirs, default), bool(fields["bias"])
        if which == "all" and has_biases == others:
            return "same"
        return which if has_biases else ("none" if others else "same")

    def write(config: GPTConfig) -> bool:
        return config.attention_biases != "none"

    return Key(theirs, "attention_bias", read, write)


def biases_are(*allowed: str) -> Callable[[GPTConfig], list[str]]:
    """Return the check that attention has biases of an allowed kind: none, qkv, all."""

    def lacks(config: GPTConfig) -> list[str]:
        if config.attention_biases in allowed:
            return []
        return [f"attention_biases={config.attention_biases} (must be {' or '.join(allowed)})"]

    return lacks


def one_width(config: GPTConfig) -> list[str]:
    """Return what a family lacks whose heads divide the model dimension."""
    if config.model_dim % config.num_heads:
        return [f"model_dim={config.model_dim} (must be a multiple of num_heads)"]
    return needs(config, {"head_dim": (None, config.model_dim // config.num_heads)})


def own_keys(config: GPTConfig) -> list[str]:
    """Return what a family lacks in which each head has keys and values of its own."""
    return needs(config, {"num_kv_heads": (None, config.num_heads)})


def all_of(*checks: Callable[[GPTConfig], list[str]]) -> Callable[[GPTConfig], list[str]]:
    """Return all that these checks find."""
    return lambda config: [reason for check in checks for reason in check(config)]


def is_set(theirs: str, ours: str, names: Mapping[bool, object], default: bool) -> Key:
    """A flag of theirs that names one of two values of ours."""
    values = {value: key for key, value in names.items()}
    return Key(
        theirs,
        ours,
        lambda file, _: names[file.flag(theirs, default)],
        lambda config: values[getattr(config, ours)],
        tuple(values),
    )


def optional(theirs: str, ours: str, default: float | None = None) -> Key:
    """A number above 0, or null. default: the value of a missing key."""

    def read(file: HFConfig, fields: Values) -> float | None:
        if theirs not in file.values:
            return None if theirs in file.nulls else default
        return file.number(theirs, 1.0, low=1e-9)

    return Key(theirs, ours, read, lambda config: getattr(config, ours))
