from dataclasses import replace

import pytest
import torch

from headway.models import Translator, TranslatorConfig, parameter_count


def sized(name: str, vocabulary: int) -> TranslatorConfig:
    config = TranslatorConfig(source_vocabulary=vocabulary, target_vocabulary=vocabulary)
    return replace(config, **TranslatorConfig.sizes[name])


@pytest.mark.parametrize(
    ("name", "expected"),
    [("base", 63_082_496), ("big", 214_245_376)],  # the paper rounds to 65 and 213 million
)
def test_the_papers_sizes_have_the_papers_parameters(name, expected):
    with torch.device("meta"):
        model = Translator(sized(name, 37_000))
    assert parameter_count(model) == expected
    millions = {"base": 65, "big": 213}[name]
    assert abs(expected / 1e6 - millions) / millions < 0.03


def test_the_number_of_parameters_is_that_of_the_equations():
    config = sized("base", 37_000)
    d, f = config.model_dim, config.ffn_dim
    attention, feedforward, norm = 4 * (d * d + d), 2 * d * f + f + d, 2 * d
    encoder = 6 * (attention + feedforward + 2 * norm)
    decoder = 6 * (2 * attention + feedforward + 3 * norm)
    with torch.device("meta"):
        assert parameter_count(Translator(config)) == 37_000 * d + encoder + decoder


def test_tied_matrices_are_one_and_untied_are_three():
    config = TranslatorConfig(source_vocabulary=20, target_vocabulary=20)
    tied = Translator(config)
    assert tied.output.weight is tied.source_embedding.tokens.weight
    untied = Translator(replace(config, share_embeddings=False, tie_output=False))
    assert parameter_count(untied) - parameter_count(tied) == 2 * 20 * config.model_dim


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_heads": 7}, "model_dim=128 must be a multiple of num_heads=7"),
        ({"target_vocabulary": 9}, "one joint vocabulary"),
        ({"position_dim": 8}, "position_dim=8 makes word vectors narrower"),
        ({"position_dim": 128}, "leaves no room"),
    ],
)
def test_invalid_shapes_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        TranslatorConfig(**changes)


def test_initial_predictions_are_near_uniform():
    """The cross-entropy of a new model is about ln V: no layer amplifies the signal."""
    model = Translator(sized("tiny", 1000)).eval()
    source, read = torch.randint(3, 1000, (4, 9)), torch.randint(3, 1000, (4, 8))
    targets = torch.randint(3, 1000, (32,))
    with torch.no_grad():
        logits = model(source, read).flatten(0, 1)
    loss = float(torch.nn.functional.cross_entropy(logits, targets))
    assert 6.5 < loss < 8.5  # ln 1000 = 6.9


def test_the_same_seed_gives_the_same_weights():
    models = []
    for _ in range(2):
        torch.manual_seed(3)
        models.append(Translator(sized("tiny", 50)))
    for a, b in zip(*(m.parameters() for m in models), strict=True):
        assert torch.equal(a, b)
