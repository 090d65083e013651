"""Models of text and images (or sound): their text half is read. Models that are refused, and why.

The config.json of such a model has that of its language model as `text_config`; the names of the
language model's tensors contain `language_model`.
"""

import re
import warnings
from collections.abc import Collection, Mapping

from headway.base.errors import DataError, HeadwayWarning
from headway.base.shapes import Tensor
from headway.interop.hf_config import HFConfig, shortened

TEXT = "text_config"
_BODY = re.compile(r"(model\.)?language_model\.")
_HEAD = re.compile(r"lm_head\.(weight|bias)")
_STATE_SPACES = "it has layers with a state instead of attention, which Headway does not have"
_LATENT = "it attends to compressed keys and values (latent attention), which Headway does not have"
_SHARED = "its layers share keys and values, which Headway's do not"
_EXPERTS = "it is a mixture of experts with options that Headway does not have"
_BLOCKS = "it attends to parts of long texts by rules that Headway does not have"
_PAGES = "it reads where the words are on a page, which Headway does not"
_IMAGES = "it is an image model with other blocks than those of a ViT"
_WAVES = "it reads the waves of sounds, which Headway does not"
_WHY = {
    _STATE_SPACES: """
        mamba mamba2 falcon_mamba falcon_h1 bamba jamba zamba zamba2 nemotron_h lfm2 lfm2_moe
        qwen3_next qwen3_5 qwen3_5_text qwen3_5_moe granitemoehybrid recurrent_gemma rwkv xlstm
        minimax kimi_linear olmo_hybrid
    """,
    _LATENT: "deepseek_v2 deepseek_v3 deepseek_v32 minicpm3 kimi_k2",
    _BLOCKS: "longformer led big_bird bigbird_pegasus reformer funnel",
    _PAGES: "layoutlm layoutlmv2 layoutlmv3 layoutxlm lilt bros udop markuplm",
    _IMAGES: "swin swinv2 convnext convnextv2 resnet efficientnet mobilevit segformer",
    _WAVES: "wav2vec2 hubert wavlm unispeech sew data2vec-audio",
    _SHARED: "gemma3n gemma3n_text gemma4 gemma4_text",
    _EXPERTS: """
        granitemoe granitemoeshared phimoe dbrx ernie4_5_moe glm4_moe
    """,
}
REFUSED = {name: reason for reason, names in _WHY.items() for name in names.split()}
"""`model_type` of models that cannot be read -> why."""


def text_half(file: HFConfig, known: Collection[str]) -> HFConfig | None:
    """Return the config.json of the language model of a model of text and images; None for others.

    known: the model types that can be read. Raises DataError for a model that cannot be, and why.
    """
    kind = file.values.get("model_type")
    if kind in list(known):  # a list: the value may not be hashable
        return None
    inner = file.values.get(TEXT)
    inner_kind = inner.get("model_type") if isinstance(inner, dict) else None
    for name in (kind, inner_kind):
        if isinstance(name, str) and name in REFUSED:
            raise DataError(f"model_type={name!r} cannot be read: {REFUSED[name]}", file.where)
    if not isinstance(inner, dict):
        return None
    if inner_kind not in list(known):
        why = f"its language model has model_type={shortened(inner_kind)}, which is not supported"
        raise DataError(f"model_type={shortened(kind)}: {why}", file.where)
    tied = file.values.get("tie_word_embeddings")
    outer = {} if tied is None else {"tie_word_embeddings": tied}
    return HFConfig({**outer, **inner}, f"{file.where} ({TEXT})")


def text_tensors(file: HFConfig, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the tensors of the language model, by the names that they have in one alone.

    A HeadwayWarning says what is left out. file: the config.json of the whole model.
    """
    kept, left_out = {}, []
    for key, tensor in tensors.items():
        found = _BODY.match(key)
        if found is not None or _HEAD.fullmatch(key):
            kept[key[found.end() :] if found is not None else key] = tensor
        else:
            left_out.append(key)
    parts = dict.fromkeys(".".join(key.removeprefix("model.").split(".")[:1]) for key in left_out)
    text = (
        f"{file.where}: model_type={file.values.get('model_type')!r} reads more than text; its "
        f"language model is used alone, without {', '.join(parts) or 'the other parts'}"
    )
    warnings.warn(text, HeadwayWarning, stacklevel=3)
    return kept
