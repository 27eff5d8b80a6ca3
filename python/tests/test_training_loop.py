"""The loops of docs/TRAINING-LOOP.md, on the CPU: products run there, and each is a launch on the GPU that does not exist."""

import dataclasses
import re
import types

import pytest
from conftest import REPOSITORY
from fake import PRODUCT

import flopgap
import flopgap.monitor
from flopgap import counter as counter_module
from flopgap.monitor import lightning_callback, trainer_callback

torch = pytest.importorskip("torch")
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402
from torch.utils.flop_counter import flop_registry  # noqa: E402

STEPS, COUNT_AT = 6, 2
#: A step of the model below: products of 4 samples forward, and for the weights backward; the first layer's input needs no gradient.
SIZES = (8, 16, 8)
PRODUCTS = 2 * 4 * (SIZES[0] * SIZES[1] * 2 + SIZES[1] * SIZES[2] * 3)


class Products(TorchDispatchMode):
    """A launch of every operator that has a formula, which executes what that says."""

    def __init__(self, gpu):
        super().__init__()
        self.gpu = gpu

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        if formula := flop_registry.get(func._overloadpacket):
            self.gpu.launch(PRODUCT, hgmma_src_bf16=formula(*args, **(kwargs or {}), out_val=out), time=10)
        return out


