"""The device and dtype are chosen once and reported; missing devices are refused."""

from __future__ import annotations

import json
import platform
import subprocess
import sys
import time

import pytest
import torch
from tests.fixtures.command_line import headway as command_line
from tests.fixtures.model_server import memory

import headway
from headway.base import devices
from headway.base.devices import Machine, MachineConfig, multiplies_bfloat16, prepare, select_device
from headway.base.errors import UsageError
from headway.base.memory import return_freed_memory
from headway.base.settings import override
from headway.base.threads import fastest_threads
from headway.base.transfers import positions_where, read, upload
from headway.cli.doctor import describe
from headway.cli.machine import MachineFlags
from headway.tasks import opening
from headway.tasks.opening import load


@pytest.fixture(autouse=True)
def restore_process_settings():
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)
    torch.set_flush_denormal(False)


def best_device():
    available = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    return next((name for name, is_available in available.items() if is_available), "cpu")


def test_auto_selects_the_best_available_device():
    assert prepare(MachineConfig()).device == best_device()


@pytest.mark.parametrize(
    ("instructions", "note"),
    [(("avx512_bf16",), ""), ((), ", slower than float32 on this processor: --dtype float32")],
)
def test_bfloat16_on_a_cpu_without_instructions_for_it_is_called_slow(
    instructions, note, monkeypatch
):
    monkeypatch.setattr(devices, "bfloat16_instructions", lambda: instructions)
    assert str(Machine("cpu", "bfloat16", 2)) == f"cpu (2 threads) · bfloat16{note}"
    assert str(Machine("cpu", "float32", 2)) == "cpu (2 threads) · float32"
    assert str(Machine("cuda", "bfloat16", 2)) == "cuda · bfloat16"
    assert multiplies_bfloat16("cpu") == bool(instructions)


@pytest.mark.parametrize(
    ("device", "instructions", "is_supported", "selected"),
    [
        ("cpu", ("avx512_bf16",), False, "bfloat16"),
        ("cpu", (), True, "float32"),
        ("cpu", None, True, "float32"),
        ("cuda", (), True, "bfloat16"),
        ("cuda", ("avx512_bf16",), False, "float32"),
        ("mps", ("bf16",), True, "float32"),
    ],
)
def test_auto_selects_bfloat16_where_the_device_multiplies_it(
    device, instructions, is_supported, selected, monkeypatch
):
    monkeypatch.setattr(devices, "bfloat16_instructions", lambda: instructions)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda emulated: is_supported)
    dtype_for = devices.dtype_for.__wrapped__  # of which tests replace the choice
    assert dtype_for(device, "auto") == selected
    assert dtype_for(device, "float32") == "float32"
    assert dtype_for(device, "bfloat16") == "bfloat16"


@pytest.mark.parametrize("limit", ["AVX2", "avx2_vnni", "AVX512_CORE"])
def test_a_limit_of_the_products_library_leaves_no_instructions_for_bfloat16(limit, monkeypatch):
    monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", limit)
    assert devices.bfloat16_instructions.__wrapped__() == ()


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="needs glibc")
def test_freed_memory_is_given_back_between_blocks_in_use():
    prepare(MachineConfig(device="cpu"))
    blocks = [torch.zeros(2**14) for _ in range(2000)]  # 64 KiB each, 125 MiB together
    kept = blocks[::10]
    held = memory()
    del blocks
    return_freed_memory()
    assert memory() < held - 80
    assert sum(block.sum().item() for block in kept) == 0


def test_threads_are_set_or_unchanged():
    before = torch.get_num_threads()
    assert prepare(MachineConfig(device="cpu")).threads == before
    assert prepare(MachineConfig(device="cpu", threads=1)) == Machine("cpu", "float32", 1)
    assert torch.get_num_threads() == 1


@pytest.mark.parametrize("slow, fastest", [((2, 3), 1), ((1, 2), 3), ((), 1)])
def test_the_fastest_number_of_threads_is_found(monkeypatch, slow, fastest):
    """More threads are used only if they are faster; here some numbers take a second."""
    numbers, clock = [3], [0.0]

    def product(x, weight):
        clock[0] += 1.0 if numbers[-1] in slow else 0.001
        return x

    monkeypatch.setattr(torch, "get_num_threads", lambda: 3)
    monkeypatch.setattr(torch, "set_num_threads", numbers.append)
    monkeypatch.setattr(torch.nn.functional, "linear", product)
    monkeypatch.setattr(time, "perf_counter", lambda: clock[0])
    chosen = fastest_threads()
    assert numbers[-1] == 3 and set(numbers) == {1, 2, 3}
    assert chosen == fastest


def test_auto_is_a_gpu_where_torch_can_use_one(monkeypatch):
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert select_device() == "mps"
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert select_device() == "cuda"
    assert select_device("cpu") == "cpu"


def test_python_and_the_command_line_load_onto_the_same_device(monkeypatch, tmp_path):
    def refuse(folder, device, verify, family):
        raise UsageError(f"it would be loaded onto {device}")

    monkeypatch.setattr(opening, "_open", refuse)
    for is_available, device in ((True, "cuda"), (False, "cpu")):
        monkeypatch.setattr(torch.cuda, "is_available", lambda answer=is_available: answer)
        monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
        with pytest.raises(UsageError, match=f"loaded onto {device}"):
            load("a model")
        with pytest.raises(UsageError, match=f"loaded onto {device}"):
            headway.evaluate("a model")
        for verb in (["generate", "m", "the fox"], ["eval", "m"], ["inspect", "m", "the fox"]):
            stderr = command_line(*verb, cwd=tmp_path, check=2).stderr
            assert f"loaded onto {device}" in stderr
            assert ("machine   cuda · float32" in stderr) == is_available


