"""Pre-training heads of the named sizes have the parameters of the released models."""

from dataclasses import replace

import torch
import transformers

from headway.models import Bert, BertConfig, parameter_count


def test_the_heads_of_pre_training_have_the_released_parameters():
    shapes = {
        ("base", "BertForPreTraining"): {},
        ("distilbert", "DistilBertForMaskedLM"): {},
        ("roberta-base", "RobertaForMaskedLM"): {
            "max_position_embeddings": 514,
            "type_vocab_size": 1,
        },
    }
    for (size, architecture), config in shapes.items():
        kind = getattr(transformers, architecture)
        with torch.device("meta"):
            ours = Bert(replace(BertConfig(), **BertConfig.sizes[size]))
            other = kind(kind.config_class(**config))
            other.tie_weights()
        assert parameter_count(ours) == other.num_parameters()
