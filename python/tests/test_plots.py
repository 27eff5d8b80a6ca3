"""Figures have the numbers of their answers."""

import importlib.util

import flopgap
import pytest
from conftest import missing
from flopgap.plots import Bars

STEP = "fixtures/advice/layer-timers.before.json.zst"
FORWARD = "fixtures/nsys/small_forward.sqlite.zst"
TRAINING = "fixtures/nsys/small_training_step.sqlite.zst"


def by_matplotlib(answer):
    """Names of bars, and the lengths of the segments of each part in them, as matplotlib drew them."""
    missing("matplotlib").use("Agg")
    ax = answer.plot(backend="matplotlib")
    names = [label.get_text() for label in ax.get_yticklabels()]
    parts = {drawn.get_label(): [bar.get_width() for bar in drawn] for drawn in ax.containers}
    for bar, places in enumerate(zip(*ax.containers, strict=True)):
        starts = [segment.get_x() for segment in places]
        ends = [0.0, *(segment.get_x() + segment.get_width() for segment in places)]
        assert starts == pytest.approx(ends[:-1]), f"segments of bar {bar} are one after the other"
    __import__("matplotlib.pyplot").pyplot.close(ax.figure)
    return names, parts


def by_plotly(answer):
    missing("plotly")
    figure = answer.plot(backend="plotly")
    assert figure.layout.barmode == "stack"
    return list(figure.layout.yaxis.ticktext), {bar.name: list(bar.x) for bar in figure.data}


@pytest.fixture(params=[by_matplotlib, by_plotly])
def drawn(request):
    return request.param


def test_the_bars_of_steps_are_their_time(drawn):
    found = flopgap.gap(STEP)
    steps = [step for step in found.steps if not step.warm_up]
    names, parts = drawn(found)
    assert names == [step.name for step in steps] and len(names) == found.measured
    assert [sum(lengths) for lengths in zip(*parts.values(), strict=True)] == pytest.approx([step.wall_ns / 1e6 for step in steps])
    blocked = [part.ns / 1e6 for step in steps for part in step.parts if part.cause == "blocking-call"]
    assert parts["idle: blocking-call"] == pytest.approx(blocked)


def test_steps_of_several_ranks_are_named_after_them(drawn):
    names, _ = drawn(flopgap.gap("fixtures/nsys/two_ranks.sqlite.zst"))
    assert len(set(names)) == len(names) == 6


def test_kernels_are_bars_by_kind(drawn):
    found = flopgap.kernels(TRAINING)
    names, parts = drawn(found)
    assert names[0] == "matmul"
    products = sum(kernel.times.total_ns for kernel in found.kernels if kernel.kind == "matmul")
    assert parts["kernels"][0] == pytest.approx(products / 1e6)
    assert sum(parts["kernels"]) == pytest.approx(found.total_ns / 1e6)


def test_two_traces_are_two_bars(drawn):
    found = flopgap.compare(FORWARD, TRAINING)
    names, parts = drawn(found)
    assert names == ["A: step_*", "B: step_*"]
    assert parts["matmul"] == pytest.approx([ns / 1e6 for ns in found.rows[0].total_ns])
    assert [sum(lengths) for lengths in zip(*parts.values(), strict=True)] == pytest.approx(
        [sum(row.total_ns[side] for row in found.rows) / 1e6 for side in (0, 1)]
    )


def test_passes_are_bars_of_an_instance(drawn):
    found = flopgap.passes(TRAINING)
    names, parts = drawn(found)
    assert names == [each.name for each in found.passes]
    for at, each in enumerate(found.passes):
        assert parts["busy"][at] + parts["gaps"][at] == pytest.approx(each.gpu.projected.mean_ns / 1e6)


def test_before_and_after_are_two_bars(drawn):
    found = flopgap.diff(FORWARD, TRAINING)
    names, parts = drawn(found)
    assert names == [f"before: {found.scope[0]}", f"after: {found.scope[1]}"]
    sides = [[(kernel.time.before, kernel.time.after)[at] for kernel in found.kernels] for at in (0, 1)]
    sums = [sum(side.total_ns for side in both if side) / found.instances[at] / 1e6 for at, both in enumerate(sides)]
    assert [sum(lengths) for lengths in zip(*parts.values(), strict=True)] == pytest.approx(sums)


def test_estimates_are_bars_by_operator(drawn):
    found = flopgap.estimate("fixtures/models/resnet50.pt2", machine="h100", run_as="graph", precision="fp16")
    names, parts = drawn(found)
    assert names[0] == "aten.conv2d.default"
    convolutions = sum(call.time_us for call in found.calls if call.operator == names[0])
    assert parts["time"][0] == pytest.approx(convolutions / 1e3)
    assert sum(parts["time"]) == pytest.approx(sum(call.time_us for call in found.calls) / 1e3)


def test_axes_that_are_there_are_drawn_in():
    missing("matplotlib").use("Agg")
    _, ax = __import__("matplotlib.pyplot").pyplot.subplots()
    assert flopgap.kernels(FORWARD).plot(ax=ax) is ax and ax.patches


def test_small_parts_are_one():
    parts = {f"part {index}": [float(index), 1.0] for index in range(14)}
    short = Bars("", ["a", "b"], parts).shortened()
    assert list(short.parts) == [f"part {index}" for index in range(5, 14)] + ["5 others"]
    assert short.parts["5 others"] == [10.0, 5.0]
    assert Bars("", ["a"], {str(index): [1.0] for index in range(10)}).shortened().parts.keys() == {str(index) for index in range(10)}


def test_without_a_library_it_says_what_to_install(monkeypatch):
    found = flopgap.kernels(FORWARD)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(flopgap.AbsentError, match="matplotlib and plotly are not installed") as caught:
        found.plot()
    assert caught.value.hint == "pip install matplotlib"
    with pytest.raises(flopgap.AbsentError, match="plotly is not installed"):
        found.plot(backend="plotly")
    with pytest.raises(ValueError, match="'seaborn'"):
        found.plot(backend="seaborn")
