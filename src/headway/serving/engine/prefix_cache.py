"""Prefix cache: keys and values of the beginnings of prompts, in blocks of 64 tokens.

The vectors of a block depend on its tokens and on all tokens before it, so a block is found by a
hash of both. On a CPU, blocks are computed one by one in either case, so that a cached block has
the same bits as one that is computed again. (Kwon et al. 2023 share blocks between sequences in the
same way, and read them in place.)
"""

import hashlib
from array import array
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

from headway.base.shapes import Tensor
from headway.blocks import DecoderState

BLOCK = 64
"""Number of tokens of a block."""


@dataclass(frozen=True)
class _Block:
    """vectors: of each layer, one tensor "H 64 K" for each kind of vector."""

    vectors: list[list[Tensor]]

    @property
    def num_bytes(self) -> int:
        return sum(x.nbytes for layer in self.vectors for x in layer)


class PrefixCache:
    """The blocks of recent prompts; those not used for longest are dropped. max_bytes: of all."""

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.num_bytes = 0
        self._blocks: OrderedDict[bytes, _Block] = OrderedDict()

    def read(self, prompt: Sequence[int], salt: str, state: DecoderState) -> int:
        """Append the longest cached beginning of a prompt to an empty state; return its length.

        The last token of the prompt is never read: its logits are needed.
        """
        found = []
        for name in block_names(prompt[:-1], salt):
            if name not in self._blocks:
                break
            found.append(name)
        for name in found:
            layers = self._blocks[name].vectors
            state.cache.extend([[x[None] for x in vectors] for vectors in layers])
        for name in reversed(found):  # the first block of a prompt is dropped last
            self._blocks.move_to_end(name)
        return len(found) * BLOCK

    def write(self, prompt: Sequence[int], salt: str, state: DecoderState, start: int) -> None:
        """Keep the blocks of a prompt from token `start` on, of the only sequence of a state."""
        for number, name in enumerate(block_names(prompt[:-1], salt)):
            first = number * BLOCK
            if first < start or name in self._blocks:
                continue
            stores = [layer.stores for layer in state.cache.layers]
            at = slice(first, first + BLOCK)
            block = _Block([[store[0, :, at].clone() for store in kinds] for kinds in stores])
            if block.num_bytes > self.max_bytes:
                return
            self._blocks[name] = block
            self.num_bytes += block.num_bytes
        while self.num_bytes > self.max_bytes:
            _, dropped = self._blocks.popitem(last=False)
            self.num_bytes -= dropped.num_bytes


def block_names(tokens: Sequence[int], salt: str) -> list[bytes]:
    """Return a name for each whole block, which depends on all tokens up to its end."""
    name = hashlib.blake2b(salt.encode(), digest_size=16).digest()
    names = []
    for start in range(0, len(tokens) - BLOCK + 1, BLOCK):
        block = array("q", tokens[start : start + BLOCK]).tobytes()
        name = hashlib.blake2b(name + block, digest_size=16).digest()
        names.append(name)
    return names
