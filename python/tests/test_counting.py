"""Counting without PyTorch and without a GPU: what runs, which counters are requested, what the result contains."""

import dataclasses
import json
import os
import sys
import threading

import pytest
from fake import COPY, INTEGERS, PRESETS, PRODUCT, SIGMOID, FakeGpu

import flopgap


def step(gpu: FakeGpu, times: int = 1) -> str:
    for _ in range(times):
        gpu.launch(PRODUCT, hgmma_src_bf16=1000, time=50, bytes_read=300, bytes_write=100, ffma=7)
        gpu.launch(SIGMOID, time=10, bytes_read=30, bytes_write=30, fadd=5, ffma=3, hadd=2)
        gpu.launch(COPY, time=5, bytes_read=1, bytes_write=2, hadd=64)
    return "done"


def test_a_function_is_counted_in_one_run(gpu):
    counts = flopgap.count(step, gpu, times=2)
    assert counts.value == "done" and counts.runs == 1
    assert counts.flops["tensor bf16"] == 2000 == counts.tensor_flops
    assert (counts.time_ns, counts.bytes_read, counts.bytes_written, counts.bytes) == (130, 662, 264, 926)
    assert counts.launches == 6 and counts.graphs == 0
    assert (gpu.opened, gpu.closed) == (1, 1), "the counters were given back"
    assert gpu.synchronized == 1, "what was launched before is not counted"


def test_what_was_not_counted_is_none_and_named(gpu):
    counts = flopgap.count(step, gpu)
    assert counts.flops["fp32"] is None and counts.total is None and counts.shader_flops is None
    # No kernel there is of half precision, so half of its parts suffices.
    assert counts.flops["tensor fp16"] == 0
    assert counts.uncounted == {"sass": {PRODUCT: 1, SIGMOID: 1}}
    gpu_copy = lambda: gpu.launch("ampere_fp16_s16816gemm_fp16_128x64_ldg8_f2f_stages_64x3_nn")  # noqa: E731
    counts = flopgap.count(gpu_copy)
    assert counts.flops["tensor fp16"] is None and counts.tensor_flops is None
    assert "tensor-2" in counts.uncounted


def test_several_presets_run_the_function_several_times(gpu):
    counts = flopgap.Counter(what=["tensor", "sass"]).count(step, gpu)
    assert counts.runs == 2
    assert counts.flops["tensor bf16"] == 1000
    assert counts.flops["fp32"] == 7 * 2 + 5 + 3 * 2
    everything = flopgap.Counter(what="all").count(step, gpu)
    assert everything.runs == len(PRESETS) and everything.uncounted == {}


def test_half_precision_instructions_count_where_kernels_compute_with_them(gpu):
    def halves(symbol):
        return flopgap.Counter(what="sass", by="kernel").count(lambda: gpu.launch(symbol, hfma=3)).flops["fp16"]

    assert halves(COPY) == 0
    assert halves("void gemv2T_kernel_val<int, int, __half, __half, __half, 128, 16, 4, 4, false>(int)") in (12, None)
    assert halves("users_own_kernel") is None


def test_passes_of_a_preset_run_the_function_again(gpu):
    gpu.passes = 2
    calls = []
    counts = flopgap.count(lambda: calls.append(1))
    assert len(calls) == 2 == counts.runs


def test_regions_have_paths_and_the_rest_is_at_the_top(gpu):
    @flopgap.region("inner")
    def inner():
        gpu.launch(hgmma_src_bf16=20)

    def work():
        gpu.launch(hgmma_src_bf16=1)
        for _ in range(2):
            with flopgap.region("outer"):
                gpu.launch(hgmma_src_bf16=5)
                inner()
                gpu.launch(hgmma_src_bf16=5)
        gpu.launch(hgmma_src_bf16=2)

    counts = flopgap.Counter(by="region").count(work)
    found = {row.label.path: counts.flops_of([row])["tensor bf16"] for row in counts.rows}
    assert found == {"": 3, "outer": 20, "outer/inner": 40}
    assert counts.flops["tensor bf16"] == 63
    # Outside of a count, and where nothing is counted by region, they are nothing.
    work()
    assert [row.label.path for row in flopgap.count(work).rows] == [""]


