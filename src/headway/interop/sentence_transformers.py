"""Read and write folders of sentence-transformers: the encoder, and the pooling of its vectors.
Reimers and Gurevych 2019."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from headway.base.errors import DataError, UsageError
from headway.base.files import json_bytes, read_json, write_file
from headway.blocks import Pooling
from headway.interop.hf_config import LARGEST, HFConfig, Ignored
from headway.interop.ignored_keys import COSINE, POOLING, PROMPTS, SENTENCE_LENGTH
from headway.interop.named_tokens import CONFIG_FILE, read_json_object

FILE = "modules.json"
LENGTH_FILE = "sentence_bert_config.json"
LENGTH_FILES = (
    LENGTH_FILE,
    *(
        f"sentence_{family}_config.json"
        for family in ("roberta", "distilbert", "camembert", "albert", "xlm-roberta", "xlnet")
    ),
)
"""Names of the file with the maximum length; sentence-transformers reads the first that exists."""
PACKAGE = "sentence_transformers."
FIRST = "0_Transformer"
POOLINGS: dict[str, Pooling] = {"mean": "mean", "cls": "first"}
LENGTH = "max_seq_length"
SHORTEST = 3  # tokens, of which two are special tokens
_MODE = "pooling_mode_"
PROMPTS_FILE = "config_sentence_transformers.json"
_MODES = {"mean_tokens": "mean", "cls_token": "cls"}


@dataclass(frozen=True, kw_only=True)
class EmbeddedTexts:
    """What sentence-transformers does to texts and vectors besides encoding and pooling.

    lowers: whether texts are converted to lower case. prompts: texts by name, of which one precedes
    each text. prompt: the name of the one that is used if a user names none; None for none.
    pools_prompt: whether a mean contains the vectors of the prompt. dimensions: the number of
    leading components of a vector that are kept; None for all.
    """

    lowers: bool = False
    prompts: Mapping[str, str] = field(default_factory=dict)
    prompt: str | None = None
    pools_prompt: bool = True
    dimensions: int | None = None

    def prefix(self, name: str | None = None) -> str:
        """Return the prompt of a name, or the one that is used without a name; "" for none.

        Raises UsageError for an unknown name.
        """
        if name is None and self.prompt is None:
            return ""
        if name is not None and name not in self.prompts:
            known = ", ".join(self.prompts) or "none"
            raise UsageError(f"the model has no prompt {name!r}; its prompts are: {known}")
        return self.prompts[str(self.prompt if name is None else name)]

    def prepared(self, text: str, prefix: str) -> str:
        """Return a text as it is encoded, after the prompt `prefix`."""
        text = prefix + text
        return text.lower() if self.lowers else text


AS_THEY_ARE = EmbeddedTexts()


@dataclass(frozen=True)
class SentenceFolder:
    """The parts of a sentence-transformers folder.

    encoder: the folder of the Transformer. pooling: reduces its vectors to one per text. length:
    maximum number of tokens of a text, special tokens included; None if not specified. texts: how a
    text is changed before it is encoded, and its vector after.
    """

    encoder: Path
    pooling: Pooling = "mean"
    length: int | None = None
    texts: EmbeddedTexts = AS_THEY_ARE


def read_sentence_folder(folder: Path) -> SentenceFolder:
    """Read modules.json of a folder, or of its parent if the folder is 0_Transformer. A folder
    without modules.json is an encoder alone.

    Raises DataError for a module or a pooling that is not supported.
    """
    if folder.name == FIRST and (folder.parent / FILE).is_file():
        folder = folder.parent
    path = folder / FILE
    if not path.is_file():
        return SentenceFolder(folder)
    modules = read_json(path)
    if not isinstance(modules, list) or not all(isinstance(item, dict) for item in modules):
        raise DataError("must be a list of modules (JSON objects)", str(path))
    encoder, pooling, pools_prompt = folder, POOLINGS["mean"], True
    poolings: list[HFConfig] = []
    for number, module in enumerate(modules):
        name = str(module.get("type"))
        # a class of the folder's own code may have the name of one of sentence-transformers
        kind = name.rpartition(".")[2] if name.startswith(PACKAGE) else name
        if kind == "Transformer" and number == 0:
            encoder = _inside(folder, module, path)
        elif kind == "Pooling":
            poolings.append(HFConfig.load(_inside(folder, module, path) / "config.json"))
            pooling, pools_prompt = _pooling(poolings[-1])
        elif kind != "Normalize":
            raise DataError(
                f"module {number} is {kind!r}, which is not supported at this position",
                str(path),
                "supported are Transformer (first), Pooling and Normalize; remove the file to "
                "use the encoder alone",
            )
    for config in poolings:
        modes = {key: Ignored("it is one of the modes") for key in config.values if _MODE in key}
        config.check_all_read({**POOLING, **modes})
    length, lowers = _length(encoder)
    texts = replace(_prompts(folder / PROMPTS_FILE), lowers=lowers, pools_prompt=pools_prompt)
    return SentenceFolder(encoder, pooling, length, texts)


def write_sentence_folder(folder: Path, width: int, how: SentenceFolder) -> None:
    """Add the files to an encoder's folder with which sentence-transformers computes the same
    vectors, normalised to length 1.

    width: dimension of the vectors. how: pooling and maximum length (its `encoder` is not used).
    """
    names = ("", "1_Pooling", "2_Normalize")
    kinds = ("Transformer", "Pooling", "Normalize")
    modules = [
        {"idx": i, "name": str(i), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for i, (path, kind) in enumerate(zip(names, kinds, strict=True))
    ]
    pooling: dict[str, object] = {"word_embedding_dimension": width}
    for mode, name in _MODES.items():
        pooling[_MODE + mode] = POOLINGS[name] == how.pooling
    pooling["include_prompt"] = how.texts.pools_prompt
    (folder / names[1]).mkdir()
    write_file(folder / names[1] / "config.json", json_bytes(pooling))
    write_file(
        folder / LENGTH_FILE, json_bytes({LENGTH: how.length, "do_lower_case": how.texts.lowers})
    )
    prompts = {
        "prompts": dict(how.texts.prompts),
        "default_prompt_name": how.texts.prompt,
        "similarity_fn_name": COSINE,
        "truncate_dim": how.texts.dimensions,
    }
    write_file(folder / PROMPTS_FILE, json_bytes(prompts))
    write_file(folder / FILE, json_bytes(modules))


def _inside(folder: Path, module: dict[str, object], path: Path) -> Path:
    """Return the folder of a module: `folder` or a folder in it."""
    name = module.get("path")
    if not isinstance(name, str) or name in (".", "..") or "/" in name or "\\" in name:
        raise DataError(
            f"path {name!r}: must be the name of a folder in the same folder", str(path)
        )
    return folder / name


def _pooling(config: HFConfig) -> tuple[Pooling, bool]:
    """Return the pooling, and whether it contains a prompt."""
    mode = config.values.get("pooling_mode")  # its name, in later versions
    if mode is None:
        keys = [key for key, value in config.values.items() if key.startswith(_MODE) and value]
        names = [key.removeprefix(_MODE) for key in keys]
        mode = "+".join(_MODES.get(name, name) for name in names) or "mean"
    if mode not in POOLINGS:
        raise DataError(
            f"pooling {mode!r} is not supported", config.where, "supported are mean and cls"
        )
    return POOLINGS[mode], config.flag("include_prompt", True)


def _prompts(path: Path) -> EmbeddedTexts:
    """Read config_sentence_transformers.json: prompts, and the number of components."""
    if not path.is_file():
        return AS_THEY_ARE
    config = HFConfig.load(path)
    texts = _texts(config, "default_prompt_name", "truncate_dim")
    config.check_all_read(PROMPTS)
    return texts


def read_embedded_texts(values: object, where: str) -> EmbeddedTexts:
    """Read `EmbeddedTexts` from the config.json of a saved model, which `where` names."""
    config = HFConfig(values if isinstance(values, dict) else {"texts": values}, where)
    texts = _texts(config, "prompt", "dimensions")
    lowers, pools_prompt = config.flag("lowers", False), config.flag("pools_prompt", True)
    config.check_all_read({})
    return replace(texts, lowers=lowers, pools_prompt=pools_prompt)


def _texts(config: HFConfig, prompt: str, dimensions: str) -> EmbeddedTexts:
    """Read prompts and the number of components. prompt, dimensions: the names of their keys."""
    prompts = config.values.get("prompts", {})
    texts = prompts.values() if isinstance(prompts, dict) else [None]
    if not all(isinstance(text, str) for text in texts):
        raise config.refusal("prompts", prompts, "an object of names and texts")
    name = config.values.get(prompt)
    if name is not None and name not in list(prompts):
        raise config.refusal(prompt, name, "the name of one of the prompts")
    size = config.whole(dimensions) if dimensions in config.values else None
    return EmbeddedTexts(prompts=prompts, prompt=name, dimensions=size)


def _length(encoder: Path) -> tuple[int | None, bool]:
    """Return the maximum length, and whether texts are converted to lower case.

    The length is that of sentence-transformers' file, or else that of the tokenizer.
    """
    found = (encoder / name for name in LENGTH_FILES if (encoder / name).is_file())
    path = next(found, None)
    config = HFConfig({}, str(encoder / LENGTH_FILE)) if path is None else HFConfig.load(path)
    lowers = config.flag("do_lower_case", False)
    config.check_all_read({**SENTENCE_LENGTH, LENGTH: Ignored("it is read below")})
    if LENGTH not in config.values:
        return _length_of_tokenizer(encoder / CONFIG_FILE), lowers
    length = config.whole(LENGTH)
    if length < SHORTEST:
        raise config.refusal(LENGTH, length, f"{SHORTEST} or more, two of which are special tokens")
    return length, lowers


def _length_of_tokenizer(path: Path) -> int | None:
    """Return the maximum length in tokenizer_config.json; None if there is none, or a number that
    stands for none."""
    length = read_json_object(path).get("model_max_length")
    return length if type(length) is int and SHORTEST <= length < LARGEST else None
