"""The methods of each class of models, computed by the graphs of an exported model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import torch
from torch import nn

from headway.attention.cache import check_rewind
from headway.base.shapes import Bool, Float, Int, Tensor
from headway.exporting.without_weights import Method, Session, language_methods
from headway.models import GPT, Bert, Captioner, TextEmbedder, Transcriber, Translator
from headway.training.objectives.cross_entropy import KnownLogits

FROM_CLASS_TOKEN = "from_class_token"
"""A method of encoders that a runtime computes: further outputs, which are compared."""

Sessions = Mapping[str, Session]
"""Name of a graph -> its session."""


def _read(
    session: Session,
    tokens: Int[Tensor, "B T"],
    keys: Bool[Tensor, "B T"] | None = None,
    types: Int[Tensor, "B T"] | None = None,
) -> dict[str, Tensor]:
    """Run an encoder of texts."""
    real = torch.ones_like(tokens) if keys is None else keys.long()
    segments = torch.zeros_like(tokens) if types is None else types
    inputs = {"input_ids": tokens, "attention_mask": real, "token_type_ids": segments}
    return session(inputs)


def _one(session: Session, output: str) -> Method:
    """Return the function from the inputs of a text encoder to one of its outputs."""
    return lambda *inputs: _read(session, *inputs)[output]


def embedder_methods(model: TextEmbedder, sessions: Sessions) -> dict[str, Method]:
    """Return the method of a text embedder."""
    return {"encode": _one(sessions["model"], "last_hidden_state")}


def bert_methods(model: Bert, sessions: Sessions) -> dict[str, Method]:
    """Return the methods of an encoder."""
    session = sessions["model"]

    def from_class_token(tokens: Tensor, *rest: Tensor | None) -> dict[str, Tensor]:
        names = ("pooler_output", "seq_relationship_logits")
        return {name: x for name, x in _read(session, tokens, *rest).items() if name in names}

    further = {FROM_CLASS_TOKEN: from_class_token}
    if model.masked_lm_head is None:
        return {"encode": _one(session, "last_hidden_state"), **further}
    latest: dict[str, Tensor] = {}

    def logits(tokens: Tensor, *rest: Tensor | None) -> Tensor:
        """Return what leaves the graph in place of vectors: logits already."""
        latest.update(_read(session, tokens, *rest))
        return latest["logits"]

    def follows(hidden: Tensor) -> Tensor:
        assert hidden is latest["logits"], "the runtime knows the head of its last texts only"
        return latest["seq_relationship_logits"]

    methods: dict[str, Method] = {"encode": logits, "words": lambda hidden: hidden}
    return methods | {"follows": follows, "forward": logits} | further


def head_methods(model: nn.Module, sessions: Sessions) -> dict[str, Method]:
    """Return the methods of an encoder with a classifier or tagger."""
    return {"forward": _one(sessions["model"], "logits")}


def answer_methods(model: nn.Module, sessions: Sessions) -> dict[str, Method]:
    """Return the methods of a question-answering model."""

    def forward(tokens: Tensor, *rest: Tensor | None) -> Tensor:
        outputs = _read(sessions["model"], tokens, *rest)
        return torch.stack((outputs["start_logits"], outputs["end_logits"]), dim=-1)

    return {"forward": forward}


def _image(session: Session, output: str) -> Method:
    return lambda images: session({"pixel_values": images.contiguous()})[output]


def vit_methods(model: nn.Module, sessions: Sessions) -> dict[str, Method]:
    """Return the methods of an image encoder."""
    encode = _image(sessions["model"], "last_hidden_state")
    return {"encode": encode, "forward": encode}


def vit_classifier_methods(model: nn.Module, sessions: Sessions) -> dict[str, Method]:
    """Return the methods of an image classifier."""
    return {"forward": _image(sessions["model"], "logits")}


@dataclass
class Past:
    """The decode state of a runtime: what its next step reads. Sequences are padded at the left.

    keys: True where a position holds a token. tensors: name of an input -> keys or values of the
    earlier tokens, "N H S K". source: name of an input -> what belongs to the source of each
    sequence.
    """

    keys: Bool[Tensor, "N S"]
    tensors: dict[str, Tensor]
    source: dict[str, Tensor] = field(default_factory=dict)

    @property
    def lengths(self) -> list[int]:
        """The number of tokens of each sequence."""
        counts: list[int] = self.keys.sum(1).tolist()
        return counts

    def reorder(self, rows: Sequence[int]) -> Past:
        """Make sequence i the former sequence rows[i]."""
        index = torch.tensor(list(rows), dtype=torch.long)
        self.keys = self.keys[index]
        self.tensors = {name: x[index] for name, x in self.tensors.items()}
        self.source = {name: x[index] for name, x in self.source.items()}
        return self

    def rewind(self, lengths: Sequence[int]) -> Past:
        """Take tokens back: sequence n keeps its first lengths[n]; the padding grows."""
        check_rewind(self.lengths, lengths)
        self.keys = self.keys & (self.keys.cumsum(1) <= torch.tensor(list(lengths))[:, None])
        # a stable sort of False before True moves the tokens to the right, in order
        order = self.keys.int().argsort(dim=1, stable=True)
        order = order[:, order.shape[1] - max(lengths, default=0) :]
        self.keys = self.keys.gather(1, order)
        self.tensors = {
            name: x.gather(2, order[:, None, :, None].expand(-1, x.shape[1], -1, x.shape[3]))
            for name, x in self.tensors.items()
        }
        return self

    def join(self, other: Past) -> Past:
        """Append the sequences of another state, with as much padding as they need."""
        length = max(self.keys.shape[1], other.keys.shape[1])
        self.keys = torch.cat([_wider(part.keys, length, 1) for part in (self, other)])
        self.tensors = {
            name: torch.cat((_wider(x, length, 2), _wider(other.tensors[name], length, 2)))
            for name, x in self.tensors.items()
        }
        for name, x in self.source.items():
            axis = 2 if x.ndim == 4 else 1
            longest = max(x.shape[axis], other.source[name].shape[axis])
            both = (x, other.source[name])
            # padding of a source is at the right
            self.source[name] = torch.cat([_wider(y, longest, axis, left=False) for y in both])
        return self


def _wider(x: Tensor, length: int, axis: int, left: bool = True) -> Tensor:
    """Pad with zeros to a length along an axis."""
    shape = list(x.shape)
    shape[axis] = length - shape[axis]
    empty = x.new_zeros(shape)
    return torch.cat((empty, x) if left else (x, empty), dim=axis)


def _after(outputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the inputs of the next step: what was present is then past."""
    return {
        name.replace("present", "past_key_values"): x
        for name, x in outputs.items()
        if name.startswith("present")
    }