@pytest.fixture
def page(gpu, monkeypatch):
    """The page's blocks by what they define, with their names."""
    monkeypatch.setattr(counter_module, "_DEVICES", frozenset({"cpu"}))
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    gpu.name = "NVIDIA H200"
    text = (REPOSITORY / "docs/TRAINING-LOOP.md").read_text()
    blocks = re.findall(r"^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    assert len(blocks) == 4
    names = {}

    def run(word):
        (block,) = [block for block in blocks if word in block]
        exec(block.replace(".cuda()", ".cpu()"), names)
        return types.SimpleNamespace(**names)

    with Products(gpu):
        yield run


def network():
    layers = [torch.nn.Linear(SIZES[0], SIZES[1]), torch.nn.ReLU(), torch.nn.Linear(SIZES[1], SIZES[2])]
    return torch.nn.Sequential(*layers).bfloat16()


def batches():
    return [torch.randn(4, SIZES[0], dtype=torch.bfloat16) for _ in range(STEPS)]


def is_that_of_a_step(monitor):
    counts = monitor.counts()
    assert monitor.steps == STEPS
    assert counts.theory.products == PRODUCTS == counts.flops["tensor bf16"]
    assert counts.mfu == pytest.approx(PRODUCTS / 989.5e12 / counts.seconds)
    assert sum(op.flops for op in counts.theory.operators if op.phase == "backward") > PRODUCTS / 2


def test_plain_pytorch(page, capsys):
    ran = page("torch.optim.AdamW")
    products = 2 * 32 * 64 * 256 * 5
    assert ran.monitor.steps == 20
    assert ran.counts.theory.products == products == ran.counts.flops["tensor bf16"]
    assert f"{products:,} FLOP a step, MFU" in capsys.readouterr().out
    # Steps 3, 11 and 19 are counted: there is news with the second and the third.
    assert [metrics["flopgap/flop_needed"] for metrics in ran.logged] == [products] * 2
    for metrics in ran.logged:
        assert metrics["flopgap/mfu"] == pytest.approx(products / 989.5e12 / metrics["flopgap/step_seconds"])
        assert metrics["flopgap/flop"] == products and metrics["flopgap/hfu"] == pytest.approx(metrics["flopgap/mfu"])


def test_nothing_is_said_before_a_step_was_timed(page):
    monitor = flopgap.Monitor(first=1)
    for _ in range(2):
        assert monitor.counts() is None and monitor.metrics() == {} and not monitor.has_news
        with monitor:
            pass
    assert monitor.counts() is None


def test_a_step_that_fails_is_not_counted_and_the_next_is(page, gpu):
    monitor, layers = flopgap.Monitor(every=2, first=0), network()
    with pytest.raises(ZeroDivisionError), monitor:
        1 / 0
    assert monitor.counts() is None
    for batch in batches():
        with monitor:
            layers(batch).float().square().mean().backward()
    assert monitor.counts().theory.products == PRODUCTS


def test_without_permission_formulas_say_what_a_step_needs(page, monkeypatch):
    def refused(*_):
        raise flopgap.CountError("no permission", "ask for it")

    monkeypatch.setattr(counter_module, "_begun", refused)
    monitor, layers = flopgap.Monitor(every=3, first=0, peaks={"tensor bf16": 1e12}), network()
    with pytest.warns(UserWarning, match="no permission") as warned:
        for batch in batches():
            with monitor:
                layers(batch).float().square().mean().backward()
    assert len(warned) == 1
    counts = monitor.counts()
    assert counts.theory.products == PRODUCTS and counts.hfu is None
    assert counts.no_mfu is None, counts.no_mfu
    assert counts.mfu == pytest.approx(PRODUCTS / 1e12 / counts.seconds)
    assert str(counts).startswith("no GPU: nothing was counted, formulas alone\n")
    assert set(monitor.metrics("")) == {"mfu", "step_seconds", "flop_needed"}


def test_without_a_gpu_formulas_are_of_the_cpu():
    def needed(step):
        monitor = flopgap.Monitor(every=2, first=0)
        with pytest.warns(UserWarning, match="steps are not counted"):
            for _ in range(2):
                with monitor:
                    step()
        theory = monitor.counts().theory
        assert theory.no_formula == {}
        return theory.products

    layers = network()
    assert needed(lambda: layers(batches()[0]).float().square().mean().backward()) == PRODUCTS
    # Two heads of 5 queries and 7 keys of 16: scores, and their product with the values. Backward: the scores again, and four gradients.
    query, key = (torch.randn(1, 2, length, 16, requires_grad=True) for length in (5, 7))
    attention = torch.nn.functional.scaled_dot_product_attention
    assert needed(lambda: attention(query, key, key).sum().backward()) == 7 * 2 * 2 * 5 * 7 * 16


def test_steps_are_recorded_after_those_that_are_counted(page, monkeypatch):
    """Which steps lie in a recorded block, and parts against those of the recording that stands in for theirs."""
    trace, log = REPOSITORY / "fixtures/advice/layer-timers.before.json.zst", []

    class Block:
        def __init__(self, path):
            assert path.endswith(".sqlite")

        def __enter__(self):
            log.append("from")

        def __exit__(self, *_):
            log.append("to")

    real = flopgap.gap
    monkeypatch.setattr(flopgap.monitor, "record", Block)
    monkeypatch.setattr(flopgap.monitor, "gap", lambda path: real(trace))
    monitor, layers = flopgap.Monitor(every=5, first=1, recorded=2), network()
    for number in range(12):
        with monitor:
            log.append(number)
            layers(batches()[0]).float().square().mean().backward()
    assert log == [0, 1, "from", 2, 3, "to", 4, 5, 6, "from", 7, 8, "to", 9, 10, 11]
    metrics, parts = monitor.metrics(""), real(trace).parts
    for name in ("busy", "exposed", "idle"):
        ns = sum(part.ns for part in parts if part.part == name)
        assert metrics[name] == pytest.approx(ns / sum(part.ns for part in parts))
    # Neither the counted step nor the recorded ones are in the time.
    assert monitor.counts().seconds == metrics["step_seconds"] and monitor.gap == real(trace)


def test_steps_that_cannot_be_recorded_are_said_once(page, monkeypatch):
    def refused(path):
        raise flopgap.AbsentError("no driver", "get one")

    monkeypatch.setattr(flopgap.monitor, "record", refused)
    monitor = flopgap.Monitor(every=4, first=0, recorded=2)
    with pytest.warns(UserWarning, match="steps are not recorded: no driver") as warned:
        for _ in range(12):
            with monitor:
                network()(batches()[0])
    assert sum("not recorded" in str(warning.message) for warning in warned) == 1
    assert monitor.gap is None and "idle" not in monitor.metrics("")


def test_ranks_are_added_up(page, gpu, monkeypatch):
    def gathered(ranks, own):
        # A GPU of half the speed, and one whose bytes were not counted.
        ranks[:] = [own, dataclasses.replace(own, needed_seconds=2 * own.needed_seconds), dataclasses.replace(own, bytes=None)]

    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.distributed, "get_world_size", lambda: 3)
    monkeypatch.setattr(torch.distributed, "all_gather_object", gathered)
    monitor, layers = flopgap.Monitor(every=3, first=0, over_ranks=True), network()
    for batch in batches():
        with monitor:
            layers(batch).float().square().mean().backward()
    monitor.counts()
    metrics = monitor.metrics("")
    assert metrics["ranks"] == 3 and metrics["flop_needed_of_ranks"] == 3 * PRODUCTS == metrics["flop_of_ranks"]
    assert metrics["mfu_of_ranks"] == pytest.approx(4 / 3 * metrics["mfu"])
    assert metrics["hfu_of_ranks"] == pytest.approx(metrics["hfu"])
    assert "bytes" in metrics and "bytes_of_ranks" not in metrics