@pytest.mark.parametrize("device", ["gpu", "cuda:7", "mps", ""])
def test_a_device_that_is_not_there_is_refused_in_python_too(monkeypatch, device):
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    with pytest.raises(UsageError, match="not available on this machine") as caught:
        load("nowhere", device)
    assert caught.value.hint == "one of: auto, cuda, cpu"


@pytest.mark.parametrize("device", ["cuda", "mps"])
def test_a_missing_device_is_refused_with_the_available_ones(monkeypatch, device):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    with pytest.raises(UsageError, match=f"device={device}") as caught:
        prepare(MachineConfig(device=device))
    assert caught.value.hint == "one of: auto, cpu"


@pytest.mark.parametrize("invalid", [{"device": "tpu"}, {"dtype": "float16"}, {"threads": "0"}])
def test_an_invalid_value_is_refused_when_it_is_parsed(invalid):
    with pytest.raises(UsageError, match="must be"):
        override(MachineConfig(), invalid, "flags")


def test_bfloat16_is_used_for_matrix_products_only():
    x = torch.ones(3, 5)
    with prepare(MachineConfig(device="cpu", dtype="bfloat16")).precision():
        assert (x @ x.T).dtype == torch.bfloat16
        assert x.softmax(-1).dtype == torch.float32
    with prepare(MachineConfig(device="cpu")).precision():
        assert (x @ x.T).dtype == torch.float32


def test_a_machine_is_described_in_one_line():
    assert str(Machine("cpu", "float32", 2)) == "cpu (2 threads) · float32"
    assert str(Machine("cuda", "bfloat16", 2)) == "cuda · bfloat16"


PREPARED = """
import json, resource, torch
from headway.base.devices import MachineConfig, prepare

def faults():
    for _ in range(20):  # 48 MiB: above the size for which glibc maps new memory each time
        torch.ones(12 * 2**20)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(5):
        torch.ones(12 * 2**20)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

torch.set_num_threads(1)  # a thread that exists already would keep its mode
can_flush = torch.set_flush_denormal(True)
torch.set_flush_denormal(False)
plain = faults()
prepare(MachineConfig(device="cpu", threads=2))
product = torch.full((1_000_000,), 1e-30) * 1e-10  # 1e-40; many enough for two threads
print(json.dumps([can_flush, product.count_nonzero().item(), plain, faults()]))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="glibc's allocator is Linux's")
def test_in_a_prepared_process_freed_memory_is_reused_and_every_thread_flushes_tiny_numbers():
    """In a new process: what this one has set for its threads and its allocator stays."""
    done = subprocess.run([sys.executable, "-c", PREPARED], capture_output=True, check=True)
    can_flush, tiny, plain, prepared = json.loads(done.stdout)
    assert tiny == 0 or not can_flush
    assert prepared * 5 < plain


def test_the_description_is_complete_and_serialisable():
    description = describe()
    assert json.loads(json.dumps(description)) == description
    expected = {"headway", "python", "torch", "platform", "cpus", "memory", "cpu instructions"}
    assert expected | {"device", "cuda", "mps", "free_disk_bytes", "packages"} <= description.keys()


def test_positions_of_a_mask_are_those_of_nonzero_whether_their_number_is_known_or_not():
    mask = torch.rand(5, 7) > 0.6
    expected = mask.flatten().nonzero()[:, 0]
    assert torch.equal(positions_where(mask), expected)
    assert torch.equal(positions_where(mask, int(mask.sum())), expected)
    assert positions_where(mask & False, 0).tolist() == []


def test_values_are_read_as_tolist_gives_them():
    tensors = (torch.rand(2, 3), torch.tensor([[2**40, -1]]), torch.tensor(True), torch.rand(2, 0))
    assert read(*tensors) == [tensor.tolist() for tensor in tensors]


def test_what_is_on_the_device_is_not_copied_again():
    tensor = torch.rand(3)
    assert upload(tensor, "cpu") is tensor


def test_batches_are_made_in_a_thread_only_for_a_gpu():
    assert Machine("cuda", "bfloat16", 1).prefetches
    assert not Machine("cpu", "float32", 2).prefetches


def test_cuda_graphs_are_refused_on_another_device():
    with pytest.raises(UsageError, match="the device is cpu, and CUDA graphs are for NVIDIA GPUs"):
        prepare(MachineConfig(device="cpu", graphs=True))


@pytest.mark.parametrize("graphs", [True, False, None])
def test_on_a_gpu_cudnn_attends_only_where_shapes_return(graphs, monkeypatch):
    """It builds a plan for each shape, and nearly every batch of sentences has a new one."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    before = torch.backends.cuda.cudnn_sdp_enabled()
    try:
        prepare(MachineConfig(device="cuda", dtype="float32", graphs=graphs))
        assert torch.backends.cuda.cudnn_sdp_enabled() == bool(graphs)
    finally:
        torch.backends.cuda.enable_cudnn_sdp(before)


@pytest.mark.parametrize(
    ("flag", "dtype"), [("auto", "float32"), ("float32", "float32"), ("bfloat16", "bfloat16")]
)
def test_verbs_predict_in_float32_unless_bfloat16_is_set(flag, dtype):
    assert MachineFlags(device="cpu", dtype=flag).prepare().dtype == dtype
    assert MachineFlags(dtype=flag).settings["dtype"] == flag, "what a training run gets"