def _empty(
    prefixes: Sequence[str], layers: int, rows: int, heads: int, width: int
) -> dict[str, Tensor]:
    """Return keys and values of no tokens."""
    return {
        f"past_key_values.{i}.{prefix}{kind}": torch.zeros(rows, heads, 0, width)
        for i in range(layers)
        for prefix in prefixes
        for kind in ("key", "value")
    }


def gpt_methods(model: GPT, sessions: Sessions) -> dict[str, Method]:
    """Return the methods of a language model."""
    config, session = model.config, sessions["model"]

    def opened(rows: int) -> Past:
        past = _empty([""], config.num_layers, rows, config.kv_heads, config.head_width)
        return Past(torch.zeros(rows, 0, dtype=torch.bool), past)

    def step(tokens: Int[Tensor, "N T"], state: Past) -> tuple[Tensor, Past]:
        first = torch.tensor(state.lengths, dtype=torch.long)[:, None]
        keys = torch.cat((state.keys, torch.ones_like(tokens, dtype=torch.bool)), dim=1)
        outputs = session(
            {
                "input_ids": tokens,
                "attention_mask": keys.long(),
                "position_ids": first + torch.arange(tokens.shape[1]),
                **state.tensors,
            }
        )
        return outputs["logits"], Past(keys, _after(outputs))

    def start(tokens: Int[Tensor, "B S"], keys: Bool[Tensor, "B S"] | None = None) -> Past:
        state = opened(tokens.shape[0])
        if tokens.shape[1]:
            _, state = step(tokens, state)
        return state if keys is None else state.rewind(keys.sum(1).tolist())

    def extend(tokens: Tensor, state: Past) -> None:
        _, after = step(tokens, state)
        state.keys, state.tensors = after.keys, after.tensors

    return {
        **language_methods(model, lambda tokens: step(tokens, opened(len(tokens)))[0]),
        "start": start,
        "step": step,
        "extend": extend,
    }


