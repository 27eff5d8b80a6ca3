"""Models drawn at random on a real GPU: counting changes no bit and no launch, and counts are those of Nsight Compute. `FLOPGAP_DRAWS=40`
draws 40, and `FLOPGAP_NCU_DRAWS=2,4` asks Nsight Compute about these two, some launches a second."""

import csv
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import time
import warnings

import flopgap
import pytest
from conftest import encoder_layer, needs_counters

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    pytest.skip("no GPU that PyTorch can use", allow_module_level=True)
pytest.importorskip("timm")
pytest.importorskip("transformers")

from drawn import deterministic, drawn, same, trained  # noqa: E402
from torch.profiler import ProfilerActivity, profile  # noqa: E402

DRAWS = int(os.environ.get("FLOPGAP_DRAWS", "4"))


@pytest.fixture(scope="module", autouse=True)
def settings():
    needs_counters()
    deterministic()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def kernels(step):
    """How many kernels the step launches, as PyTorch's profiler sees it."""
    with profile(activities=[ProfilerActivity.CUDA]) as profiler:
        step()
        torch.cuda.synchronize()
    events = [event for event in profiler.events() if event.device_type == torch.autograd.DeviceType.CUDA]
    return sum(1 for event in events if not event.name.startswith(("Memcpy", "Memset")))


@pytest.mark.parametrize("seed", range(DRAWS))
def test_drawn_models_train_to_the_same_bits_and_launches_while_they_are_counted(seed):
    name, model, call = drawn(seed, "cuda")
    trained(model, call)
    launched, expected = trained(model, call, kernels)
    again, repeated = trained(model, call, kernels)
    exact = same(expected, repeated) and launched == again
    found = []
    for by in ("total", "module", "kernel", "launch"):
        counts, state = trained(model, call, flopgap.Counter(by=by).count)
        assert not exact or same(expected, state), f"{name}, by {by}"
        found.append((counts.launches, counts.flops, counts.theory.products))
    print(f"{name}: {launched} launches, {found[0]}; without a formula {counts.theory.no_formula}; {counts.no_mfu}")
    if not exact:
        pytest.skip(f"{name} is not the same twice without anybody looking")
    assert found[1:] == found[:-1], name
    assert found[0][0] == launched, name


def fp8():
    a, b = (torch.randn(256, 256, device="cuda").to(torch.float8_e4m3fn) for _ in range(2))
    one = torch.ones((), device="cuda")
    return lambda: [torch._scaled_mm(a, b.t(), one, one, out_dtype=torch.bfloat16)]


def int8():
    a, b = (torch.randint(-128, 127, (256, 256), device="cuda", dtype=torch.int8) for _ in range(2))
    return lambda: [torch._int_mm(a, b)]


def sparse():
    dense = torch.randn(256, 256, device="cuda", dtype=torch.half)
    mask = torch.tensor([1, 1, 0, 0], device="cuda", dtype=torch.half).tile(256, 64)
    a, b = torch.sparse.to_sparse_semi_structured(dense * mask), torch.randn(256, 128, device="cuda", dtype=torch.half)
    return lambda: [torch.mm(a, b)]


def triton_kernel():
    triton = pytest.importorskip("triton")
    language = triton.language

    @triton.jit
    def double(x, n, block: language.constexpr):
        at = language.program_id(0) * block + language.arange(0, block)
        language.store(x + at, 2 * language.load(x + at, mask=at < n), mask=at < n)

    def step():
        x = torch.arange(1000, device="cuda", dtype=torch.float32)
        double[(triton.cdiv(1000, 256),)](x, 1000, block=256)
        return [x @ x.reshape(1000, 1)]

    return step


def network():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.SiLU(), torch.nn.Linear(128, 64)).cuda().bfloat16()


def trained_by(forward):
    def make():
        model = network()
        call = forward(model)
        x = torch.randn(32, 64, device="cuda", dtype=torch.bfloat16, requires_grad=True)

        def step():
            model.zero_grad(set_to_none=True)
            x.grad = None
            call(x).float().square().mean().backward()
            return [x.grad, *(p.grad for p in model.parameters())]

        return step

    return make