def test_without_a_group_of_ranks_there_is_one(page):
    monitor, layers = flopgap.Monitor(every=3, first=0, over_ranks=True), network()
    for batch in batches():
        with monitor:
            layers(batch).float().square().mean().backward()
    assert monitor.counts() is not None and not any("rank" in name for name in monitor.metrics())


def test_options_are_checked():
    for options in ({"every": 1}, {"every": 2.5}, {"first": -1}, {"recorded": 99}, {"by": "nothing"}):
        with pytest.raises(ValueError):
            flopgap.Monitor(**options)


def test_lightning(page, capsys, tmp_path):
    lightning = pytest.importorskip("lightning")

    class Logged(lightning.pytorch.loggers.logger.DummyLogger):
        metrics = []

        def log_metrics(self, metrics, step=None):
            self.metrics.append(metrics)

    class Module(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.layers = network()

        def training_step(self, batch, index):
            return self.layers(batch).float().square().mean()

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), 0.1)

    assert page("lightning_callback").callback is not None
    monitor = flopgap.Monitor(every=3, first=COUNT_AT)
    logged = Logged()
    callback = lightning_callback(monitor)
    quiet = dict(logger=logged, enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False)
    trainer = lightning.Trainer(callbacks=[callback], max_epochs=1, accelerator="cpu", default_root_dir=tmp_path, **quiet)
    trainer.fit(Module(), torch.utils.data.DataLoader(batches(), batch_size=None))
    is_that_of_a_step(monitor)
    assert "theory, products" in capsys.readouterr().out
    assert [metrics["flopgap/flop_needed"] for metrics in logged.metrics if "flopgap/mfu" in metrics] == [PRODUCTS]


def test_hugging_face_trainer(page, capsys, tmp_path):
    transformers = pytest.importorskip("transformers")
    pytest.importorskip("accelerate")

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = network()

        def forward(self, x):
            return {"loss": self.layers(x).float().square().mean()}

    assert page("trainer_callback").callback_of_trainer is not None
    monitor = flopgap.Monitor(every=3, first=COUNT_AT)
    callback = trainer_callback(monitor)
    options = transformers.TrainingArguments(
        str(tmp_path), per_device_train_batch_size=4, max_steps=STEPS, use_cpu=True, logging_steps=1, save_strategy="no", report_to=[], disable_tqdm=True
    )
    samples = [{"x": sample} for batch in batches() for sample in batch]
    trainer = transformers.Trainer(Model(), options, train_dataset=samples, callbacks=[callback])
    trainer.train()
    is_that_of_a_step(monitor)
    out = capsys.readouterr().out
    assert "theory, products" in out and out.count("'flopgap/mfu'") == 1


def test_a_step_that_is_a_method_of_the_trainer(page, capsys):
    """As torchtitan has it: ``train`` calls ``self.train_step``."""
    ran = page("def counted")

    class Trainer:
        def __init__(self):
            self.model = network()
            self.optimizer = torch.optim.SGD(self.model.parameters(), 0.1)

        def train_step(self, iterator):
            self.model(next(iterator)).float().square().mean().backward()
            self.optimizer.step()
            self.optimizer.zero_grad()

        def train(self):
            iterator = iter(batches())
            for _ in range(STEPS):
                self.train_step(iterator)

    monitor = flopgap.Monitor(every=3, first=COUNT_AT)
    Trainer.train_step = ran.counted(Trainer.train_step, monitor)
    Trainer().train()
    is_that_of_a_step(monitor)
    assert capsys.readouterr().out.count("theory, products") == 1
