"""Configuration of a run that trains a multimodal GPT, and the recipe."""

from dataclasses import dataclass, fields
from typing import Literal

from headway.base.settings import (
    BATCH,
    LENGTH,
    VOCABULARY,
    count,
    flat,
    section,
    setting,
    with_default,
)
from headway.models import GPTConfig, MultimodalGPTConfig
from headway.tasks.image_config import ImageDataConfig, ImageEncoderSettings, decided_by_images
from headway.tasks.sections import (
    BlocksLoopConfig,
    ExamplesConfig,
    ObservationConfig,
    RunSettings,
    averaging,
)
from headway.training import OptimizerConfig, ScheduleConfig

LONGEST = 512
"""The maximum number of tokens of a conversation, if it is unset and the model allows it."""


@dataclass(frozen=True, kw_only=True)
class SeeDataConfig(ExamplesConfig, ImageDataConfig):
    """The conversations with images of a run, and how the images are resized."""

    train: tuple[str, ...] = setting(
        (),
        "training conversations: .jsonl, .json or .parquet with messages, whose content is a list "
        "of texts and of images: type image, and path, which is relative to the file",
    )
    vocabulary: int = count(
        1000,
        "vocabulary size of the tokenizer, if no language model brings one",
        VOCABULARY,
        least=257,
    )


@dataclass(frozen=True, kw_only=True)
class SeeModelConfig(MultimodalGPTConfig):
    """Shapes of the language model and of the image encoder.

    A pre-trained language model or encoder decides its own shape; only its dropout can be set.
    """

    vit: ImageEncoderSettings = section(ImageEncoderSettings)

    @property
    def architecture(self) -> MultimodalGPTConfig:
        """The configuration of the model; the settings that the data decide must be set."""
        values = {field.name: getattr(self, field.name) for field in fields(MultimodalGPTConfig)}
        return MultimodalGPTConfig(**{**values, "vit": self.vit.vit})


WRITES = tuple(name for name in flat(GPTConfig()) if name not in ("dropout", "vocabulary"))
"""The settings of the language model that a pre-trained one decides."""


@dataclass(frozen=True, kw_only=True)
class SeeTrainingConfig(BlocksLoopConfig):
    """Settings of the training loop of a multimodal GPT."""

    steps: int = with_default(BlocksLoopConfig, "steps", 6000)
    average: float = averaging(0.0)
    batch_size: int = count(32, "batch size, in conversations", BATCH)
    length: int | None = count(
        None,
        f"maximum length of a conversation in tokens and patches; if unset, {LONGEST}, or the "
        "maximum length of the model if that is less",
        LENGTH,
        least=2,
    )
    start: str | None = setting(
        None,
        "pre-trained language model, which brings its tokenizer: a run or a model (short: --from); "
        "if unset, from scratch",
    )
    encoder: str | None = setting(
        None,
        "pre-trained image encoder: a run or a model (short: --from-encoder); if unset, from "
        "scratch",
    )
    frozen: bool = setting(False, "freeze the pre-trained image encoder")


@dataclass(frozen=True, kw_only=True)
class SeeEvaluationConfig(ObservationConfig):
    """Settings of the evaluation during training."""

    metric: Literal["exact", "nats"] = setting("exact", "metric that selects the best model")
    conversations: int = setting(
        400,
        "maximum number of held-out conversations, evenly spaced, that are scored and whose last "
        "question the model answers",
        gt=0,
    )
    sample: int = setting(2, "number of answers that are shown", ge=0)


@dataclass(frozen=True, kw_only=True)
class SeeScoring:
    """Options of the evaluation of a multimodal GPT."""

    conversations: int | None = setting(
        None, "maximum number of conversations, evenly spaced; if unset, all", gt=0
    )
    sample: int = setting(0, "number of answers that are shown", ge=0)


@dataclass(frozen=True, kw_only=True)
class SeeRunConfig(RunSettings):
    """Configuration of a run that trains a multimodal GPT on conversations with images."""

    recipe: str = setting("see", "name of the recipe that these settings extend")
    data: SeeDataConfig = section(SeeDataConfig)
    model: SeeModelConfig = section(SeeModelConfig)
    training: SeeTrainingConfig = section(SeeTrainingConfig)
    evaluation: SeeEvaluationConfig = section(SeeEvaluationConfig)

    data_may_decide = ("training.length",)

    @property
    def decided_by_data(self) -> frozenset[str]:
        """The dotted keys of the settings that the data or the pre-trained models decide."""
        training = self.training
        decided = {"model.vocabulary", "model.image_token"} | super().decided_by_data
        decided |= decided_by_images(self.model.vit, training.encoder, "model.vit")
        if training.start is not None:
            decided |= {f"model.{name}" for name in WRITES}
        return frozenset(decided)


def see() -> SeeRunConfig:
    """A GPT that answers questions about images: an image encoder and a GPT of 4 layers each.

    headway data fetch drawn-shapes makes a first data set. From scratch, or from pre-trained
    models: --from GPT --from-encoder VIT; add --optimizer.kind adamw --optimizer.lr 2e-4 then.
    Scores: docs/tasks/seeing.md. The result opens with headway chat --image and headway serve.
    """
    return SeeRunConfig(
        recipe="see",
        model=SeeModelConfig(
            **{**GPTConfig.sizes["modern-char"], "max_length": LONGEST},  # type: ignore[arg-type]
            vit=ImageEncoderSettings(
                model_dim=128,
                num_heads=4,
                ffn_dim=512,
                num_layers=4,
                patch_size=16,
            ),
        ),
        optimizer=OptimizerConfig(
            kind="muon", lr=3e-3, muon_lr=1e-2, beta2=0.98, eps=1e-8, weight_decay=0.05
        ),
        schedule=ScheduleConfig(kind="warmup-stable-decay", warmup=0.04, decay=0.5, final=0.0),
    )
