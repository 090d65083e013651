"""Models of transformers as sessions with the names of Optimum's graphs, for the same methods."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from inspect import signature
from pathlib import Path
from typing import Any

import torch

from headway.base.errors import HeadwayError
from headway.base.files import read_json
from headway.base.shapes import Tensor
from headway.bundle.files import CONFIG_FILE
from headway.exporting.methods_by_graphs import Sessions
from headway.exporting.without_weights import Session

PACKAGE = "transformers"
PAST, PRESENT = "past_key_values", "present"


def load_network(folder: Path) -> Any:
    """Return the model that transformers loads from a folder.

    Raises HeadwayError if a tensor of the folder has no place in it, or if one is missing.
    """
    with quietly():
        contents = read_json(folder / CONFIG_FILE)
        assert isinstance(contents, dict)
        (name,) = contents["architectures"]
        network, report = getattr(import_module(PACKAGE), name).from_pretrained(
            folder, output_loading_info=True, dtype=torch.float32, local_files_only=True
        )
    for kind, found in report.items():
        # a pooler that no output depends on is not in the folder of a captioner
        names = [str(one) for one in found if kind != "missing_keys" or "pooler" not in str(one)]
        if names:
            raise HeadwayError(
                f"transformers loads {name} with {kind.replace('_', ' ')}: "
                f"{', '.join(names)[:200]}; the folder was removed",
                str(folder),
            )
    return network.eval()


@contextmanager
def quietly() -> Iterator[None]:
    """Let transformers print no progress."""
    logging: Any = import_module(f"{PACKAGE}.utils.logging")
    shown, level = logging.is_progress_bar_enabled(), logging.get_verbosity()
    logging.disable_progress_bar()
    logging.set_verbosity_error()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if shown:
            logging.enable_progress_bar()


def reading(network: Any) -> Sessions:
    """Return the session of a network without a cache."""
    return {"model": _reading(network)}


def embedding(network: Any) -> Sessions:
    """Return the session of a language model without its head."""
    return reading(network.base_model)


def writing(network: Any) -> Sessions:
    """Return the session of a language model."""
    return {"model": _writing(network)}


def translating(network: Any, keeps: bool = True) -> Sessions:
    """Return the sessions of an encoder and a decoder. keeps: whether keys and values of the source
    are kept, too."""
    encoder = _reading(network.get_encoder())
    return {"encoder_model": encoder, "decoder_model_merged": _decoding(network, keeps)}


def describing(network: Any) -> Sessions:
    """Return the sessions of an encoder and a decoder that reads an image or a sound."""
    return translating(network, keeps=False)


def _reading(network: Any) -> Session:
    accepted = signature(network.forward).parameters

    def run(inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
        outputs = dict(network(**{name: x for name, x in inputs.items() if name in accepted}))
        if "prediction_logits" in outputs:  # of a BertForPreTraining
            outputs["logits"] = outputs["prediction_logits"]
        return outputs

    return run


def _writing(network: Any) -> Session:
    argument = _cache_argument(network)
    if argument is None:
        return _without_cache(network)

    def run(inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
        rest = {name: x for name, x in inputs.items() if not name.startswith(PAST)}
        outputs = network(**rest, **{argument: _cache(inputs, "")}, use_cache=True)
        return {"logits": outputs.logits, **_present(outputs[argument], "")}

    return run


def _cache_argument(network: Any) -> str | None:
    """Return the name of the cache among the inputs and outputs; transformers 5.24 renamed it."""
    known = signature(network.forward).parameters
    return next((name for name in ("cache", PAST) if name in known), None)


def _without_cache(network: Any) -> Session:
    """Return the session of a GPT-1: what is kept of earlier tokens are these tokens."""
    past, present = f"{PAST}.0.key", f"{PRESENT}.0.key"

    def run(inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
        new = inputs["input_ids"]
        earlier = inputs[past][:, 0, :, 0].long()
        tokens = torch.cat((earlier, new), dim=1)
        real = inputs["attention_mask"]
        positions = (real.cumsum(1) - 1).clamp(min=0)
        logits = network(input_ids=tokens, attention_mask=real, position_ids=positions).logits
        return {"logits": logits[:, earlier.shape[1] :], present: tokens[:, None, :, None].float()}

    return run


def _decoding(network: Any, keeps: bool) -> Session:
    prefix, argument = "decoder." if keeps else "", _cache_argument(network)
    assert argument is not None

    def run(inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
        package = import_module(PACKAGE)
        source = _cache(inputs, "encoder.") if keeps else package.DynamicCache()
        cache = package.EncoderDecoderCache(_cache(inputs, prefix), source)
        hidden = inputs["encoder_hidden_states"]
        outputs = network(
            encoder_outputs=package.modeling_outputs.BaseModelOutput(last_hidden_state=hidden),
            decoder_input_ids=inputs["input_ids"],
            **{argument: cache},
            **({"attention_mask": inputs["encoder_attention_mask"]} if keeps else {}),
            use_cache=True,
        )
        kept = outputs[argument]
        present = _present(kept.self_attention_cache, prefix)
        if keeps:
            present |= _present(kept.cross_attention_cache, "encoder.")
        return {"logits": outputs.logits, **present}

    return run


def _cache(inputs: Mapping[str, Tensor], prefix: str) -> Any:
    """Return the cache with the keys and values in the inputs; without tokens it is a new one."""
    layers = sum(name.startswith(PAST) and name.endswith(f".{prefix}key") for name in inputs)
    names = [[f"{PAST}.{i}.{prefix}{kind}" for kind in ("key", "value")] for i in range(layers)]
    pairs = [tuple(inputs[name] for name in pair) for pair in names]
    return import_module(PACKAGE).DynamicCache(pairs if pairs[0][0].shape[2] else None)


def _present(cache: Any, prefix: str) -> dict[str, Tensor]:
    tensors = {}
    for i, layer in enumerate(cache.layers):
        tensors[f"{PRESENT}.{i}.{prefix}key"] = layer.keys
        tensors[f"{PRESENT}.{i}.{prefix}value"] = layer.values
    return tensors