def test_a_block_is_counted(gpu):
    with flopgap.counting(by="region") as block:
        with pytest.raises(flopgap.CountError, match="has not ended"):
            block.counts  # noqa: B018
        with block.region("a"):
            gpu.launch(hgmma_src_bf16=3)
    assert block.counts.flops["tensor bf16"] == 3
    assert gpu.closed == 1
    with pytest.raises(flopgap.CountError, match="a block runs once") as caught:
        with flopgap.counting(what=["tensor", "sass"]):
            pass
    assert "count()" in caught.value.hint


def test_kernels_and_launches_are_distinguished(gpu):
    counts = flopgap.Counter(by=("region", "launch"), what=["tensor", "sass"]).count(step, gpu, times=2)
    assert [row.symbol for row in counts.rows] == [PRODUCT, SIGMOID, COPY] * 2
    assert counts.rows[0].values["smsp__sass_thread_inst_executed_op_ffma_pred_on.sum"] == 7
    assert counts.flops_of(counts.rows[:1])["tensor bf16"] == 1000
    assert counts.tables == ("total", "regions", "kernels", "launches")


def test_regions_that_launch_nothing_need_not_be_in_every_run(gpu):
    from flopgap.modules import Label
    from flopgap.rows import Row, merged

    def row(path, launches, **values):
        return Row(Label(path), launches=launches, values=values)

    # A copy within "b" moved bytes in the first run; "c" was entered in the second alone.
    first = [row("a", 2, time=5, bytes=7), row("b", 0, time=0, bytes=3), row("a", 1, time=1, bytes=1), row("d", 0, time=0, bytes=0)]
    second = [row("a", 3, fadd=9), row("b", 0, fadd=0), row("c", 0, fadd=0), row("d", 0, fadd=0)]
    rows = merged([first, second])
    assert [(r.label.path, r.launches, r.values) for r in rows] == [
        ("a", 3, {"time": 6, "bytes": 8, "fadd": 9}),
        ("b", 0, {"time": 0, "bytes": 3, "fadd": 0}),
    ]
    with pytest.raises(flopgap.CountError, match=r"run 2 .* \(2 kernels, the first 3\)"):
        merged([first, [row("a", 2, fadd=9)]])


def test_runs_that_differ_are_refused(gpu):
    calls = []

    def changing():
        calls.append(1)
        for _ in calls:
            gpu.launch()

    with pytest.raises(flopgap.CountError, match="run 2 launched something else") as caught:
        flopgap.Counter(what=["tensor", "sass"]).count(changing)
    assert "once before" in caught.value.hint


def test_an_error_of_the_function_comes_out_and_counting_goes_on_after_it(gpu):
    def fails():
        gpu.launch()
        raise KeyError("mine")

    for _ in range(2):
        with pytest.raises(KeyError, match="mine"):
            flopgap.count(fails)
    assert gpu.closed == gpu.opened == 2
    assert flopgap.count(step, gpu).flops["tensor bf16"] == 1000


def test_counts_cannot_be_nested(gpu):
    with pytest.raises(flopgap.CountError, match="something else is being counted"):
        flopgap.count(lambda: flopgap.count(step, gpu))
    seen = []

    def other():
        try:
            flopgap.count(step, gpu)
        except flopgap.CountError as error:
            seen.append(error)

    def work():
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()

    flopgap.count(work)
    assert len(seen) == 1


def test_a_kept_session_is_opened_once_and_parked_between_counts(gpu):
    with flopgap.Counter() as counter:
        for _ in range(3):
            assert counter.count(step, gpu).flops["tensor bf16"] == 1000
        assert (gpu.opened, gpu.parked, gpu.closed) == (1, 3, 0)
        # Another client of CUPTI came in between.
        gpu.session.fail_to_begin = flopgap.CountError("the GPU's counters are in use")
        assert counter.count(step, gpu).flops["tensor bf16"] == 1000
        assert (gpu.opened, gpu.parked, gpu.closed) == (2, 4, 1)
    assert (gpu.opened, gpu.closed) == (2, 2)
    counter.close()
    assert gpu.closed == 2


