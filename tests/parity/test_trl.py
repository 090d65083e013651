"""Losses and target masks beside those of TRL, where it is installed: `pip install trl`, `-m slow`.

TRL itself computes them, on log-probabilities or conversations that both read.
"""

from collections import defaultdict
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from headway.bundle import TextBundle
from headway.interop import ChatTemplate, write_text_model
from headway.tasks.dialogue_store import with_vocabulary
from headway.tasks.target_mask import TEMPLATE, OwnRenderer, with_role_tokens
from headway.training import PreferenceConfig, preference_losses
from headway.training.objectives.preference import AnswerPairs
from tests.fixtures.dialogues import TALKS, language_model

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]

HERE = SimpleNamespace(device="cpu", gather=lambda x: x, gather_for_metrics=lambda x: x)
LENGTHS = torch.tensor([[3, 1, 7, 4], [2, 5, 6, 4]])
T = 8


@pytest.fixture(scope="module", autouse=True)
def trl():
    return pytest.importorskip("trl")


@pytest.fixture
def token_log_p():
    """Log-probabilities of the tokens of four better and four worse answers; 0 after their ends."""
    torch.manual_seed(2)
    values = -2 * torch.rand(8, T, dtype=torch.double) - 0.05
    values = torch.where(torch.arange(T) < LENGTHS.view(8, 1), values, 0.0)
    return values.requires_grad_()


def answers(token_log_p, reference):
    chosen, rejected = token_log_p.sum(1).chunk(2)
    return AnswerPairs(chosen, rejected, *LENGTHS, *reference)


def assert_equal(ours, theirs, token_log_p):
    """Losses and their gradients by the log-probability of each token."""
    (mine,) = torch.autograd.grad(ours.mean(), token_log_p, retain_graph=True)
    (other,) = torch.autograd.grad(theirs.mean(), token_log_p)
    torch.testing.assert_close(ours.mean(), theirs.mean().double(), rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(mine, other, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("beta", [0.1, 0.7])
def test_dpo(token_log_p, beta):
    from trl import DPOTrainer

    reference = token_log_p.detach().sum(1).roll(1).chunk(2)
    nothing = torch.zeros(8, T)
    outputs = SimpleNamespace(
        log_probs=token_log_p, entropy=nothing, mean_logits=nothing, is_top1=nothing.bool()
    )
    trainer = SimpleNamespace(
        model=SimpleNamespace(training=False),
        accelerator=HERE,
        aux_loss_enabled=False,
        ld_alpha=None,
        precompute_ref_logps=True,
        f_divergence_type="reverse_kl",
        loss_types=["sigmoid"],
        loss_weights=[1.0],
        beta=beta,
        label_smoothing=0.0,
        use_weighting=False,
        _metrics=defaultdict(lambda: defaultdict(list)),
        _total_train_tokens=0,
    )
    is_answer = torch.arange(T + 1) <= LENGTHS.view(8, 1)
    is_answer[:, 0] = False  # the first token is the prompt
    inputs = {
        "input_ids": torch.zeros(8, T + 1, dtype=torch.long),
        "attention_mask": torch.ones(8, T + 1, dtype=torch.long),
        "completion_mask": is_answer.long(),
        "ref_chosen_logps": reference[0],
        "ref_rejected_logps": reference[1],
    }
    theirs = DPOTrainer._compute_loss(trainer, lambda **fields: outputs, inputs, False)
    config = PreferenceConfig(kind="dpo", beta=beta)
    assert_equal(preference_losses(answers(token_log_p, reference), config), theirs, token_log_p)


def test_simpo(token_log_p):
    from trl.experimental.cpo import CPOTrainer

    trainer = SimpleNamespace(
        alpha=0.0,
        beta=2.5,
        loss_type="simpo",
        simpo_gamma=0.3,
        label_smoothing=0.0,
        accelerator=HERE,
    )
    pairs = answers(token_log_p, torch.zeros(2, 4, dtype=torch.double))
    theirs, *_ = CPOTrainer.cpo_loss(trainer, *pairs.means)
    config = PreferenceConfig(kind="simpo", beta=2.5, gamma=0.3)
    assert_equal(preference_losses(pairs, config), theirs, token_log_p)


def test_orpo(token_log_p):
    """Its other term, the cross-entropy, is that of the answer, as in the paper; TRL's is that of
    prompt and answer."""
    from trl.experimental.orpo import ORPOTrainer

    pairs = answers(token_log_p, torch.zeros(2, 4, dtype=torch.double))
    trainer = SimpleNamespace(beta=0.7, accelerator=HERE)
    ratios, *_ = ORPOTrainer.odds_ratio_loss(trainer, *pairs.means)
    theirs = -pairs.means[0] - ratios
    config = PreferenceConfig(kind="orpo", beta=0.7)
    assert_equal(preference_losses(pairs, config), theirs, token_log_p)


def test_the_target_masks_of_the_same_conversations(tmp_path, monkeypatch):
    from datasets import Dataset
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from trl import SFTConfig, SFTTrainer

    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    start = language_model()
    tokenizer = with_role_tokens(start.tokenizer)
    settings = replace(start.settings, template=ChatTemplate(by_name={"default": TEMPLATE}))
    bundle = TextBundle(with_vocabulary(start.model, tokenizer.size), tokenizer, settings)
    write_text_model(bundle.model, tokenizer, tmp_path / "hf", settings=settings)
    talks = [talk for talk in TALKS if talk.turns]
    rows = [
        {"messages": [{"role": turn.role, "content": turn.content} for turn in talk.turns]}
        for talk in talks
    ]
    trainer = SFTTrainer(
        model=AutoModelForCausalLM.from_pretrained(tmp_path / "hf"),
        args=SFTConfig(
            output_dir=str(tmp_path / "out"),
            assistant_only_loss=True,
            max_length=None,
            report_to="none",
            use_cpu=True,
            bf16=False,
        ),
        train_dataset=Dataset.from_list(rows),
        processing_class=AutoTokenizer.from_pretrained(tmp_path / "hf"),
    )
    renderer = OwnRenderer(tokenizer)
    for talk, theirs in zip(talks, trainer.train_dataset, strict=True):
        ours = renderer.render(talk)
        assert theirs["input_ids"] == ours.tokens
        assert [one != -100 for one in theirs["labels"]] == ours.is_target
