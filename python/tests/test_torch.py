"""Counting of PyTorch's programs, on the CPU: operators run there, and every product is a launch on the GPU that does not exist."""

import pytest
from fake import COPY, PRODUCT, SIGMOID

import flopgap
from flopgap import counter as counter_module

torch = pytest.importorskip("torch")
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402
from torch.utils.flop_counter import FlopCounterMode  # noqa: E402


class Launches(TorchDispatchMode):
    """Makes a launch of every operator that computes or copies: a product executes twice what a formula says of its output."""

    def __init__(self, gpu):
        super().__init__()
        self.gpu = gpu

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        name = func._overloadpacket.__name__
        if name in ("mm", "addmm", "bmm", "convolution", "convolution_backward"):
            self.gpu.launch(PRODUCT, hgmma_src_bf16=1000, time=10, ffma=1)
        elif name in ("sigmoid", "sigmoid_backward", "relu", "relu_", "threshold_backward"):
            self.gpu.launch(SIGMOID, time=5, fadd=7)
        elif name in ("copy_", "clone"):
            self.gpu.launch(COPY, time=1)
        return out


@pytest.fixture
def gpu(gpu, monkeypatch):
    monkeypatch.setattr(counter_module, "_DEVICES", frozenset({"cpu"}))
    with Launches(gpu):
        yield gpu


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.up = torch.nn.Linear(8, 16)
        self.act = torch.nn.ReLU(inplace=True)
        self.down = torch.nn.Linear(16, 8)

    def forward(self, x):
        return self.down(self.act(self.up(x)))


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = torch.nn.ModuleList([Block(), Block()])

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x


def training(model, x):
    model(x).square().mean().backward()


def by_path(counts, key="tensor bf16"):
    found = {}
    for row in counts.rows:
        place = (row.label.path, row.label.phase)
        found[place] = found.get(place, 0) + (counts.flops_of([row])[key] or 0)
    return {place: count for place, count in found.items() if count}


def test_theory_is_that_of_flop_counter_mode(gpu):
    model, x = Model(), torch.randn(4, 8)
    counts = flopgap.count(training, model, x)
    with FlopCounterMode(display=False) as mode:
        training(model, x)
    assert counts.theory.products == mode.get_total_flops() > 0
    kinds = counts.theory.by_kind
    assert kinds["matmul"] == counts.theory.products
    # Two ReLUs on 4x16 forward and backward; the loss is 32 squares, their gradient 2, the mean and its gradient.
    assert kinds["elementwise"] >= 4 * 64
    assert counts.theory.no_formula == {}
    # Backward runs on another thread, and is no region of its own here.
    assert [row.label.path for row in counts.rows] == [""] and counts.notes == ()


def test_modules_are_distinguished_forward_and_backward(gpu):
    model, x = Model(), torch.randn(4, 8)
    training(model, x)
    counts = flopgap.Counter(by="module").count(training, model, x)
    expected = {}
    for block in (0, 1):
        for layer in ("up", "down"):
            path = f"Model/blocks/{block}/{layer}"
            expected[path, "forward"] = 1000
            # The first layer has a gradient of its weight only.
            expected[path, "backward"] = 1000 if (block, layer) == (0, "up") else 2000
    assert by_path(counts) == expected
    by_block = flopgap.Counter(by="module", depth=2).count(training, model, x)
    assert by_path(by_block) == {
        ("Model/blocks/0", "forward"): 2000,
        ("Model/blocks/0", "backward"): 3000,
        ("Model/blocks/1", "forward"): 2000,
        ("Model/blocks/1", "backward"): 4000,
    }
    whole = flopgap.Counter(by="module", depth=0).count(training, model, x)
    assert by_path(whole) == {("Model", "forward"): 4000, ("Model", "backward"): 7000}
    # Without backward, and inside of regions.
    with flopgap.counting(by=("region", "module"), depth=0) as block, flopgap.region("eval"), torch.no_grad():
        model(x)
    assert by_path(block.counts) == {("eval/Model", "forward"): 4000}


def test_hooks_are_gone_afterwards_also_after_an_error(gpu):
    from torch.nn.modules import module

    before = len(module._global_forward_hooks), len(module._global_forward_pre_hooks)
    with pytest.raises(RuntimeError):
        flopgap.Counter(by="module").count(Model(), torch.randn(4, 9))
    assert (len(module._global_forward_hooks), len(module._global_forward_pre_hooks)) == before
    assert flopgap.Counter(by="module").count(Model(), torch.randn(4, 8)).flops["tensor bf16"] == 4000


def test_recomputation_is_distinguished(gpu):
    from torch.utils.checkpoint import checkpoint

    model, x = Model(), torch.randn(4, 8, requires_grad=True)

    def step():
        checkpoint(model, x, use_reentrant=False).sum().backward()

    step()
    counts = flopgap.Counter(by="module", depth=0).count(step)
    # The last layer's product is not needed again, and PyTorch stops there or not; at least three of four are.
    found = by_path(counts)
    assert found["Model", "forward"] == 4000 and found["Model", "backward"] == 8000
    assert found["Model", "recompute"] in (3000, 4000)
    assert counts.theory.recomputed > 0
    assert counts.gap.recomputation == counts.theory.recomputed


