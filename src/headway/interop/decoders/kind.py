"""A family of decoders: a table of config.json and a table of tensors."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields

from headway.attention import RotaryScaling
from headway.blocks import Experts
from headway.interop.config_fields import Fields
from headway.interop.decoders import fused_experts
from headway.interop.decoders.rotary import check_all_turn
from headway.interop.hf_config import HFConfig
from headway.interop.weight_names import Architecture, Family, Part, as_stored, needs
from headway.models import GPTConfig

HEAD = "lm_head.weight"
POSITIONS = "embedding.positions.table.vectors"
WORDS = "embedding.tokens.weight"
ROTARY = r"layers\.\d+\.self_attn\.rotary_emb\.inv_freq"
UNUSED = ("dropout", "window", "num_kv_heads", "head_dim")
"""Settings that a family without a key for them checks by itself, or that have no effect there."""


@dataclass(frozen=True, kw_only=True)
class Kind:
    """A family of GPTs, whose head may be tied to the embedding.

    architecture: the class name of the model with its head; bare: without, in old files. embedding:
    the key of the token embedding, which is also the head if they are tied. parts: yields all
    tensors but the head. lacks: returns the settings that the table of fields cannot check. head:
    the key of the matrix of logits, whose bias has the same name. has_fused_experts: whether one
    tensor has the matrices of all experts of a layer (`fused_experts`).
    """

    model_type: str
    architecture: str
    bare: str
    prefix: str
    embedding: str
    ignored: str
    fields: Fields
    parts: Callable[[GPTConfig], Iterator[Part]]
    lacks: Callable[[GPTConfig], list[str]]
    head: str = HEAD
    has_fused_experts: bool = False

    def family(self) -> Family[GPTConfig]:
        whole = Architecture(
            names=(self.architecture, self.bare),
            kind=GPTConfig,
            config=lambda hf_config, keys: self._read(hf_config),
            parts=self._all_parts,
            tied=lambda config: {self.head: self.embedding} if config.tie_output else {},
            unpacked=fused_experts.unpacked if self.has_fused_experts else as_stored,
            packed=fused_experts.packed if self.has_fused_experts else dict,
        )
        return Family(
            model_type=self.model_type,
            prefix=self.prefix,
            heads=re.escape(self.head.removesuffix("weight")) + "(weight|bias)",
            ignored=self.ignored,
            architectures=(whole,),
            to_hf_config=self.fields.write,
            lacks=self._lacks,
            generates=True,
        )

    def _read(self, hf_config: HFConfig) -> GPTConfig:
        values = self.fields.read(hf_config)
        if values["positions"] == "rotary" and "rotary_fraction" not in values:
            check_all_turn(hf_config)
        return GPTConfig(**values)

    def _all_parts(self, config: GPTConfig) -> Iterator[Part]:
        yield from self.parts(config)
        if not config.tie_output:
            yield Part(self.head, ("output.weight",))
        if config.output_bias:
            yield Part(self.head.removesuffix("weight") + "bias", ("output.bias",))

    def _lacks(self, config: GPTConfig) -> list[str]:
        """Return the settings that the family does not have; those in no table are the defaults."""
        known = {*self.fields.fixed, *UNUSED, *(key.ours for key in self.fields.keys)}
        plain: dict[str, tuple[object, ...]] = {
            item.name: (item.default,) for item in fields(config) if item.name not in known
        }
        if "experts" in plain:
            plain["experts"] = (Experts(),)
        if "rotary_scaling" in plain:
            plain["rotary_scaling"] = (RotaryScaling(),)
        if config.positions != "rotary":
            plain = {name: value for name, value in plain.items() if name != "rotary_base"}
        return self.fields.lacks(config) + needs(config, plain) + self.lacks(config)
