"""Answers are those of the binaries: the libraries' own numbers, with types."""

import csv
import dataclasses
import gzip
import typing

import flopgap
import pytest
from flopgap import found as records

FORWARD = "fixtures/nsys/small_forward.sqlite.zst"
BACKWARD = "fixtures/nsys/small_forward_backward.sqlite.zst"
TRAINING = "fixtures/nsys/small_training_step.sqlite.zst"
RANKS = "fixtures/nsys/two_ranks.sqlite.zst"


def has_its_types(value, kind):
    """Whether a value is what its annotation says, all the way down."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is list:
        return isinstance(value, list) and all(has_its_types(one, arguments[0]) for one in value)
    if origin is tuple:
        return isinstance(value, tuple) and all(map(has_its_types, value, arguments))
    if arguments:
        return any(has_its_types(value, one) for one in arguments)
    if dataclasses.is_dataclass(kind):
        hints = typing.get_type_hints(kind)
        return isinstance(value, kind) and all(has_its_types(getattr(value, name), hint) for name, hint in hints.items())
    return type(value) is kind


def test_parts_of_a_step_add_up():
    for path in (TRAINING, RANKS, "fixtures/advice/empty-cache.before.json.zst"):
        found = flopgap.gap(path)
        assert has_its_types(found, records.StepGap)
        for step in found.steps + found.between:
            assert sum(part.ns for part in step.parts) == step.wall_ns
        for part in found.parts:
            assert sum(detail.ns for detail in part.details) == part.ns
        if found.floor is not None:
            for part in found.floor.parts:
                assert part.floor_ns + part.repeated_ns <= part.known_ns <= part.ns
    assert (found.limit, found.advice[0].kind) == ("allocation", "allocations")
    assert 0 < found.floor.mfu <= found.floor.hfu < 1
    assert flopgap.gap(TRAINING, range="forward").step == "forward"


def test_replays_are_of_what_was_captured():
    replays, capture = (f"fixtures/inference/graph_{name}.json.gz" for name in ("replays", "capture"))
    assert flopgap.gap(replays).graphs.named == 0
    found = flopgap.gap(replays, capture=capture)
    assert (found.graphs.operations, found.graphs.named) == (110, 110)
    assert found.parts[0].details[0].by == "aten::linear"


def test_kernels_are_those_that_nsys_prints(fixtures):
    found = flopgap.kernels(TRAINING)
    with open(fixtures / "nsys/golden/small_training_step/cuda_gpu_kern_sum.csv") as file:
        printed = {row["Name"]: (int(row["Instances"]), int(row["Total Time (ns)"])) for row in csv.DictReader(file)}
    assert {kernel.name: (kernel.times.count, kernel.times.total_ns) for kernel in found.kernels} == printed
    assert found.total_ns == sum(total for _, total in printed.values())
    assert has_its_types(found, records.Kernels)
    rows = found.table.to_dicts()
    assert [(row["name"], row["calls"], row["total_ns"]) for row in rows] == [
        (kernel.name, kernel.times.count, kernel.times.total_ns) for kernel in found.kernels
    ]
    assert found.sentences[0].startswith("The kernel with the most cumulative GPU time is")


def test_kernels_of_ranges():
    everything, step = flopgap.kernels(TRAINING), flopgap.kernels(TRAINING, range="step_*")
    assert 0 < step.total_ns < everything.total_ns
    assert step.instances and step.scope == "step_*"
    source = flopgap.read(TRAINING)
    assert flopgap.kernels(source, range=["step_*"]) == step
    with pytest.raises(flopgap.AbsentError, match="nowhere"):
        flopgap.kernels(TRAINING, range="nowhere")
    with pytest.raises(ValueError, match="name of a range is empty"):
        flopgap.kernels(TRAINING, range="")
    with pytest.raises(ValueError, match="attribute"):
        flopgap.kernels(TRAINING, attribute="gpu")


def test_traces_of_torch_profiler(fixtures):
    trace = "fixtures/kineto/layer.json.gz"
    with gzip.open(fixtures / "kineto/layer.key_averages.csv.gz", "rt") as file:
        printed = {
            row["name"]: (int(row["count"]), float(row["self_device_time_total"]))
            for row in csv.DictReader(file)
            if row["device_type"] == "CUDA" and not int(row["user_annotation"])
        }
    found = flopgap.kernels(trace)
    assert found.kernels and has_its_types(found, records.Kernels)
    for kernel in found.kernels:
        count, microseconds = printed[kernel.name]
        assert kernel.times.count == count and abs(kernel.times.total_ns / 1000 - microseconds) < 0.01, kernel.name
    passes = flopgap.passes(trace)
    assert {"ProfilerStep#*", "forward_and_loss"} & {one.name for one in passes.passes}
    assert flopgap.diff(trace, trace).same_work
    assert flopgap.compare(trace, "fixtures/nsys/small_forward.sqlite.zst").table.to_dicts()
    assert "NVIDIA H200" in flopgap.summary(trace).markdown
    ranks = flopgap.summary("fixtures/kineto/ddp_rank0.json.gz", "fixtures/kineto/ddp_rank1.json.gz")
    assert "rank 1" in ranks.markdown


def test_counts_of_kernels():
    found = flopgap.gap("fixtures/record/h100_counted.sqlite.zst")
    assert has_its_types(found, records.StepGap)
    executed = found.executed
    assert executed is not None and executed.flops[0] <= executed.flops[1]
    assert executed.flops[0] == sum(one.least for one in executed.operations)
    assert sum(kernel.sums.ns for kernel in executed.kernels) == executed.all.ns
    assert 0 < executed.all.counted < executed.all.launches
    assert flopgap.gap(TRAINING).executed is None


def test_several_places():
    found = flopgap.kernels(RANKS)
    assert has_its_types(found, records.Kernels)
    assert len(found.places) == 2
    assert sum(place.total_ns for place in found.places) == found.total_ns
    assert "GPU" in str(found.places[0].place) or "process" in str(found.places[0].place)
    assert flopgap.kernels(RANKS, pool=True).places == []


def test_passes():
    found = flopgap.passes(BACKWARD)
    assert has_its_types(found, records.Passes)
    names = {one.name for one in found.passes}
    assert {"forward", "backward"} <= names
    forward = next(one for one in found.passes if one.name == "forward")
    assert forward.host.count == len(forward.instances)
    assert forward.host.total_ns == sum(one.end_ns - one.start_ns for one in forward.instances)
    assert [row["name"] for row in found.table.to_dicts()] == [one.name for one in found.passes]
    measured = flopgap.passes(BACKWARD, measured=[0.014, 0.015])
    assert measured.measured.mean_ns == 14_500_000
    assert measured.nearest is not None
    assert has_its_types(measured, records.Passes)
    everything = flopgap.passes(BACKWARD, with_warmup=True)
    assert sum(one.host.count for one in everything.passes) > sum(one.host.count for one in found.passes)


def test_comparison():
    found = flopgap.compare(FORWARD, TRAINING)
    assert has_its_types(found, records.Comparison)
    assert abs(sum(row.share[0] for row in found.rows) - 1) < 1e-9
    assert {row["work"] for row in found.table.to_dicts()} == {row.work for row in found.rows}
    everything = flopgap.compare(FORWARD, TRAINING, all=True)
    assert everything.a.instances is None
    assert everything.b.kernel_ns == flopgap.kernels(TRAINING).total_ns


def test_diff():
    same = flopgap.diff(TRAINING, TRAINING)
    assert same.same_work
    assert has_its_types(same, records.Diff)
    assert all(kernel.time.difference_ns == 0 for kernel in same.kernels)
    other = flopgap.diff(FORWARD, TRAINING, all=True)
    assert has_its_types(other, records.Diff)
    assert not other.same_work
    new = [kernel for kernel in other.kernels if kernel.time.before is None]
    assert new and all(kernel.time.fraction is None for kernel in new)
    rows = other.kernel_table.to_dicts()
    assert [row["difference_ns"] for row in rows] == [kernel.time.difference_ns for kernel in other.kernels]
    assert [row["change"] is None for row in rows] == [kernel.time.fraction is None for kernel in other.kernels]
    assert other.range_table.to_dicts()


def test_summary():
    page = flopgap.summary(FORWARD)
    assert page.markdown.startswith("# small_forward\n")
    assert str(page) == page.markdown
    assert page.html.startswith("<!DOCTYPE html>") or page.html.startswith("<!doctype html>")
    assert page.data
    frame = page._repr_html_()
    assert frame.startswith("<iframe srcdoc=")
    assert "<script" not in frame
    both = flopgap.summary(FORWARD, TRAINING)
    assert "against" in both.markdown


def test_answers_are_of_exports_alone():
    with pytest.raises(flopgap.AbsentError) as caught:
        flopgap.kernels("fixtures/ncu/n4_d512_m64_forward.csv")
    assert "a report of Nsight Compute" in caught.value.message
    assert "launches" in caught.value.hint
    with pytest.raises(flopgap.AbsentError):
        flopgap.passes("fixtures/nsys/nvtx_only.sqlite.zst", range="nowhere")


def test_answers_show_in_notebooks():
    for found in (flopgap.kernels(TRAINING), flopgap.passes(BACKWARD), flopgap.compare(FORWARD, TRAINING), flopgap.diff(FORWARD, FORWARD)):
        page = found._repr_html_()
        assert page.count("<table>") >= 1
        assert page.count("<p>") >= len(found.sentences)
        assert str(found) == "\n".join(found.sentences)


def test_a_directory_of_all_ranks_is_one_trace(fixtures, tmp_path):
    for rank in (0, 1):
        name = f"ddp_rank{rank}.json.gz"
        (tmp_path / name).write_bytes((fixtures / "kineto" / name).read_bytes())
    assert "(2 ranks)" in str(flopgap.summary(tmp_path)).splitlines()[0]
