"""The legend of shapes: the meaning of the capital letters in every signature.

    B  batch size                   T  query or target length
    S  key or source length         D  model width
    H  heads                        K  width of one head (Kq of queries, Kv of values)
    G  heads of keys and values, where H / G heads of queries share one
    F  inner width of feed-forward  V  vocabulary
    P  patches, or position width   L  layers
    N  sequences while decoding: B x beams; or tokens in a flat list
    M  sentences whose keys are shared by N sequences
    E  width of the source, where it is not D
    C  classes, or channels of an image
    Y  height of an image in pixels  X  its width
    I  values of one patch; inputs of a linear layer, whose outputs are O

`x: Float[Tensor, "B T D"]` is checked by beartype while tests run, and costs nothing otherwise.
"""

from jaxtyping import Bool, Float, Int, Shaped, UInt8
from torch import Tensor

__all__ = ["Bool", "Float", "Int", "Shaped", "Tensor", "UInt8"]