def _decoder(
    session: Session, source_names: tuple[str, ...], tokens: Int[Tensor, "N T"], state: Past
) -> tuple[Float[Tensor, "N T V"], Past]:
    """Run a decoder with a source. Raises ValueError for sequences of different lengths, for which
    its graph has no mask."""
    if not bool(state.keys.all()):
        raise ValueError("the graph of this decoder has no mask: sequences must be equally long")
    outputs = session({"input_ids": tokens, **state.source, **state.tensors})
    present = _after(outputs)
    of_source = {name: x for name, x in present.items() if ".encoder." in name}
    source = {name: state.source[name] for name in source_names} | of_source
    keys = torch.cat((state.keys, torch.ones_like(tokens, dtype=torch.bool)), dim=1)
    target = {name: x for name, x in present.items() if name not in of_source}
    return outputs["logits"], Past(keys, target, source)


def translator_methods(model: Translator, sessions: Sessions) -> dict[str, Method]:
    """Return the methods of a translator."""
    config = model.config
    names = ("encoder_hidden_states", "encoder_attention_mask")

    def encode(source: Tensor, keys: Tensor | None = None) -> Tensor:
        return _read(sessions["encoder_model"], source, keys)["last_hidden_state"]

    def opened(hidden: Tensor, keys: Tensor | None) -> Past:
        shape = (config.decoder_layers, len(hidden), config.num_heads, config.head_width)
        real = hidden.new_ones(hidden.shape[:2]) if keys is None else keys
        source = dict(zip(names, (hidden, real.long()), strict=True))
        source |= _empty(["encoder."], *shape)
        nothing = torch.zeros(len(hidden), 0, dtype=torch.bool)
        return Past(nothing, _empty(["decoder."], *shape), source)

    step = partial(_decoder, sessions["decoder_model_merged"], names)

    def decode(target_in: Tensor, memory: Tensor, keys: Tensor | None = None) -> Tensor:
        return step(target_in, opened(memory, keys))[0]

    model.output = KnownLogits(config.target_vocabulary)  # type: ignore[assignment]
    return {
        "encode": encode,
        "start": lambda source, keys=None: opened(encode(source, keys), keys),
        "step": step,
        "decode": decode,
        "forward": lambda source, target_in, keys=None: decode(
            target_in, encode(source, keys), keys
        ),
    }


def captioner_methods(model: Captioner, sessions: Sessions) -> dict[str, Method]:
    """Return the methods of a captioner."""
    gpt = model.config.gpt
    encode = _image(sessions["encoder_model"], "last_hidden_state")
    shape = (gpt.num_layers, gpt.kv_heads, gpt.head_width)
    model.output = KnownLogits(gpt.vocabulary)  # type: ignore[assignment]
    return _writing_methods(encode, sessions["decoder_model_merged"], shape)


def transcriber_methods(model: Transcriber, sessions: Sessions) -> dict[str, Method]:
    """Return the methods of a transcriber."""
    config, encoder = model.config, sessions["encoder_model"]

    def encode(frames: Float[Tensor, "B Y X"]) -> Float[Tensor, "B S D"]:
        return encoder({"input_features": frames.contiguous()})["last_hidden_state"]

    width = config.model_dim // config.num_heads
    shape = (config.decoder_layers, config.num_heads, width)
    model.output = KnownLogits(config.vocabulary)  # type: ignore[assignment]
    return _writing_methods(encode, sessions["decoder_model_merged"], shape)


def _writing_methods(
    encode: Method, decoder: Session, shape: tuple[int, int, int]
) -> dict[str, Method]:
    """Return the methods of a decoder whose source is an image or a sound, which has no padding.

    shape: the number of its layers and heads, and the width of a head.
    """
    layers, heads, width = shape
    step = partial(_decoder, decoder, ("encoder_hidden_states",))

    def opened(hidden: Tensor) -> Past:
        empty = _empty([""], layers, len(hidden), heads, width)
        nothing = torch.zeros(len(hidden), 0, dtype=torch.bool)
        return Past(nothing, empty, {"encoder_hidden_states": hidden})

    return {
        "encode": encode,
        "start": lambda source: opened(encode(source)),
        "step": step,
        "decode": lambda target_in, memory: step(target_in, opened(memory))[0],
        "forward": lambda source, target_in: step(target_in, opened(encode(source)))[0],
    }
