"""Counting of PyTorch's programs, on the CPU: operators run there, and every product is a launch on the GPU that does not exist."""

import threading

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


def test_compiled_code_is_left_alone_and_theory_asked_for(gpu):
    a = torch.randn(4, 4)
    compiled = torch.compile(lambda x: x @ x, backend="eager")
    compiled(a)
    counts = flopgap.count(compiled, a)
    assert counts.theory.unseen and counts.mfu is None and "compiled code ran" in counts.no_mfu
    assert any("theory='eager'" in note for note in counts.notes)
    eager = flopgap.Counter(theory="eager").count(compiled, a)
    assert eager.theory.products == 128 and eager.runs == 2
    # What is not compiled has its theory, also where something else is.
    assert flopgap.count(torch.mm, a, a).theory.products == 128


def test_models_of_one_class_are_rows_of_their_own(gpu):
    generator, critic = (torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU()) for _ in range(2))

    def step(x):
        critic(generator(x)).sum().backward()

    expected = {("Sequential/0", "forward"): 1000, ("Sequential#2/0", "forward"): 1000}
    expected |= {("Sequential/0", "backward"): 1000, ("Sequential#2/0", "backward"): 2000}
    x = torch.randn(4, 8)
    assert by_path(flopgap.Counter(by="module").count(step, x)) == expected
    named = by_path(flopgap.Counter(by="module", model=[critic, generator], depth=0).count(step, x))
    assert named["Sequential", "backward"] == 2000, "in the order in which they are given"


def test_backward_of_reentrant_checkpoints_belongs_to_its_modules(gpu):
    from torch.utils.checkpoint import checkpoint

    model, x = Model(), torch.randn(4, 8, requires_grad=True)

    def step(reentrant):
        out = x
        for block in model.blocks:
            out = checkpoint(block, out, use_reentrant=reentrant)
        out.sum().backward()

    counts = flopgap.Counter(by="module").count(step, True)
    found = by_path(counts)
    for block in (0, 1):
        for layer in ("up", "down"):
            # Blocks are called by themselves here: each is a root.
            path = "Block" + ("#2" if block else "") + f"/{layer}"
            assert (found[path, "forward"], found[path, "recompute"], found[path, "backward"]) == (1000, 1000, 2000)
    assert set(place[1] for place in found) == {"forward", "recompute", "backward"}
    assert flopgap.count(step, True).theory.recomputed == counts.theory.recomputed == 4 * 2 * 4 * 8 * 16
    assert flopgap.count(step, False).theory.recomputed > 0


def test_backward_of_backward_computes_nothing_again(gpu):
    model, x = Model(), torch.randn(4, 8, requires_grad=True)

    def penalty():
        (grad,) = torch.autograd.grad(model(x).sum(), x, create_graph=True)
        grad.square().sum().backward()

    total, by_module = flopgap.count(penalty), flopgap.Counter(by="module").count(penalty)
    assert total.theory.recomputed == by_module.theory.recomputed == 0
    assert total.theory.products == by_module.theory.products
    assert any("derivatives of a backward pass" in note for note in by_module.notes)


def test_threads_that_begin_meanwhile_are_in_theory(gpu):
    from concurrent.futures import ThreadPoolExecutor

    a = torch.randn(4, 4)
    with ThreadPoolExecutor(2) as pool:
        pool.submit(torch.mm, a, a).result()
        assert flopgap.count(lambda: pool.submit(torch.mm, a, a).result()).theory.products == 128

    def in_thread():
        thread = threading.Thread(target=torch.mm, args=(a, a))
        thread.start()
        thread.join()

    assert flopgap.count(in_thread).theory.products == 128


def test_a_formula_that_fails_leaves_its_operator_without(gpu):
    from torch.utils.flop_counter import flop_registry

    @torch.library.custom_op("flopgap_tests::wrong", mutates_args=())
    def wrong(x: torch.Tensor) -> torch.Tensor:
        return x + 1

    flop_registry[torch.ops.flopgap_tests.wrong] = lambda *args, **kwargs: 1 // 0
    try:
        counts = flopgap.count(wrong, torch.randn(4))
    finally:
        del flop_registry[torch.ops.flopgap_tests.wrong]
    assert counts.theory.no_formula == {"flopgap_tests.wrong": 1}