def checkpointed(reentrant):
    return trained_by(lambda model: lambda x: torch.utils.checkpoint.checkpoint(model, x, use_reentrant=reentrant))


def adversarial():
    generator, discriminator = network(), network()
    noise = torch.randn(32, 64, device="cuda", dtype=torch.bfloat16)

    def step():
        generator.zero_grad()
        discriminator.zero_grad()
        discriminator(generator(noise)).float().mean().backward()
        return [p.grad.clone() for model in (generator, discriminator) for p in model.parameters()]

    return step


def twice_derived():
    model = network().float()
    x = torch.randn(32, 64, device="cuda", requires_grad=True)

    def step():
        model.zero_grad()
        (slope,) = torch.autograd.grad(model(x).sum(), x, create_graph=True)
        slope.square().mean().backward()
        return [p.grad.clone() for p in model.parameters() if p.grad is not None]

    return step


def grouped_attention():
    q = torch.randn(2, 8, 64, 32, device="cuda", dtype=torch.bfloat16, requires_grad=True)
    k, v = (torch.randn(2, 2, 64, 32, device="cuda", dtype=torch.bfloat16) for _ in range(2))

    def step():
        q.grad = None
        torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True).float().sum().backward()
        return [q.grad]

    return step


def depthwise():
    convolution = torch.nn.Conv2d(32, 32, 3, groups=32, padding=1).cuda()
    x = torch.randn(2, 32, 16, 16, device="cuda")

    def step():
        convolution.zero_grad()
        convolution(x).square().mean().backward()
        return [p.grad.clone() for p in convolution.parameters()]

    return step


