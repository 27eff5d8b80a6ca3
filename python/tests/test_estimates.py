"""Estimates of what PyTorch takes are those of the program."""

import json
import subprocess
import sys

import flopgap
import pytest

RESNET = "fixtures/models/resnet18.pt2"


@pytest.mark.parametrize("run_as", ["eager", "graph", "compile", "compile-graph"])
@pytest.mark.parametrize("precision", [None, "tf32", "bf16"])
def test_an_estimate_is_that_of_the_program(run_as, precision):
    found = flopgap.estimate(RESNET, machine="h200", run_as=run_as, precision=precision)
    command = [sys.executable, "-m", "flopgap", "calibrate", "estimate", RESNET, "--machine", "h200", "--as", run_as, "--format", "json"]
    command += ["--precision", precision] if precision else []
    printed = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    assert found.time_ms == pytest.approx(printed["time_ms"], rel=1e-12)
    assert (found.low_ms, found.high_ms) == pytest.approx((printed["time_low_ms"], printed["time_high_ms"]), rel=1e-12)
    assert (found.gpu_ms if run_as in ("eager", "compile") else None) == printed["gpu_ms"]
    assert found.host_ms == printed["host_ms"]
    assert found.precision == printed["precision"]
    by_layer = {}
    for call in found.calls:
        by_layer[call.name] = by_layer.get(call.name, 0.0) + call.time_us
    assert sorted(by_layer.values()) == pytest.approx(sorted(1e3 * layer["time_ms"] for layer in printed["layers"]), rel=1e-12)
    assert (found.missing, found.unknown) == ([], [])


@pytest.mark.parametrize("run_as", ["eager", "graph"])
def test_a_training_step_is_that_of_the_program(run_as):
    found = flopgap.estimate(RESNET, machine="h100", run_as=run_as, train=True)
    command = [sys.executable, "-m", "flopgap", "calibrate", "estimate", RESNET, "--machine", "h100", "--train", "--as", run_as, "--format", "json"]
    printed = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    assert found.time_ms == pytest.approx(printed["time_ms"], rel=1e-12)
    assert found.parts_ms == pytest.approx([printed["training"][part] for part in ("forward_ms", "backward_ms", "optimizer_ms")], rel=1e-12)
    assert flopgap.estimate(RESNET, machine="h100", run_as=run_as).parts_ms is None


def test_what_was_not_measured_is_refused():
    with pytest.raises(flopgap.AbsentError, match="PyTorch was not measured on a100"):
        flopgap.estimate(RESNET, machine="a100")
    with pytest.raises(flopgap.AbsentError, match="not measured in this precision"):
        flopgap.estimate(RESNET, machine="h100", precision="int8")
    with pytest.raises(ValueError, match="run_as is 'eager', 'graph', 'compile' or 'compile-graph', not 'fast'"):
        flopgap.estimate(RESNET, machine="h100", run_as="fast")
    with pytest.raises(ValueError, match="training steps are estimated as 'eager' and 'graph'"):
        flopgap.estimate(RESNET, machine="h100", run_as="compile", train=True)
    with pytest.raises(flopgap.InputError, match="torch.export"):
        flopgap.estimate("fixtures/models/resnet18.onnx", machine="h100")
    with pytest.raises(TypeError, match="inputs are for a module"):
        flopgap.estimate(RESNET, 1, machine="h100")


def test_a_module_is_exported_first():
    torch = pytest.importorskip("torch")
    module = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 10))
    found = flopgap.estimate(module, torch.randn(32, 64), machine="h100", run_as="graph")
    assert [call.operator for call in found.calls] == ["aten.linear.default", "aten.relu.default", "aten.linear.default"]
    assert found.flops == 2 * 32 * (64 * 128 + 128 * 10) + 32 * (128 + 128 + 10)
    assert found.host_ms is None and found.low_ms < found.time_ms < found.high_ms
