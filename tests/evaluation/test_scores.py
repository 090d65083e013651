import math

import pytest
import sacrebleu
import torch

from headway.evaluation import bits_per_byte, nats_of, score_translations

OUTPUTS = ["the old baker waves", "two dogs play in the garden", "a red lemon"]
REFERENCES = ["the old baker waves at us", "two dogs play in the garden", "one yellow lemon"]


def test_scores_equal_sacrebleus_with_their_signatures():
    scores = score_translations(OUTPUTS, REFERENCES)
    assert scores.bleu == pytest.approx(sacrebleu.corpus_bleu(OUTPUTS, [REFERENCES]).score)
    assert scores.chrf == pytest.approx(sacrebleu.corpus_chrf(OUTPUTS, [REFERENCES]).score)
    assert "tok:13a" in scores.bleu_signature and "case:mixed" in scores.bleu_signature
    assert scores.sentences == 3


def test_unequal_or_empty_lists_are_refused():
    for outputs, references in (([], []), (["a"], ["a", "b"])):
        with pytest.raises(ValueError, match="must be equal"):
            score_translations(outputs, references)


def test_perplexity_is_over_tokens_not_over_batches():
    batches = [(8.0, 2), (1.0, 8)]
    assert nats_of(lambda batch: batch, batches).mean == pytest.approx(0.9)
    with pytest.raises(ValueError, match="no targets"):
        nats_of(lambda batch: batch, [])
    assert not torch.is_inference_mode_enabled()


def test_bits_per_byte_of_uniform_predictions():
    """Four tokens of 256 even choices over six bytes: 8 bits each."""
    assert bits_per_byte(4 * math.log(256), 6) == pytest.approx(4 * 8 / 6, rel=1e-12)
    assert bits_per_byte(0.0, 1) == 0
    with pytest.raises(ValueError, match="num_bytes=0"):
        bits_per_byte(1.0, 0)