def test_counts_are_not_lost_when_cupti_stays(gpu):
    gpu.fail_to_close = flopgap.CountError("cuptiFinalize: no")
    with pytest.warns(RuntimeWarning, match="stays in the process"):
        assert flopgap.count(step, gpu).flops["tensor bf16"] == 1000

    def fails():
        raise KeyError("mine")

    with pytest.warns(RuntimeWarning, match="stays"), pytest.raises(KeyError, match="mine"):
        flopgap.count(fails)
    gpu.fail_to_close = None


def test_cupti_is_taken_from_pytorchs_profiler_alone(monkeypatch):
    from flopgap import recording
    from flopgap.counter import _takes_over

    monkeypatch.delenv("CUDA_INJECTION64_PATH", raising=False)
    monkeypatch.delenv("NSYS_PROFILING_SESSION_ID", raising=False)
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    assert not _takes_over()
    monkeypatch.setitem(sys.modules, "torch", object())
    assert _takes_over()
    # The recorder of the process itself, which names its library for programs that this one starts.
    monkeypatch.setenv("CUDA_INJECTION64_PATH", "/recorder.so")
    assert not _takes_over()
    monkeypatch.setattr(recording._process, "library", "/recorder.so")
    assert _takes_over()
    with recording._process.lock:
        assert not _takes_over()
    monkeypatch.setenv("NSYS_PROFILING_SESSION_ID", "1")
    assert not _takes_over()


def test_room_is_made_for_few_rows_and_there_is_no_limit(gpu):
    def work():
        for index in range(1000):
            with flopgap.region(f"r{index}"):
                gpu.launch(hgmma_src_bf16=1)

    for by, expected in (("total", 1), ("region", 128), ("launch", 128)):
        gpu.expected.clear()
        counts = flopgap.Counter(by=by, what=["tensor", "sass"]).count(work)
        assert counts.flops["tensor bf16"] == 1000 and len(counts.rows) == (1 if by == "total" else 1000)
        assert gpu.expected == [expected, expected]


def test_graphs_are_counted_but_their_kernels_are_unknown(gpu):
    counts = flopgap.count(lambda: gpu.graph(hgmma_src_bf16=100))
    assert counts.graphs == 1 and counts.launches == 0
    assert counts.flops["tensor bf16"] == 100, "both instructions of the type were counted"
    assert counts.flops["tensor fp16"] is None, "what else is in the graph is not known"


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        (lambda: flopgap.Counter(by="layers"), ValueError),
        (lambda: flopgap.Counter(by=[]), ValueError),
        (lambda: flopgap.Counter(what=3), TypeError),
        (lambda: flopgap.Counter(what=[]), TypeError),
        (lambda: flopgap.Counter(depth=-1), ValueError),
        (lambda: flopgap.Counter(depth="2"), ValueError),
        (lambda: flopgap.Counter(timed=-1), ValueError),
        (lambda: flopgap.Counter(theory="maybe"), ValueError),
        (lambda: flopgap.Counter(device="cpu"), ValueError),
        (lambda: flopgap.count(42), TypeError),
    ],
)
def test_wrong_arguments_are_refused(gpu, wrong, error):
    with pytest.raises(error):
        wrong()


def test_an_unknown_preset_names_those_that_there_are(gpu):
    with pytest.raises(flopgap.CountError, match="no preset 'tensors'") as caught:
        flopgap.Counter(what="tensors").count(step, gpu)
    assert "tensor-2" in caught.value.hint


