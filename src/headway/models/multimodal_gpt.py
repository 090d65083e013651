"""Multimodal GPT: P(x_t | x_1 ... x_(t-1)), where some of the x are patches of images.

A Vision Transformer encodes each image, and a projection turns the vectors of its patches into
vectors as wide as those of words. They stand in the prompt where the image stands: before, between
or after the words. To the blocks of the GPT a patch is a word like others.

>>> import torch
>>> from headway.models import MultimodalGPT, MultimodalGPTConfig, ViTConfig
>>> size = {"model_dim": 8, "num_heads": 2, "ffn_dim": 16, "num_layers": 1}
>>> vit = ViTConfig(image_size=4, patch_size=2, channels=1, **size)
>>> config = MultimodalGPTConfig(vit=vit, vocabulary=10, image_token=9, **size)
>>> model = MultimodalGPT(config).eval()
>>> image = torch.arange(16.0).view(1, 1, 4, 4)  # I C Y X: one image of four patches
>>> words = torch.tensor([[5, 9, 9, 9, 9, 6, 7]])  # a word, the places of the patches, two words
>>> logits = model(words, images=image)  # B T V
>>> (logits != model(words, images=-image)).any(-1)  # only the first word comes before the image
tensor([[False,  True,  True,  True,  True,  True,  True]])
"""

from dataclasses import dataclass
from typing import ClassVar

from torch import nn

from headway.attention import Documents
from headway.base.settings import VOCABULARY, count, section
from headway.base.shapes import Bool, Float, Int, Tensor
from headway.blocks import DecoderState
from headway.models.contracts import init_normal
from headway.models.gpt import GPT
from headway.models.gpt_config import GPTConfig
from headway.models.vit import ViT, ViTConfig

Images = Float[Tensor, "I C Y X"]
"""The images of all prompts of a batch, in the order in which they stand there, row by row."""


@dataclass(frozen=True, kw_only=True)
class MultimodalGPTConfig(GPTConfig):
    """Architecture of a `MultimodalGPT`: that of a GPT, and its image encoder.

    The named sizes, in `sizes`, are those of the GPT.
    """

    image_token: int = count(
        0, "id of the token whose positions in a prompt are those of patches", VOCABULARY, least=0
    )
    vit: ViTConfig = section(ViTConfig)

    family: ClassVar[str] = "multimodal-gpt"

    @property
    def patches(self) -> int:
        """The number of places in a prompt that an image takes: one for each patch."""
        rows, columns = self.vit.grid
        return rows * columns


class MultimodalGPT(GPT):
    """P(x_t | x_<t) = softmax(W decoder(e_1 ... e_(t-1))), with e_t = E[x_t] for a word x_t.

    At the places of an image, e = U v: v is the vector of a patch, as the ViT returns it, and U the
    projection from the width of the ViT to that of the GPT. Without images the model is a GPT.
    Attention is causal everywhere; inside the ViT the patches of an image see each other.

    tokens have the id `config.image_token` at the places of images, `config.patches` of them for
    each image. Liu et al. 2023 (LLaVA), section 4.1.
    """

    config: MultimodalGPTConfig

    def __init__(self, config: MultimodalGPTConfig) -> None:
        super().__init__(config)
        self.vit = ViT(config.vit)
        self.project = nn.Linear(config.vit.model_dim, config.model_dim)
        if not self.project.weight.is_meta:
            init_normal(self.project, std=0.02)

    def init_weights(self) -> None:
        """Initialise the GPT and the projection as a `GPT`, and the image encoder as a `ViT`."""
        super().init_weights()
        if "vit" in self._modules:  # it is made after the constructor of GPT, which calls this
            self.vit.init_weights()

    def patch_vectors(self, images: Images) -> Float[Tensor, "I P D"]:
        """Return U v for every patch of every image, row by row."""
        vectors: Tensor = self.project(self.vit.patch_vectors(self.vit.encode(images)))
        return vectors

    def embedded(
        self,
        tokens: Int[Tensor, "B T"],
        images: Images | None,
        documents: Documents | None = None,
    ) -> Float[Tensor, "B T D"]:
        """Return the vectors e of words and patches, with their positions."""
        if images is None:
            return self.embedding(tokens, documents=documents)
        is_patch = tokens == self.config.image_token
        vectors = self.patch_vectors(images)
        return self.embedding(tokens, documents=documents, places=is_patch, vectors=vectors)

    def hidden(
        self,
        tokens: Int[Tensor, "B T"],
        documents: Documents | None = None,
        images: Images | None = None,
    ) -> Float[Tensor, "B T D"]:
        """Return the hidden vectors that predict the next token after each of `tokens`. As
        `GPT.hidden`."""
        return self.decoder(self.embedded(tokens, images, documents), documents)

    def forward(
        self,
        tokens: Int[Tensor, "B T"],
        documents: Documents | None = None,
        images: Images | None = None,
    ) -> Float[Tensor, "B T V"]:
        """Return the logits of the next token after each of `tokens`."""
        return self.logits(self.hidden(tokens, documents, images))

    def start(
        self,
        tokens: Int[Tensor, "B S"],
        keys: Bool[Tensor, "B S"] | None = None,
        images: Images | None = None,
    ) -> DecoderState:
        """Process S earlier tokens and the images among them. As `GPT.start`.

        Raises ValueError unless the tokens have as many places as the images have patches.
        """
        if images is None:
            return super().start(tokens, keys)
        self._check_places(tokens, len(images))
        state = self.decoder.start(tokens.shape[0])
        self.decoder.step(self.embedded(tokens, images), state)
        return self.without_padding(state, keys)

    def _check_places(self, tokens: Int[Tensor, "B S"], count: int) -> None:
        places = int((tokens == self.config.image_token).sum())
        if places != count * self.config.patches:
            raise ValueError(
                f"the prompts have {places} positions of patches, but {count} images of "
                f"{self.config.patches} patches each"
            )


class WithImages(MultimodalGPT):
    """A multimodal GPT together with the images of the texts that it reads.

    Objectives and searches pass only tokens; this passes them to the model with the images of all
    texts together. It shares the parameters of the model.
    """

    def __init__(self, model: MultimodalGPT, images: Images | None) -> None:
        nn.Module.__init__(self)
        self._model: MultimodalGPT
        self.__dict__.update(model.__dict__)
        for name in ("forward", "hidden", "start"):  # a server may have wrapped those of the model
            self.__dict__.pop(name, None)
        self.images = images
        self.__dict__["_model"] = model  # not a part, whose parameters would have a second name

    def hidden(
        self,
        tokens: Int[Tensor, "B T"],
        documents: Documents | None = None,
        images: Images | None = None,
    ) -> Float[Tensor, "B T D"]:
        """As `MultimodalGPT.hidden`, with these images."""
        return self._model.hidden(tokens, documents, self.images)

    def forward(
        self,
        tokens: Int[Tensor, "B T"],
        documents: Documents | None = None,
        images: Images | None = None,
    ) -> Float[Tensor, "B T V"]:
        """As `MultimodalGPT.forward`, with these images."""
        return self._model(tokens, documents, self.images)

    def start(
        self,
        tokens: Int[Tensor, "B S"],
        keys: Bool[Tensor, "B S"] | None = None,
        images: Images | None = None,
    ) -> DecoderState:
        """As `MultimodalGPT.start`, with these images."""
        return self._model.start(tokens, keys, self.images)
