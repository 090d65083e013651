"""What decoding and training may ask of a model, and what every model does alike."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Protocol, runtime_checkable

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from headway.blocks import init_recurrent
from headway.shapes import Float, Int, Tensor


@runtime_checkable
class DecodeState(Protocol):
    """What lives through decoding; the searches only reorder it, rewind it and pass it back."""

    @property
    def lengths(self) -> list[int]:
        """Tokens in each row: those decoded, after those of a prompt if the model reads one."""
        ...

    def reorder(self, rows: Sequence[int]) -> DecodeState:
        """Row i becomes old row rows[i]; rows may repeat and be dropped."""
        ...

    def rewind(self, lengths: Sequence[int]) -> DecodeState:
        """Take tokens back: row n keeps its first lengths[n]."""
        ...


@runtime_checkable
class Stepper(Protocol):
    """All that greedy, sampling, beam and speculative decoding know of a model.

    The state given to `step` is consumed and may be updated in place.
    """

    def start(self, *inputs: Any) -> Any:
        """Look at the inputs once; a state of one row each."""
        ...

    def step(self, tokens: Int[Tensor, "N T"], state: Any) -> tuple[Float[Tensor, "N T V"], Any]:
        """Scores of the next token after each of T new tokens, and the state after them."""
        ...


@runtime_checkable
class Brick(Protocol):
    """A module that knows its own first values: norms, tables, kernels with parameters."""

    def init_weights(self) -> None: ...


def init_weights(model: nn.Module, tied: Sequence[nn.Linear] = ()) -> None:
    """Set every value: Xavier-uniform projections, zero biases, N(0, 1/D) embeddings; recurrent
    networks by `init_recurrent`, other bricks by their own `init_weights`.

    Constructors may have run on the meta device, so nothing is assumed of what they left. `tied`
    projections share an embedding's matrix and keep the embedding's values.
    """
    for module in model.modules():
        if isinstance(module, nn.Linear):
            if not any(module is output for output in tied):
                nn.init.xavier_uniform_(module.weight)
            if module.bias is not None:
                nn.init.zeros_(module.bias)
        elif isinstance(module, nn.Embedding):
            nn.init.normal_(module.weight, std=module.embedding_dim**-0.5)
        elif isinstance(module, nn.RNNBase):
            init_recurrent(module)
        elif isinstance(module, Brick) and module is not model:
            module.init_weights()


def init_normal(model: nn.Module, std: float) -> None:
    """Set every value: projections and embeddings N(0, std^2), biases zero, other bricks by their
    own `init_weights`. Nothing is assumed of what the constructors left.
    """
    for module in model.modules():
        if isinstance(module, nn.Linear | nn.Embedding):
            nn.init.normal_(module.weight, std=std)
            if isinstance(module, nn.Linear) and module.bias is not None:
                nn.init.zeros_(module.bias)
        elif isinstance(module, Brick) and module is not model:
            module.init_weights()


@contextmanager
def shapes_only() -> Iterator[None]:
    """Models built in the block have shapes and dtypes but no values: they are on the meta device.

    Random initialisation is skipped there. It has nothing to fill, and torch's meta version of
    `normal_` and `uniform_` imports torch._dynamo, which takes as long as importing torch.
    """
    with torch.device("meta"), _WithoutRandomValues():
        yield


class _WithoutRandomValues(TorchFunctionMode):
    """Returns tensors of the meta device unchanged where random values would be written."""

    def __torch_function__(
        self,
        function: Callable[..., Any],
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        if getattr(function, "__module__", None) == nn.init.__name__ or function in _RANDOM:
            tensor = args[0] if args else kwargs["tensor"]
            if tensor.is_meta:
                return tensor
        return function(*args, **kwargs)


_RANDOM = {torch.Tensor.normal_, torch.Tensor.uniform_}


def set_parameters(model: nn.Module, values: Mapping[str, Tensor]) -> None:
    """Put the value of its name in the place of every parameter; those that were one stay one."""
    own = {id(p): nn.Parameter(values[name]) for name, p in model.named_parameters()}
    for name, parameter in list(model.named_parameters(remove_duplicate=False)):
        module, _, last = name.rpartition(".")
        setattr(model.get_submodule(module), last, own[id(parameter)])


def parameter_count(model: nn.Module) -> int:
    """Trainable numbers, a shared matrix counted once."""
    return sum(parameter.numel() for parameter in model.parameters())
