"""Saved models (bundles): config.json, model.safetensors, and the tokenizer or image reader.

`headway.load(folder)` (`tasks/opening.py`) loads a bundle; its methods are the verbs of its task.
"""

from headway.bundle.class_prediction import Classified as Classified
from headway.bundle.class_prediction import ClassOptions as ClassOptions
from headway.bundle.class_prediction import check_outputs as check_outputs
from headway.bundle.class_prediction import label_cells as label_cells
from headway.bundle.class_prediction import label_scores as label_scores
from headway.bundle.contract import WRITTEN as WRITTEN
from headway.bundle.contract import BeamSearching as BeamSearching
from headway.bundle.contract import Bundle as Bundle
from headway.bundle.contract import ImageReading as ImageReading
from headway.bundle.contract import InputSpec as InputSpec
from headway.bundle.contract import Neighbour as Neighbour
from headway.bundle.contract import ProbeRequest as ProbeRequest
from headway.bundle.contract import TextEmbedding as TextEmbedding
from headway.bundle.contract import TextGenerating as TextGenerating
from headway.bundle.contract import Translating as Translating
from headway.bundle.contract import Truncating as Truncating
from headway.bundle.contract import WordEmbedding as WordEmbedding
from headway.bundle.encoder import EncoderBundle as EncoderBundle
from headway.bundle.encoder import FilledText as FilledText
from headway.bundle.encoder import FillInput as FillInput
from headway.bundle.encoder import FillOptions as FillOptions
from headway.bundle.encoder import WordPrediction as WordPrediction
from headway.bundle.folder_decoding import folder_max_tokens as folder_max_tokens
from headway.bundle.folder_decoding import folder_rules as folder_rules
from headway.bundle.folder_decoding import with_normalisation as with_normalisation
from headway.bundle.forward_pass import Attending as Attending
from headway.bundle.forward_pass import Attention as Attention
from headway.bundle.forward_pass import ForwardPass as ForwardPass
from headway.bundle.forward_pass import attention_of as attention_of
from headway.bundle.forward_pass import encoder_pass as encoder_pass
from headway.bundle.forward_pass import part_of as part_of
from headway.bundle.forward_pass import word_outputs as word_outputs
from headway.bundle.image_encoder import ImageEncoderBundle as ImageEncoderBundle
from headway.bundle.image_encoder import ImageEncoding as ImageEncoding
from headway.bundle.language_model import GeneratingBundle as GeneratingBundle
from headway.bundle.language_model import TextBundle as TextBundle
from headway.bundle.probe import ImagePatches as ImagePatches
from headway.bundle.probe import Probe as Probe
from headway.bundle.probe import Readout as Readout
from headway.bundle.probe import SearchTrace as SearchTrace
from headway.bundle.probe import Unembedding as Unembedding
from headway.bundle.probe import class_names as class_names
from headway.bundle.probe import image_patches as image_patches
from headway.bundle.probe import next_token_readout as next_token_readout
from headway.bundle.probe import patches_of as patches_of
from headway.bundle.searching import SearchingBundle as SearchingBundle
from headway.bundle.searching import best_outputs as best_outputs
from headway.bundle.with_reader import BundleWithReader as BundleWithReader
from headway.bundle.with_reader import Preprocessing as Preprocessing
from headway.bundle.with_reader import StoredBundle as StoredBundle
from headway.bundle.with_reader import StoredReader as StoredReader
