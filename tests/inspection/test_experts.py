"""Mixtures of experts, looked into: readers of each token, held-out text, a model without one."""

import pytest
import torch

from headway.blocks import Experts
from headway.inspection.experts import held_out_reads, most_read, with_held_out, without_expert
from headway.inspection.watch import OF_A_PAGE, parameters_of_a_token, watch
from tests.fixtures.bundles import gpt, gpt_classifier

TEXT = "the fox eats the lemon and the dog eats the bread"
TEXTS = [TEXT, "the dog eats", "a fox and the bread"]


def mixed(**changes):
    return gpt(activation="swiglu", experts=Experts(total=5, layers="de", ffn_dim=12), **changes)


def test_the_experts_of_each_token_are_those_of_the_router():
    bundle = mixed()
    frame = watch(bundle, TEXT, written=0, analyses=OF_A_PAGE)
    (mixture,) = frame.mixtures
    assert (mixture.name, mixture.layer, mixture.total) == ("decoder.blocks.1.feedforward", 2, 5)
    tokens = frame.sides[mixture.side].tokens
    assert len(mixture.chosen) == len(mixture.weights) == len(tokens)
    block = bundle.model.decoder.blocks[1]
    seen = []
    block.feedforward.register_forward_hook(lambda module, inputs, output: seen.append(inputs[0]))
    with torch.no_grad():
        bundle.probe(TEXT, written=0).reading.run()
    experts, weights = block.feedforward.router.choice(block.feedforward.router(seen[-1][0]))
    assert mixture.chosen == experts.tolist()
    assert torch.allclose(torch.tensor(mixture.weights), weights)


def test_without_an_expert_its_tokens_keep_what_their_other_experts_compute():
    block = mixed().model.decoder.blocks[1].feedforward.eval()
    x = torch.randn(1, 7, 24)
    experts, weights = block.router.choice(block.router(x[0]))
    whole = block(x)
    with without_expert(block, 3):
        without = block(x)
    assert torch.equal(block(x), whole)
    share = torch.where(experts == 3, weights, 0.0).sum(-1)
    assert (share > 0).any() and not (share > 0).all()
    assert torch.allclose(without[0], whole[0] - share[:, None] * block.experts[3](x)[0], atol=1e-6)


def test_the_effect_of_an_expert_are_the_predictions_of_a_forward_pass_without_it():
    bundle = mixed()
    frame = watch(bundle, TEXT, written=0, analyses=("effects",))
    (mixture,) = frame.mixtures
    number = max(range(5), key=lambda n: len(mixture.effects[n].changed))
    probe = bundle.probe(TEXT, written=0)
    with torch.no_grad():
        best = probe.readout.logits(probe.reading.run()).argmax(-1, keepdim=True)
        before = probe.readout.logits(probe.reading.run()).log_softmax(-1).gather(1, best)
        with without_expert(bundle.model.decoder.blocks[1].feedforward, number):
            after = probe.readout.logits(probe.reading.run()).log_softmax(-1)
    kept = after.gather(1, best)
    assert mixture.falls[number] == pytest.approx(float((before - kept).mean()), abs=1e-5)
    probabilities = pytest.approx(kept.exp()[:, 0].tolist(), rel=1e-4)
    assert mixture.effects[number].probabilities == probabilities
    changed = (after.argmax(-1) != best[:, 0]).nonzero()[:, 0].tolist()
    assert sorted(mixture.effects[number].changed) == changed and changed
    assert len(mixture.effects) == len(mixture.falls) == 5
    assert watch(bundle, TEXT, written=0, analyses=()).mixtures[0].effects == ()


def test_held_out_reads_count_every_choice_in_every_text():
    bundle = mixed()
    (name,) = reads = held_out_reads(bundle, TEXTS)
    counted = torch.zeros(5)
    times: dict[tuple[int, str], int] = {}
    occurrences: dict[str, int] = {}
    for text in TEXTS:
        frame = watch(bundle, text, written=0, analyses=())
        (mixture,) = frame.mixtures
        for chosen, token in zip(mixture.chosen, frame.sides[mixture.side].tokens, strict=True):
            occurrences[token] = occurrences.get(token, 0) + 1
            for expert in chosen:
                counted[expert] += 1
                times[expert, token] = times.get((expert, token), 0) + 1
    loads = [expert.load for expert in reads[name]]
    assert loads == pytest.approx((counted / counted.sum()).tolist())
    assert any(expert.tokens for expert in reads[name])
    for number, expert in enumerate(reads[name]):
        for token, count, fraction in expert.tokens:
            assert count == times[number, token]
            assert fraction == pytest.approx(count / occurrences[token])
    frame = with_held_out(watch(bundle, TEXT, written=0, analyses=()), reads)
    assert frame.mixtures[0].held_out == reads[name]


def test_a_frequent_token_is_most_read_only_by_experts_that_prefer_it():
    read = torch.tensor([[90, 1, 9], [10, 9, 1], [100, 0, 0]])
    most = most_read(read, 1)
    assert [[token for token, *_ in expert] for expert in most] == [[2], [1, 2], [0]]
    assert most[1][0] == (1, 9, pytest.approx(0.9))


def test_a_classifier_shows_its_experts_and_a_dense_model_has_none():
    assert watch(gpt(), TEXT, written=0).mixtures == []
    assert held_out_reads(gpt(), TEXTS) == {} == held_out_reads(mixed(), [])
    bundle = gpt_classifier()
    bundle.model = type(bundle.model)(mixed().model, 2)
    frame = watch(bundle, TEXT)
    assert [one.layer for one in frame.mixtures] == [2]
    assert len(frame.mixtures[0].chosen) == len(frame.sides[frame.mixtures[0].side].tokens)


def test_experts_that_do_not_read_a_token_do_not_count_as_its_parameters():
    model = mixed().model
    expert = sum(p.numel() for p in model.decoder.blocks[1].feedforward.experts[0].parameters())
    assert parameters_of_a_token(model) == sum(p.numel() for p in model.parameters()) - 3 * expert