def test_a_gpu_that_cannot_be_counted_is_an_exception(gpu):
    gpu.fail_to_open = flopgap.AbsentError("no permission", "run as root")
    with pytest.raises(flopgap.AbsentError, match="no permission"):
        flopgap.count(step, gpu)
    gpu.fail_to_open = None
    assert flopgap.count(step, gpu).flops["tensor bf16"] == 1000


def test_utilization_is_against_the_peaks_over_the_steps_own_time(gpu):
    counts = flopgap.count(step, gpu)
    assert (counts.hfu, counts.mfu, counts.kernel_utilization) == (None, None, None), "the time while counting is nobody's"
    assert "theory" in counts.no_mfu
    own = counts.with_time(2e-9)
    assert own.hfu == pytest.approx(1000 / 989.5e12 / 2e-9) and own.flops == counts.flops
    given = flopgap.Counter(peaks={"tensor bf16": 1e12, "bytes": 1e12}).count(step, gpu).with_time(2e-9)
    assert given.hfu == pytest.approx(1000 / 1e12 / 2e-9) and given.peaks.bytes_per_second == 1e12
    by_launch = flopgap.Counter(by="launch").count(step, gpu)
    assert by_launch.hfu is None and by_launch.kernel_seconds == pytest.approx(65e-9)
    assert by_launch.kernel_utilization == pytest.approx(1000 / 989.5e12 / 65e-9)
    assert by_launch.with_time(2e-9).hfu == own.hfu
    gpu.name = "a GPU of next year"
    assert flopgap.count(step, gpu).with_time(1.0).hfu is None
    for wrong in (0, -1.0, float("nan"), float("inf")):
        with pytest.raises(ValueError, match="time of a step"):
            counts.with_time(wrong)


@pytest.mark.parametrize(
    ("peaks", "says"), [({"tensor bf16": 989.5}, "per second"), ({"bf16": 1e15}, "no peak of 'bf16'"), ({"fp32": float("nan")}, "peak of fp32")]
)
def test_peaks_in_other_units_or_of_nothing_are_refused(gpu, peaks, says):
    with pytest.raises(ValueError, match=says):
        flopgap.Counter(peaks=peaks)


def test_products_of_integers_are_unknown_and_not_0(gpu):
    counts = flopgap.count(lambda: gpu.launch(INTEGERS, time=5))
    assert counts.flops["tensor int8"] is None and counts.total is None and counts.tensor_flops is None
    assert "products of integers: no preset counts them" in str(counts)
    assert counts.table().to_dicts()
    assert "tensor int8" not in flopgap.count(step, gpu).flops


def test_what_a_generator_would_do_is_not_counted_as_nothing(gpu):
    def parts():
        yield gpu.launch(PRODUCT, hgmma_src_bf16=1)

    with pytest.raises(TypeError, match="generator"):
        flopgap.count(parts)
    assert flopgap.count(lambda: list(parts())).launches == 1


def test_peaks_may_be_ceilings_that_were_measured(gpu, tmp_path):
    quantity = lambda value: {"value": value, "spread": 0.01}  # noqa: E731
    ceilings = {
        "device": "NVIDIA H200",
        "peaks": [
            {"precision": "bf16", "tensor": True, "ops_per_second": quantity(7.0e14)},
            {"precision": "bf16", "tensor": True, "ops_per_second": quantity(7.5e14)},
            {"precision": "fp32", "tensor": False, "ops_per_second": quantity(5.0e13)},
        ],
        "levels": [{"name": "L2", "bytes": 1, "read": 9e12, "copy": 8e12}, {"name": "HBM", "read": 4.4e12, "copy": 4.2e12}],
    }
    path = tmp_path / "ceilings.json"
    path.write_text(json.dumps(ceilings))
    peaks = flopgap.Counter(peaks=path).count(step, gpu).peaks
    assert peaks.flops_per_second == {"tensor bf16": 7.5e14, "fp32": 5.0e13}
    assert peaks.bytes_per_second == 4.2e12 and str(path) in peaks.source
    for wrong in ('{"peaks": 3}', "no json"):
        path.write_text(wrong)
        with pytest.raises(flopgap.InputError, match="has no peaks"):
            flopgap.peaks_of("NVIDIA H200", path)


