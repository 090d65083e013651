"""Building blocks of models: each box of figure 1 of Vaswani et al. 2017 is one file."""

from headway.blocks.cells import GRU, LSTM
from headway.blocks.decoder import Decoder, DecoderBlock
from headway.blocks.decoder_only import DecoderOnly, DecoderOnlyBlock
from headway.blocks.dropout import Dropout
from headway.blocks.embeddings import Embeddings, SegmentEmbeddings
from headway.blocks.encoder import Encoder, EncoderBlock, FeedForwardBlock
from headway.blocks.experts import Experts, MixtureOfExperts, Router, balance_loss, record_routing
from headway.blocks.feedforward import FeedForward, GatedFeedForward
from headway.blocks.heads import (
    AttentionPooler,
    Dense,
    MaskedTokenHead,
    Pooler,
    Pooling,
    ReplacedTokenHead,
    mean_pool,
    pool_text,
)
from headway.blocks.image_embedding import ImageEmbedding
from headway.blocks.norms import AcrossHeads, GainNorm, LayerNorm, OffsetRMSNorm, PlainNorm, RMSNorm
from headway.blocks.parallel import ParallelBlock
from headway.blocks.patches import Patches, patchify
from headway.blocks.positions import (
    Added,
    Concatenated,
    LearnedTable,
    NoPositions,
    Positions,
    SinusoidalTable,
)
from headway.blocks.positions_2d import GridPositions, LearnedGrid, NoGrid, SinusoidalGrid
from headway.blocks.prototypes import PrototypeHead
from headway.blocks.recurrent import (
    Bridge,
    LastState,
    MeanState,
    RecurrentEncoder,
    RecurrentLayers,
    init_recurrent,
)
from headway.blocks.recurrent_decoder import Attentional, RecurrentDecoder, RecurrentState
from headway.blocks.residual import (
    InnerNorm,
    MultipliedPreNorm,
    PostNorm,
    PreNorm,
    Residual,
    SandwichNorm,
    ScaledPreNorm,
)
from headway.blocks.sound_embedding import SoundEmbedding
from headway.blocks.stack import Stack
from headway.blocks.state import DecoderState, Memory

__all__ = [
    "GRU",
    "LSTM",
    "AcrossHeads",
    "Added",
    "AttentionPooler",
    "Attentional",
    "Bridge",
    "Concatenated",
    "Decoder",
    "DecoderBlock",
    "DecoderOnly",
    "DecoderOnlyBlock",
    "DecoderState",
    "Dense",
    "Dropout",
    "Embeddings",
    "Encoder",
    "EncoderBlock",
    "Experts",
    "FeedForward",
    "FeedForwardBlock",
    "GainNorm",
    "GatedFeedForward",
    "GridPositions",
    "ImageEmbedding",
    "InnerNorm",
    "LastState",
    "LayerNorm",
    "LearnedGrid",
    "LearnedTable",
    "MaskedTokenHead",
    "MeanState",
    "Memory",
    "MixtureOfExperts",
    "MultipliedPreNorm",
    "NoGrid",
    "NoPositions",
    "OffsetRMSNorm",
    "ParallelBlock",
    "Patches",
    "PlainNorm",
    "Pooler",
    "Pooling",
    "Positions",
    "PostNorm",
    "PreNorm",
    "PrototypeHead",
    "RMSNorm",
    "RecurrentDecoder",
    "RecurrentEncoder",
    "RecurrentLayers",
    "RecurrentState",
    "ReplacedTokenHead",
    "Residual",
    "Router",
    "SandwichNorm",
    "ScaledPreNorm",
    "SegmentEmbeddings",
    "SinusoidalGrid",
    "SinusoidalTable",
    "SoundEmbedding",
    "Stack",
    "balance_loss",
    "init_recurrent",
    "mean_pool",
    "patchify",
    "pool_text",
    "record_routing",
]
