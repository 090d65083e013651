"""Memory and time of training, compared with results by hand."""

import pytest

from headway.base.errors import UsageError
from headway.models import GPTConfig
from headway.models.budget import (
    DAY,
    GPUS,
    PAPERS,
    PRECISIONS,
    Links,
    Split,
    gathered_memory,
    memory,
    seconds,
    sent_bytes,
    splits,
    state_memory,
    tensor_sizes,
)
from headway.models.cost import parameters

GPT3 = GPTConfig(**GPTConfig.sizes["gpt3-175b"])
GROUPED = GPTConfig(num_heads=12, num_kv_heads=4, model_dim=48, ffn_dim=80)


@pytest.mark.parametrize(
    ("name", "bytes_each"), [("bf16", 16), ("bf16-fp32-grad", 18), ("fp32", 16)]
)
def test_ddp_stores_everything_on_every_gpu(name, bytes_each):
    count = parameters(GPT3)
    state = state_memory(count, Split(data=64), PRECISIONS[name])
    assert sum(state) == bytes_each * 174_604_259_328
    assert sum(state) == pytest.approx(bytes_each * 174.6e9, rel=1e-3)  # 2.8 TB


def test_fsdp_shards_everything_except_gathered_layers():
    count, split = parameters(GPT3), Split(data=64, sharded=True)
    state = state_memory(count, split, PRECISIONS["bf16"])
    assert sum(state) == 16 * 174_604_259_328 / 64
    block, ends = 1_812_099_072, 642_748_416
    assert gathered_memory(count, split, PRECISIONS["bf16"]) == 2 * (ends + 2 * block) + 2 * block
    assert gathered_memory(count, Split(data=64), PRECISIONS["bf16"]) == 0


def test_tensor_parallelism_splits_matrices_and_replicates_the_rest():
    state = state_memory(parameters(GPT3), Split(tensor=8, data=2), PRECISIONS["bf16"])
    rest = 174_604_259_328 - 174_563_733_504
    assert state == tuple(size_of_kind * (21_820_466_688 + rest) for size_of_kind in (2, 2, 12))
    both = state_memory(parameters(GPT3), Split(tensor=8, data=2, sharded=True), PRECISIONS["bf16"])
    assert both == tuple(size // 2 for size in state)


def test_the_total_is_the_sum_of_its_parts():
    peak = memory(GPT3, Split(), PRECISIONS["bf16"], tokens=2048, length=2048)
    activations = 34 * 2048 * 12_288 * 96 + 4 * 2048 * 12_288
    assert peak.activations == activations
    assert peak.total == 16 * 174_604_259_328 + activations


def test_time_equals_a_result_by_hand():
    assert seconds(3.14e23, 1, 312e12, 0.4) / DAY == pytest.approx(29_121, abs=1)
    assert seconds(3.14e23, 1024, 312e12, 0.4) / DAY == pytest.approx(28.44, abs=0.01)
    assert seconds(6e12, 2, 1e12, 0.5) == 6


@pytest.mark.parametrize(
    "invalid", [{"gpus": 0}, {"rate": 0.0}, {"mfu": 0.0}, {"mfu": 1.5}, {"flops": -1.0}]
)
def test_invalid_values_are_refused(invalid):
    with pytest.raises(ValueError, match="were expected, but flops="):
        seconds(**{"flops": 1e20, "gpus": 2, "rate": 1e12, "mfu": 0.5, **invalid})


def test_tensor_parallel_sizes_divide_gpus_and_heads():
    assert tensor_sizes(GPT3, 1024) == [1, 2, 4, 8, 16, 32]
    assert tensor_sizes(GPT3, 36) == [1, 2, 3, 4, 6, 12]
    assert tensor_sizes(GROUPED, 24) == [1, 2, 4]  # four heads of keys and values


def test_the_compared_configurations():
    assert [str(split) for split in splits(GPT3, 1024)] == [
        *("DDP 1,024", "FSDP 1,024", "tensor 8 x DDP 128", "tensor 8 x FSDP 128")
    ]
    assert [str(split) for split in splits(GPT3, 4, [4, 4])] == ["DDP 4", "FSDP 4", "tensor 4"]
    assert [str(split) for split in splits(GPT3, 1)] == ["one device"]
    assert all(split.tensor * split.data == 24 for split in splits(GPT3, 24, [2, 3]))


def test_an_invalid_tensor_parallel_size_is_refused_with_the_valid_ones():
    with pytest.raises(UsageError, match=r"--tensor 5.*\n.*--tensor 1 or 2 or 4 or 8"):
        splits(GPT3, 40, [5])
    with pytest.raises(UsageError, match="--tensor 0"):
        splits(GPT3, 40, [0])


def test_every_size_of_a_paper_is_one_of_ours_and_within_three_percent_of_its_name():
    """The exception is GPT-2's smallest: 117 M in the paper's table, 124 M in its files."""
    for size, in_paper in PAPERS.items():
        total = parameters(GPTConfig(**GPTConfig.sizes[size])).total
        assert total == pytest.approx(in_paper, rel=0.07 if size == "gpt2-small" else 0.03), size


def test_gpus_multiply_faster_in_16_bits():
    assert all(kind.half > 10 * kind.single and kind.memory >= 80 for kind in GPUS.values())


def test_what_gpus_send_is_the_volume_of_the_paper():
    """2 P numbers by DDP and 3 P by FSDP, with many GPUs; half as much with two."""
    count, precision = parameters(GPT3), PRECISIONS["bf16"]
    sent = {
        (data, sharded): sent_bytes(count, Split(data=data, sharded=sharded), precision)
        for data in (1, 2, 1024)
        for sharded in (False, True)
    }
    assert sent[1, False] == sent[1, True] == 0
    assert sent[2, False] == 2 * count.total and sent[2, True] == 3 * count.total
    assert sent[1024, False] / 2 / count.total == pytest.approx(2 * 1023 / 1024)
    assert sent[1024, True] / 2 / count.total == pytest.approx(3 * 1023 / 1024)


def test_a_ring_through_machines_is_as_slow_as_their_network():
    a100, h100, h200 = (GPUS[name].links for name in ("a100", "h100", "h200"))
    assert a100.sends(8) == 230e9 and a100.sends(9) == 192e9
    assert h100.sends(8) == 370e9 and h200.sends(1024) == 368e9
    assert Links(link=20e9, network=12.5e9).sends(16) == 20e9  # eight adapters, slower links