def test_attention_of_grouped_queries_is_that_of_repeated_keys(gpu):
    from flopgap.theory import _FORMULAS
    from torch.utils.flop_counter import flop_registry

    q, k, v = torch.empty(2, 8, 16, 4), torch.empty(2, 2, 24, 4), torch.empty(2, 2, 24, 6)
    repeated = [t.repeat_interleave(4, 1) for t in (k, v)]
    for name in ("flash", "efficient", "cudnn"):
        forward, backward = (f"_scaled_dot_product_{name}_attention{end}" for end in ("", "_backward"))
        assert _FORMULAS[forward][1](q, k, v) == flop_registry[getattr(torch.ops.aten, forward)](q, *repeated, out_val=None)
        grad = torch.empty(2, 8, 16, 6)
        expected = flop_registry[getattr(torch.ops.aten, backward)](grad, q, *repeated, out_val=None)
        assert _FORMULAS[backward][1](grad, q, k, v) == expected
    counts = flopgap.count(lambda: torch.nn.functional.scaled_dot_product_attention(q, k, v, enable_gqa=True))
    assert counts.value.shape == (2, 8, 16, 6)


def test_grouped_convolutions_have_the_products_of_their_mathematics(gpu):
    for groups in (1, 2, 8):
        x, weight = torch.randn(2, 8, 6, 6, requires_grad=True), torch.randn(8, 8 // groups, 3, 3, requires_grad=True)
        counts = flopgap.count(lambda: torch.nn.functional.conv2d(x, weight, padding=1, groups=groups).sum().backward())
        # Forward, and a gradient each of input and weight.
        assert counts.theory.products == 3 * 2 * 2 * 8 * 36 * (8 // groups) * 9


def test_either_setting_of_tf32_can_be_read(gpu):
    a = torch.randn(4, 4)
    before = torch.backends.cuda.matmul.fp32_precision
    try:
        for setting, unit in (("tf32", "tensor tf32"), ("ieee", "fp32")):
            torch.backends.cuda.matmul.fp32_precision = setting
            assert flopgap.count(torch.mm, a, a).theory.by_unit == {unit: 128}
    finally:
        torch.backends.cuda.matmul.fp32_precision = before


def test_one_mfu_however_it_is_asked_for(gpu):
    gpu.name = "NVIDIA H200"
    model, x = Model().bfloat16(), torch.randn(2, 8).bfloat16()
    expected = None
    for by in ("total", "module", "kernel", "launch"):
        counts = flopgap.Counter(by=by).count(training, model, x)
        assert counts.mfu is None and "own time" in counts.no_mfu
        mfu = counts.with_time(1e-3).mfu
        assert mfu == counts.theory.products / 989.5e12 / 1e-3
        expected = expected or mfu
        assert mfu == expected
    timed = flopgap.Counter(timed=2).count(training, model, x)
    assert timed.mfu == timed.theory.products / 989.5e12 / timed.seconds
    assert "without counting" in str(timed) and "MFU" in str(timed)


def test_mfu_is_unknown_where_theory_has_holes(gpu):
    @torch.library.custom_op("flopgap_tests::product", mutates_args=())
    def product(x: torch.Tensor) -> torch.Tensor:
        gpu.launch(PRODUCT, hgmma_src_bf16=10**6, time=10)
        return x + 1

    a = torch.randn(4, 4).bfloat16()
    counts = flopgap.count(lambda: product(a @ a)).with_time(1e-3)
    assert counts.mfu is None and counts.hfu is not None
    assert "no formula of flopgap_tests.product; it asks for 0.0% of the tensor operations" in counts.no_mfu
    graphs = flopgap.count(lambda: (a @ a, gpu.graph(hgmma_src_bf16=1000))).with_time(1e-3)
    assert graphs.mfu is None and "CUDA graphs; it asks for 6.4%" in graphs.no_mfu
    # Executed less than theory asks for, by a kernel that leaves nothing out.
    b = torch.randn(64, 64).bfloat16()
    fewer = flopgap.count(torch.mm, b, b).with_time(1e-3)
    assert fewer.mfu is None and "theory is wrong: it asks for 524,288 tensor operations, and 1,000" in fewer.no_mfu


def test_a_function_that_profiles_the_gpu_itself_is_refused(gpu, monkeypatch):
    class Activity:
        name = "CUDA"

    def work(activities):
        torch.autograd.profiler._enable_profiler(None, activities)

    monkeypatch.setattr(torch.autograd.profiler, "_enable_profiler", lambda config, activities: None)
    with pytest.raises(flopgap.CountError, match="ran torch.profiler") as caught:
        flopgap.count(work, {Activity})
    assert "without its profiler" in caught.value.hint
    flopgap.count(work, set())


def test_nccl_is_not_counted_launch_by_launch(gpu, monkeypatch):
    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.distributed, "get_world_size", lambda: 2)
    monkeypatch.setattr(torch.distributed, "get_backend", lambda: "nccl")
    with pytest.raises(flopgap.CountError, match="NCCL") as caught:
        flopgap.Counter(by="kernel").count(lambda: None)
    assert "by region" in caught.value.hint
    flopgap.Counter(by="region").count(lambda: None)
