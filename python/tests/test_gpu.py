"""Counting on a real GPU with PyTorch: against what follows from the sizes, against FlopCounterMode, and beside torch.profiler."""

import subprocess
import sys

import flopgap
import pytest
from conftest import encoder_layer, needs_counters

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    pytest.skip("no GPU that PyTorch can use", allow_module_level=True)

from torch.profiler import ProfilerActivity, profile  # noqa: E402
from torch.utils.flop_counter import FlopCounterMode  # noqa: E402


@pytest.fixture(scope="module", autouse=True)
def permission():
    needs_counters()


@pytest.fixture
def layer():
    return encoder_layer(8)


def formulas(step):
    with FlopCounterMode(display=False) as mode:
        step()
    return mode.get_total_flops()


def test_a_product_executes_what_its_size_says():
    a = torch.randn(4096, 4096, device="cuda", dtype=torch.bfloat16)
    torch.mm(a, a)
    counts = flopgap.count(torch.mm, a, a)
    assert counts.flops["tensor bf16"] == 2 * 4096**3 == counts.theory.products == counts.tensor_flops
    assert counts.gap.epsilon == 0.0
    assert counts.launches == 1 and counts.graphs == 0
    assert counts.bytes_read >= 2 * 4096**2 and counts.time_ns > 0
    # 137 GFLOP in a millisecond; its own time was not taken.
    assert counts.hfu is None and counts.mfu is None
    timed = counts.with_time(1e-3)
    assert timed.hfu == timed.mfu and 0.0 < timed.hfu < 1.0
    assert counts.flops["fp32"] is None and counts.total is None


def test_a_training_step_is_what_flop_counter_mode_says(layer):
    expected = formulas(layer)
    total = flopgap.count(layer)
    assert total.flops["tensor bf16"] == expected == total.theory.products
    by_launch = flopgap.Counter(by="launch", what=["tensor", "sass"]).count(layer)
    assert by_launch.flops["tensor bf16"] == expected
    assert by_launch.flops["fp32"] > 0
    region = flopgap.Counter(what="sass").count(layer)
    assert region.flops["fp32"] == by_launch.flops["fp32"]
    assert by_launch.launches == total.launches == region.launches
    # Every product knows its operator, and there is no padding in these sizes.
    assert by_launch.gap.padding == 0 and by_launch.gap.unattributed == 0
    with torch.autograd.set_multithreading_enabled(False):
        one = flopgap.Counter(by="launch").count(layer)
    tensor = [metric for metric in one.metrics if "ops_path" in metric]
    rows = [[(row.symbol, row.grid, [row.values[m] for m in tensor]) for row in c.rows] for c in (by_launch, one)]
    assert rows[0] == rows[1], "autograd's thread makes no difference"


def test_modules_add_up_to_the_total(layer):
    expected = formulas(layer)
    counts = flopgap.Counter(by="module").count(layer)
    assert counts.flops["tensor bf16"] == expected
    found = {(row.label.path, row.label.phase): counts.flops_of([row])["tensor bf16"] for row in counts.rows}
    linear = 2 * 8 * 512 * 1024 * 4096
    for name in ("linear1", "linear2"):
        path = f"TransformerEncoderLayer/{name}"
        assert found[path, "forward"] == linear and found[path, "backward"] == 2 * linear
    theory = counts.theory.by_path
    for place, count in found.items():
        if count:
            products = sum(op.flops for op in counts.theory.operators if (op.path, op.phase) == place and op.kind in ("matmul", "attention"))
            assert count == products, place
    assert theory
    both = flopgap.Counter(by="module", what=["tensor", "sass"]).count(layer)
    assert both.flops["tensor bf16"] == expected and both.flops["fp32"] > 0 and both.runs == 2


def events(step):
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiler:
        step()
        torch.cuda.synchronize()
    return sum(1 for event in profiler.events() if event.device_type == torch.autograd.DeviceType.CUDA)


def test_counts_repeat_and_are_those_of_the_formulas(layer):
    asked = formulas(layer)
    for _ in range(3):
        assert flopgap.count(layer).flops["tensor bf16"] == asked
    assert flopgap.Counter(what="sass").count(layer).flops["fp32"] > 0


