"""Contracts between models, decoding and training, and the initialisation of all models."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Protocol, Self, runtime_checkable

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from headway.base.shapes import Float, Int, Tensor
from headway.blocks import init_recurrent


class Sequences(Protocol):
    """The state of N sequences, as far as greedy and beam searches know it."""

    def reorder(self, rows: Sequence[int]) -> Self:
        """Make sequence i the former sequence rows[i]; a row may repeat or be dropped."""
        ...


class DecodeState(Sequences, Protocol):
    """Decode state of N sequences, which searches only reorder, rewind and pass to `step`."""

    @property
    def lengths(self) -> list[int]:
        """The number of tokens of each sequence, including the prompt of a language model."""
        ...

    def rewind(self, lengths: Sequence[int]) -> Self:
        """Take tokens back: sequence n keeps its first lengths[n]."""
        ...

    def join(self, other: Self) -> Self:
        """Append the sequences of another state of the model, which is not used afterwards."""
        ...


class Stepper(Protocol):
    """The methods of a model that greedy, sampling, beam and speculative decoding use.

    The state passed to `step` may be updated in place, so it must not be used afterwards. It is of
    the model's own class.
    """

    @property
    def start(self) -> Callable[..., Any]:
        """Process the inputs once and return a state with one sequence for each."""
        ...

    @property
    def step(self) -> Callable[[Int[Tensor, "N T"], Any], tuple[Float[Tensor, "N T V"], Any]]:
        """Return the logits of the next token after each of T new tokens, and the next state."""
        ...

    def parameters(self, recurse: bool = True) -> Iterator[nn.Parameter]: ...


class LanguageStepper(Stepper, Protocol):
    """A Stepper that starts from prompts (tokens, keys) of at most `max_length` tokens."""

    @property
    def max_length(self) -> int | None: ...


@runtime_checkable
class Brick(Protocol):
    """A module that initialises its own parameters: norms, tables, kernels with parameters."""

    def init_weights(self) -> None: ...


def init_weights(model: nn.Module, tied: Sequence[nn.Linear] = ()) -> None:
    """Initialise all parameters: Xavier-uniform projections, zero biases, N(0, 1/D) embeddings.

    Recurrent networks are initialised by `init_recurrent`, other modules by their `init_weights`.
    Constructors may have run on the meta device, so every parameter gets a new value. tied:
    projections that share the matrix of an embedding and keep the embedding's values. Glorot and
    Bengio 2010 (Xavier).
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
    """Initialise all parameters: projections and embeddings N(0, std^2), zero biases.

    Other modules are initialised by their `init_weights`. Constructors may have run on the meta
    device, so every parameter gets a new value.
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
    """Build models on the meta device inside the `with` block: with shapes and dtypes, no values.

    Random initialisation is skipped, because there is nothing to fill, and torch's meta version of
    `normal_` and `uniform_` imports torch._dynamo, which takes as long as importing torch.
    """
    with torch.device("meta"), _WithoutRandomValues():
        yield


class _WithoutRandomValues(TorchFunctionMode):
    """Returns tensors of the meta device unchanged instead of writing random values."""

    def __torch_function__(
        self,
        function: Callable[..., object],
        types: Sequence[type],
        args: tuple[object, ...] = (),
        kwargs: dict[str, object] | None = None,
    ) -> object:
        kwargs = kwargs or {}
        if getattr(function, "__module__", None) == nn.init.__name__ or function in _RANDOM:
            tensor = args[0] if args else kwargs["tensor"]
            if isinstance(tensor, Tensor) and tensor.is_meta:
                return tensor
        return function(*args, **kwargs)


_RANDOM = {torch.Tensor.normal_, torch.Tensor.uniform_}


def set_parameters(model: nn.Module, values: Mapping[str, Tensor]) -> None:
    """Replace every parameter by the value of its name; shared parameters stay shared."""
    new = {
        id(p): nn.Parameter(values[name], requires_grad=p.requires_grad)
        for name, p in model.named_parameters()
    }
    for name, parameter in list(model.named_parameters(remove_duplicate=False)):
        module, _, last = name.rpartition(".")
        setattr(model.get_submodule(module), last, new[id(parameter)])


def parameter_count(model: nn.Module) -> int:
    """Return the number of parameters; a shared matrix counts once."""
    return sum(parameter.numel() for parameter in model.parameters())
