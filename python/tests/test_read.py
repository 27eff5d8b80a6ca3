"""Sources and their tables, without any other library."""

import gc
import pathlib
import threading

import flopgap
import pytest

TRAINING = "fixtures/nsys/small_training_step.sqlite.zst"
#: nsys's own sum over `cuda_gpu_kern_sum` of it.
TRAINING_NS = 114_068_289


def test_the_content_of_a_file_decides_what_it_is(tmp_path):
    for path, kind, table in [
        (TRAINING, "nsys", "kernels"),
        ("fixtures/ncu/n4_d512_m64_forward.csv", "ncu", "launches"),
        ("fixtures/ncu/h200_range.ncu-rep", "ncu", "counters"),
        ("fixtures/kineto/mlp_n10_d1024_m128.json.gz", "kineto", "operators"),
        ("fixtures/runs/h200-pytorch", "run", "overheads"),
    ]:
        source = flopgap.read(path)
        assert source.kind == kind
        assert source.path == pathlib.Path(path)
        assert table in source
        assert table in source.tables
        assert list(source) == source.tables == source.keys()
        assert len(source) == len(source.tables)
        assert source[table].to_dicts(1)
    renamed = tmp_path / "no ending"
    renamed.write_bytes(pathlib.Path(TRAINING).read_bytes())
    assert flopgap.read(renamed).kind == "nsys"


def test_tables_are_attributes():
    source = flopgap.read(TRAINING)
    assert source.kernels.columns == source["kernels"].columns
    assert "kernels" in dir(source)
    assert not hasattr(source, "operators")
    assert not hasattr(source, "_ipython_display_")
    with pytest.raises(AttributeError, match="no table `operators`"):
        source.operators


def test_rows_are_dicts():
    table = flopgap.read(TRAINING).kernels
    rows = table.to_dicts()
    assert sum(row["duration_ns"] for row in rows) == TRAINING_NS
    assert all(row["end_ns"] - row["start_ns"] == row["duration_ns"] for row in rows)
    assert table.to_dicts(3) == rows[:3]
    assert table.to_dicts(0) == []
    assert {type(row["name"]) for row in rows} == {str}
    few = table.select("class", "duration_ns")
    assert few.columns == ["class", "duration_ns"]
    assert few.to_dicts(1) == [{"class": rows[0]["class"], "duration_ns": rows[0]["duration_ns"]}]


def test_what_was_not_measured_is_none():
    rows = flopgap.read("fixtures/ncu/h200_range.ncu-rep").launches.to_dicts()
    assert any(value is None for row in rows for value in row.values())


def test_a_schema_says_what_columns_mean():
    schema = flopgap.read(TRAINING).kernels.schema
    assert len(schema) == len(schema.names)
    assert [field.name for field in schema] == schema.names
    duration = schema["duration_ns"]
    assert (duration.type, duration.nullable) == ("int64", False)
    assert duration.description.startswith("From start to end")
    assert schema[-1].name == schema.names[-1]
    assert "duration_ns: int64." in repr(schema)
    for key in ("nothing", 1000, -1000):
        with pytest.raises(LookupError):
            schema[key]
    metric = flopgap.read("fixtures/ncu/n4_d512_m64_forward.csv").launches.schema[-1]
    assert metric.metric.startswith("smsp__sass_thread_inst_executed_op_")
    assert metric.unit == "inst"


def test_representations():
    source = flopgap.read(TRAINING)
    assert repr(source) == f"<flopgap.Source {TRAINING}: an export of Nsight Systems, with {', '.join(source.tables)}>"
    assert "<td style=\"text-align: left\">kernels</td>" in source._repr_html_()
    table = source.kernels.select("name", "duration_ns")
    assert repr(table) == "<flopgap.Table kernels (name: text, duration_ns: int64)>"
    page = table._repr_html_()
    assert page.count("<tr>") == 11
    assert "the first 10 rows" in page
    assert "lambda()" not in page or "&lt;" in page
    assert "<script" not in page
    assert "<td" in table.schema._repr_html_()


def test_errors_name_the_file_and_what_to_do(tmp_path):
    with pytest.raises(FileNotFoundError) as caught:
        flopgap.read(tmp_path / "nothing.sqlite")
    assert isinstance(caught.value, flopgap.InputError)
    assert "nothing.sqlite" in str(caught.value)
    text = tmp_path / "a.txt"
    text.write_text("hello\n")
    with pytest.raises(flopgap.InputError) as caught:
        flopgap.read(text)
    assert str(text) in caught.value.message
    assert ".ncu-rep" in caught.value.hint
    with pytest.raises(LookupError) as caught:
        flopgap.read(TRAINING)["kernel"]
    assert isinstance(caught.value, flopgap.AbsentError)
    assert caught.value.hint.startswith("it has kernels, copies")
    with pytest.raises(flopgap.AbsentError, match="no column `duration`"):
        flopgap.read(TRAINING).kernels.select("duration")
    for wrong in (None, 3, b"\xff"):
        with pytest.raises((TypeError, flopgap.InputError)):
            flopgap.read(wrong)
    with pytest.raises(TypeError):
        flopgap.read(TRAINING).kernels.select(3)


def test_a_table_outlives_its_source_and_goes_to_other_threads():
    table = flopgap.read(TRAINING).kernels.select("duration_ns")
    gc.collect()
    sums = []
    threads = [threading.Thread(target=lambda: sums.append(sum(row["duration_ns"] for row in table.to_dicts()))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sums == [TRAINING_NS] * 4


def test_streams_that_nobody_takes_are_freed():
    table = flopgap.read(TRAINING).kernels
    for _ in range(50):
        table.__arrow_c_stream__()
        table.__arrow_c_schema__()
    assert sum(row["duration_ns"] for row in table.select("duration_ns").to_dicts()) == TRAINING_NS
