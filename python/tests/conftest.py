"""What all tests need: the recorded files, and a way to skip that says what is missing."""

import os
import pathlib
import re

import flopgap
import pytest
from fake import FakeGpu
from flopgap import counter

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]


def pytest_runtest_logreport(report):
    """Skips are counted with those of the Rust tests: what is missing, the test, the reason."""
    path = os.environ.get("FLOPGAP_SKIPPED")
    if path and report.skipped:
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        reason = " ".join(reason.removeprefix("Skipped: ").split())
        found = re.search(r"could not import '(\w+)'", reason)
        what = found.group(1) if found else "gpu" if "GPU" in reason else "python"
        with open(path, "a") as file:
            file.write(f"{what}\tpython: {report.nodeid}\t{reason}\n")


def pytest_collectreport(report):
    """A module of which no test can run is skipped as a whole."""
    pytest_runtest_logreport(report)


@pytest.fixture(scope="session")
def fixtures() -> pathlib.Path:
    return REPOSITORY / "fixtures"


@pytest.fixture(autouse=True)
def in_the_repository(monkeypatch):
    """Examples name their files from the root of the repository."""
    monkeypatch.chdir(REPOSITORY)


def missing(name: str):
    """A library that a test needs; where it is required (FLOPGAP_REQUIRE), its absence is a failure."""
    if name in os.environ.get("FLOPGAP_REQUIRE", "").split(","):
        return __import__(name)
    return pytest.importorskip(name)


def needs_counters():
    """Skips where counters cannot be read."""
    try:
        flopgap.count(lambda: None)
    except flopgap.AbsentError as error:
        pytest.skip(f"counters cannot be read here: {error}")


def encoder_layer(batch: int):
    """A step of training of an encoder layer on the GPU, which ran before; its model is ``step.model``."""
    import torch

    torch.manual_seed(0)
    model = torch.nn.TransformerEncoderLayer(1024, 16, 4096, batch_first=True, dropout=0.0).cuda().bfloat16()
    x = torch.randn(batch, 512, 1024, device="cuda", dtype=torch.bfloat16)

    def step():
        model.zero_grad(set_to_none=True)
        model(x).float().square().mean().backward()

    for _ in range(3):
        step()
    step.model = model
    return step


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> FakeGpu:
    """Counting goes to a GPU that does not exist."""
    fake = FakeGpu()
    monkeypatch.setattr(counter, "_open_gpu", lambda index: fake)
    monkeypatch.setattr(counter, "_open_session", lambda gpu, metrics: gpu.open(list(metrics)))
    counter._gpus.clear()
    counter._close()
    yield fake
    counter._gpus.clear()
    counter._kept.clear()