def test_graphs_are_counted_by_hardware_and_refused_for_instructions():
    a = torch.randn(1024, 1024, device="cuda", dtype=torch.bfloat16)
    b = torch.mm(a, a)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        torch.mm(a, a, out=b)
        torch.mm(a, a, out=b)
    counts = flopgap.count(graph.replay)
    assert counts.graphs == 1 and counts.flops["tensor bf16"] == 4 * 1024**3
    with pytest.raises(flopgap.CountError, match="graph") as caught:
        flopgap.Counter(what="sass").count(graph.replay)
    assert caught.value.hint


def test_workers_of_a_loader_are_no_trouble(layer):
    from torch.utils.data import DataLoader

    loader = DataLoader(list(range(8)), batch_size=4, num_workers=2, multiprocessing_context="fork")
    with flopgap.Counter() as counter:
        for _ in loader:
            assert counter.count(layer).launches > 10


def test_by_everything_at_once(layer):
    expected = formulas(layer)
    counts = flopgap.Counter(by=("module", "launch"), what="all").count(layer)
    assert counts.runs == len(flopgap.presets()) and None not in counts.flops.values() and counts.total > expected
    assert counts.flops["tensor bf16"] == expected
    for name in counts.tables:
        assert counts.table(name).to_dicts(1), name


def test_compiled_code(layer):
    expected = formulas(layer)
    compiled = torch.compile(layer.model)
    x = torch.randn(8, 512, 1024, device="cuda", dtype=torch.bfloat16)

    def step():
        compiled.zero_grad(set_to_none=True)
        compiled(x).float().square().mean().backward()

    for _ in range(3):
        step()
    counts = flopgap.Counter(by="launch", theory="eager").count(step)
    assert counts.flops["tensor bf16"] == expected == counts.theory.products
    assert counts.runs == 2


def test_inside_the_profiler_counting_is_refused(layer):
    for what in ("tensor", "sass"):
        with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]):
            with pytest.raises(flopgap.CountError, match=r"torch\.profiler"):
                flopgap.Counter(what=what).count(layer)


def test_the_profiler_works_before_and_after_counts(layer):
    expected, kernels = formulas(layer), events(layer)
    assert kernels > 10
    for what in ("tensor", "sass", "tensor"):
        with flopgap.Counter(what=what) as counter:
            counts = counter.count(layer)
            assert events(layer) == kernels, "parked"
            counts = counter.count(layer)
            if what == "tensor":
                assert counts.flops["tensor bf16"] == expected
            else:
                assert counts.flops["fp32"] > 0
        assert events(layer) == kernels, what
    assert flopgap.count(layer).flops["tensor bf16"] == expected


RECORDED = """
import sqlite3
import sys
import torch
import flopgap
from torch.profiler import ProfilerActivity, profile

layer = torch.nn.Linear(512, 512, device="cuda")
x = torch.randn(64, 512, device="cuda")
step = lambda: layer(x).square().mean().backward()
step()
kernels = []
for name in "ab":
    with flopgap.record(f"{sys.argv[1]}/{name}.sqlite") as recording:
        step()
    assert recording.losses == (), recording
    gpu = sqlite3.connect(recording.path).execute("SELECT name FROM TARGET_INFO_GPU").fetchall()
    assert gpu == [(torch.cuda.get_device_name(),)], gpu
    kernels.append(recording.kernels)
with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiler:
    step()
    torch.cuda.synchronize()
seen = [event for event in profiler.events() if event.device_type == torch.autograd.DeviceType.CUDA]
work = [event for event in seen if not event.name.startswith(("Memcpy", "Memset"))]
assert kernels == [len(work)] * 2 and kernels[0] > 5, (kernels, [event.name for event in seen])
assert flopgap.count(step).launches == kernels[0]
"""


def test_blocks_are_recorded_and_others_get_cupti_after_them(tmp_path):
    run = subprocess.run([sys.executable, "-c", RECORDED, str(tmp_path)], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