KINDS = {
    "fp8": fp8, "int8": int8, "sparse": sparse, "triton": triton_kernel, "attention of groups": grouped_attention, "depthwise": depthwise,
    "checkpoint": checkpointed(False), "reentrant checkpoint": checkpointed(True), "two models": adversarial, "second derivatives": twice_derived,
    "compiled": trained_by(torch.compile),
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_what_else_runs_does_the_same_while_it_is_counted(kind):
    step = KINDS[kind]()
    for _ in range(3):
        torch.manual_seed(7)
        expected = step()
    torch.manual_seed(7)
    launched = kernels(step)
    for by in ("total", "module", "kernel", "launch"):
        torch.manual_seed(7)
        counts = flopgap.Counter(by=by, what="all").count(step)
        assert same(expected, counts.value), by
        assert counts.launches == launched, by
        # No one-pass preset counts integer products.
        assert counts.counted > 0 or (kind == "int8" and counts.total is None), by
    print(f"{kind}: {launched} launches, {counts.counted:,} operations, theory {counts.theory.products:,}; {counts.no_mfu}")


def test_a_graph_does_the_same_while_it_is_counted():
    a = torch.randn(256, 256, device="cuda", dtype=torch.bfloat16)
    b = torch.mm(a, a)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        torch.mm(a, a, out=b)
    graph.replay()
    expected = b.clone()
    for by in ("total", "region"):
        b.zero_()
        counts = flopgap.Counter(by=by).count(graph.replay)
        assert same([expected], [b]) and counts.graphs == 1 and counts.no_mfu, by
    for by in ("kernel", "launch"):
        with pytest.raises(flopgap.CountError, match="graph"):
            flopgap.Counter(by=by).count(graph.replay)
    assert flopgap.count(torch.mm, a, a).flops["tensor bf16"] == 2 * 256**3, "what comes after an error"


def counted_by_ncu(metrics, seed):
    """The sums of an uncounted run under Nsight Compute, and its launches."""
    program = [sys.executable, str(pathlib.Path(__file__).with_name("drawn.py")), str(seed)]
    ncu = ["ncu", "--profile-from-start", "off", "--csv", "--page", "raw", "--print-units", "base"]
    ncu += ["--clock-control", "none", "--cache-control", "none"]
    done = subprocess.run([*ncu, "--metrics", ",".join(metrics), *program], capture_output=True, text=True, check=False)
    lines = done.stdout.splitlines()
    start = next((at for at, line in enumerate(lines) if line.startswith('"ID"')), None)
    assert start is not None, done.stdout[-2000:] + done.stderr[-2000:]
    header, _units, *rows = csv.reader(lines[start:])
    columns = [header.index(metric) for metric in metrics]
    return {metric: sum(int(row[at].replace(",", "")) for row in rows) for metric, at in zip(metrics, columns)}, len(rows)


@pytest.mark.skipif(shutil.which("ncu") is None, reason="no ncu")
@pytest.mark.parametrize("seed", [int(seed) for seed in os.environ.get("FLOPGAP_NCU_DRAWS", "19").split(",")])
def test_launches_and_flops_are_those_of_ncu(seed):
    name, model, call = drawn(seed, "cuda")
    trained(model, call)
    found = {}
    for preset in flopgap.presets():
        # Each from the same parameters: what a second step launches may depend on them.
        counts, _ = trained(model, call, flopgap.Counter(by="launch", what=preset, theory=False).count)
        for metric in counts.metrics:
            if "__sass_thread_inst" in metric or "__ops_path_tensor" in metric:
                found[metric] = sum(row.values[metric] for row in counts.rows)
    metrics = list(found)
    expected, launches = counted_by_ncu(metrics, seed)
    differing = {metric: (found[metric], expected[metric]) for metric in metrics if found[metric] != expected[metric]}
    print(f"{name}: {launches} launches, {sum(count > 0 for count in found.values())} metrics above 0, {len(differing)} differ")
    assert counts.launches == launches and not differing, f"{name}: {differing}"


@pytest.fixture
def layer():
    return encoder_layer(64)


def times(step):
    """Seconds of 20 steps."""
    found = []
    for _ in range(20):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        step()
        torch.cuda.synchronize()
        found.append(time.perf_counter() - begin)
    return found


def test_there_is_one_mfu(layer):
    peak = flopgap.peaks_of(torch.cuda.get_device_name()).flops_per_second["tensor bf16"]
    found, given = {}, set()
    for by in ("total", "module", "kernel", "launch"):
        # The clocks of the GPU change with time: before and after.
        before = times(layer)
        counts = flopgap.Counter(by=by, timed=20).count(layer)
        expected = counts.theory.products / statistics.median(before + times(layer)) / peak
        found[by] = (counts.mfu, expected)
        assert counts.mfu == pytest.approx(counts.theory.products / counts.seconds / peak, rel=1e-12) and counts.hfu >= counts.mfu, by
        given.add(counts.with_time(0.01).mfu)
    print(f"MFU: {', '.join(f'by {by} {mfu:.3%}, timer {expected:.3%}' for by, (mfu, expected) in found.items())}")
    assert len(given) == 1, "one theory"
    for by, (mfu, expected) in found.items():
        assert mfu == pytest.approx(expected, rel=0.02), by


def test_room_is_bounded_and_counts_leave_nothing():
    x = torch.zeros(32, device="cuda")
    flopgap.Counter(by="launch").count(x.add_, 1.0)
    free = torch.cuda.mem_get_info()[0]
    within = []

    def work(launches, modules):
        for index in range(launches):
            if modules:
                with flopgap.region(f"r{index}"):
                    x.add_(1.0)
            else:
                x.add_(1.0)
        within.append(free - torch.cuda.mem_get_info()[0])

    for by in ("total", "region", "launch"):
        for launches in (10, 1000):
            begin = time.perf_counter()
            counts = flopgap.Counter(by=by, theory=False).count(work, launches, by == "region")
            seconds = time.perf_counter() - begin
            print(f"by {by}, {launches} launches: {within[-1] / 1e6:.0f} MB, {seconds:.2f} s")
            assert counts.launches == launches and within[-1] <= 200e6
    left = []
    for _ in range(20):
        flopgap.Counter(by="launch", theory=False).count(work, 10, False)
        left.append(torch.cuda.mem_get_info()[0])
    with flopgap.Counter(by="launch", theory=False) as counter:
        held = [counter.count(work, 10, False) and torch.cuda.mem_get_info()[0] for _ in range(50)]
    print(f"20 counts take {(left[0] - left[-1]) / 1e6:.1f} MB, 50 of one counter {(held[0] - held[-1]) / 1e6:.1f} MB")
    assert held[0] == held[-1]
    # CUPTI 13.0 keeps half a megabyte each time that it is taken out of the process.
    assert left[0] - left[-1] <= 20 * 0.6e6