def test_timed_runs_are_not_counted(gpu):
    counts = flopgap.Counter(timed=3).count(step, gpu)
    assert counts.runs == 4 and counts.seconds > 0
    assert counts.flops["tensor bf16"] == 1000
    assert gpu.closed == 1


def test_tables_have_units_and_what_is_unknown_is_null(gpu):
    def work():
        with flopgap.region("a"):
            step(gpu)
        gpu.launch("users_own_kernel", time=3)

    counts = flopgap.Counter(by=("region", "launch")).count(work)
    rows = counts.table("launches").to_dicts()
    assert [row["path"] for row in rows] == ["a", "a", "a", ""]
    assert rows[0]["symbol"] == PRODUCT and rows[0]["class"] == "matmul" and rows[0]["tile"] == "128x160x64"
    assert (rows[0]["tensor_bf16_flops"], rows[0]["duration_ns"], rows[0]["dram_read_bytes"]) == (1000, 50, 300)
    assert (rows[0]["grid_x"], rows[0]["block_x"]) == (1, 128)
    # A kernel of whatever kind may have used the part of the type that was not counted.
    assert rows[0]["tensor_fp16_flops"] == 0 and rows[3]["tensor_fp16_flops"] is None
    assert "fp32_flops" not in rows[0], "it was counted nowhere"
    kernels = counts.table("kernels").to_dicts()
    assert [row["launches"] for row in kernels] == [1, 1, 1, 1]
    regions = counts.table("regions").to_dicts()
    assert [(row["path"], row["launches"], row["inclusive_duration_ns"]) for row in regions] == [("", 1, 68), ("a", 3, 65)]
    assert counts.table().name == "launches"
    assert all(field.description.endswith(".") for field in counts.table("launches").schema)
    with pytest.raises(flopgap.AbsentError, match="no table 'operators'"):
        counts.table("operators")


def test_it_reads_well(gpu):
    text = str(flopgap.Counter(what=["tensor", "sass"], by="kernel").count(step, gpu))
    assert "NVIDIA H200 (GH100): 3 launches, 2 runs, preset tensor, sass" in text
    assert "tensor bf16" in text and "1,000" in text
    page = flopgap.count(step, gpu)._repr_html_()
    assert "<table" in page and "not counted" in page and "<script" not in page
    gpu.name = "<b>"
    assert "<b>" not in flopgap.count(step, gpu)._repr_html_()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_forked_child_begins_again(gpu):
    with flopgap.Counter() as counter:
        counter.count(step, gpu)
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            from flopgap import counter as module

            os.write(write, b"1" if not module._kept and not module._gpus else b"0")
            os._exit(0)
        os.waitpid(child, 0)
        assert os.read(read, 1) == b"1"
        assert counter.count(step, gpu).launches == 3


def test_text_fits_100_columns_whatever_kernels_are_called(gpu):
    long = "void cutlass::device_kernel<flash::" + "enable_sm90_or_later<" * 12 + "FlashAttnFwd" + ">" * 13 + "(Params)"

    def work():
        step(gpu)
        gpu.launch(long, ffma=1)
        gpu.launch(f"users_own_kernel_{'x' * 150}", ffma=1)

    for counts in (flopgap.count(work), flopgap.Counter(what="all", by=("region", "launch")).count(work)):
        text = str(dataclasses.replace(counts, notes=("a note " * 30,)))
        assert max(map(len, text.splitlines())) <= 100
        assert all(word in "".join(text.split()) for word in ("presettensor", "note:anote", counts.device.replace(" ", "")))
    # Nothing of a name is lost, and what belongs to a line is below it.
    text = str(flopgap.count(lambda: gpu.launch(f"users_own_kernel_{'x' * 150}")))
    assert "x" * 150 in "".join(text.split())
    lines = text.splitlines()
    start = next(index for index, line in enumerate(lines) if "users_own" in line)
    assert lines[start + 1].startswith(" " * 20)