def test_ranges_of_nvtx_and_record_function_name_regions(gpu, monkeypatch):
    monkeypatch.setattr(torch.cuda.nvtx, "range_push", lambda msg: 0)
    monkeypatch.setattr(torch.cuda.nvtx, "range_pop", lambda: 0)
    a = torch.randn(4, 4)

    def work():
        with torch.profiler.record_function("outer"):
            torch.cuda.nvtx.range_push("inner")
            a @ a
            torch.cuda.nvtx.range_pop()
            a @ a
        a @ a

    counts = flopgap.Counter(by="range").count(work)
    assert by_path(counts) == {("outer/inner", ""): 1000, ("outer", ""): 1000, ("", ""): 1000}
    original = torch.cuda.nvtx.range_push
    assert flopgap.Counter(by="range").count(work) and torch.cuda.nvtx.range_push is original


def test_launches_know_their_operator_and_the_gap_is_distinguished(gpu):
    a, b = torch.randn(4, 8), torch.randn(8, 10)

    def work():
        return torch.sigmoid(a.bfloat16() @ b.bfloat16()).clone()

    counts = flopgap.Counter(by="kernel", what=["tensor", "sass"]).count(work)
    ops = {op.call: op for op in counts.theory.operators}
    names = [(row.symbol, getattr(ops.get(row.label.call), "name", None)) for row in counts.rows]
    assert names == [(PRODUCT, "aten.mm"), (SIGMOID, "aten.sigmoid"), (COPY, None)]
    gap = counts.gap
    assert gap.theory_products == 2 * 4 * 8 * 10 == 640
    assert gap.padding == 1000 - 640 and gap.padding_by_kernel == {PRODUCT: 360}
    assert gap.inside_products == 2 and gap.elementwise == 7 and gap.split_k == 0
    assert gap.epsilon == pytest.approx(1000 / 640 - 1)
    assert gap.kappa == pytest.approx(7 / 40 - 1)
    assert gap.omega == pytest.approx((1000 + 2 + 7) / (640 + 40) - 1)
    # Without the shader cores, what they do is unknown.
    alone = flopgap.Counter(by="kernel").count(work).gap
    assert alone.padding == 360 and alone.elementwise is None and alone.omega is None


def test_operators_without_a_formula_are_listed(gpu):
    counts = flopgap.count(torch.linalg.qr, torch.randn(4, 4))
    assert counts.theory.no_formula == {"aten.linalg_qr": 1}
    assert "linalg_qr" in str(counts)


def test_formulas_of_operators_other_than_products(gpu):
    x = torch.randn(6, 10)
    functional = torch.nn.functional

    def of(work):
        return flopgap.count(work).theory.by_kind

    assert of(lambda: torch.softmax(x, 1)) == {"softmax": 300}
    assert of(lambda: functional.layer_norm(x, (10,))) == {"norm": 420}
    assert of(lambda: x.sum()) == {"reduction": 60}
    assert of(lambda: torch.addcmul(x, x, x)) == {"elementwise": 120}
    assert of(lambda: functional.gelu(x)) == {"elementwise": 60}
    assert of(lambda: x.t().contiguous().view(-1)[3:].clone()) == {}
    assert of(lambda: (x > 0).sum()) == {}
    grad = torch.nn.Parameter(torch.randn(50))
    grad.grad = torch.randn(50)
    adam = torch.optim.AdamW([grad], fused=True)
    assert of(adam.step)["optimizer"] == 15 * 50


def test_the_profiler_of_pytorch_refuses_counting(gpu):
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]):
        with pytest.raises(flopgap.CountError, match="torch.profiler is active") as caught:
            flopgap.count(lambda: None)
    assert "outside" in caught.value.hint
    flopgap.count(lambda: None)


def test_compiled_code_is_left_alone_and_theory_asked_for(gpu, monkeypatch):
    import torch._dynamo.utils as utils

    monkeypatch.setitem(utils.counters["frames"], "ok", 1)
    a = torch.randn(4, 4)
    counts = flopgap.count(torch.mm, a, a)
    assert counts.theory.unseen and counts.mfu is None
    assert any("theory='eager'" in note for note in counts.notes)
    eager = flopgap.Counter(theory="eager").count(torch.mm, a, a)
    assert eager.theory.products == 128 and eager.runs == 2


def test_nccl_is_not_counted_launch_by_launch(gpu, monkeypatch):
    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.distributed, "get_world_size", lambda: 2)
    monkeypatch.setattr(torch.distributed, "get_backend", lambda: "nccl")
    with pytest.raises(flopgap.CountError, match="NCCL") as caught:
        flopgap.Counter(by="kernel").count(lambda: None)
    assert "by region" in caught.value.hint
    flopgap.Counter(by="region").count(lambda: None)
