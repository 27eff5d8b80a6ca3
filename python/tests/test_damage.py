"""What is damaged is an exception for every reader: no table is short, and the interpreter lives on."""

import pathlib
import subprocess
import sys

import flopgap
import pytest
from conftest import missing


@pytest.fixture
def damaged(tmp_path):
    """An export with a page in the middle of its kernels overwritten."""
    source = flopgap.read("fixtures/nsys/small_training_step.sqlite.zst")
    # The library unpacks it; here its bytes are wanted.
    decoded = subprocess.run(["zstd", "-dc", source.path], capture_output=True)
    if decoded.returncode:
        pytest.skip("zstd is not on this machine")
    content = bytearray(decoded.stdout)
    name = b"CUPTI_ACTIVITY_KIND_KERNEL"
    assert name in content
    page = 4096
    good = tmp_path / "good.sqlite"
    good.write_bytes(content)
    rows = len(flopgap.read(good).kernels.to_dicts())
    # The first leaf whose loss shows when the kernels are read, and not before.
    for at in range(page, len(content), page):
        if content[at] != 0x0D:
            continue
        broken = content.copy()
        broken[at : at + 8] = b"\xff" * 8
        path = tmp_path / "broken.sqlite"
        path.write_bytes(broken)
        try:
            kernels = flopgap.read(path).kernels
        except flopgap.FlopgapError:
            continue
        try:
            assert len(kernels.to_dicts()) == rows, "a short table"
        except flopgap.FlopgapError:
            return path
    raise AssertionError("no page matters")


def test_damage_is_an_exception_of_flopgap(damaged):
    with pytest.raises(flopgap.InputError, match="broken.sqlite: damaged: page") as caught:
        flopgap.read(damaged).kernels.to_dicts()
    assert caught.value.hint == "export the trace again"


@pytest.mark.parametrize("library", ["polars", "pyarrow", "duckdb"])
def test_libraries_pass_it_on(damaged, library):
    module = missing(library)
    kernels = flopgap.read(damaged).kernels
    take = {
        "polars": lambda kernels: module.DataFrame(kernels),
        "pyarrow": lambda kernels: module.table(kernels),
        "duckdb": lambda kernels: module.sql("select count(name) from kernels").fetchall(),
    }[library]
    with pytest.raises(Exception, match="broken.sqlite: damaged: page"):
        take(kernels)


def test_fuzzed_files_end_no_interpreter(tmp_path):
    """Half a file, a file of noise, and a file with another's beginning: an exception each, or what was readable."""
    program = """
import sys, flopgap
for path in sys.argv[1:]:
    try:
        source = flopgap.read(path)
        for name in source.tables:
            source[name].to_dicts()
            source[name]._repr_html_()
        flopgap.kernels(source)
    except flopgap.FlopgapError as error:
        assert str(error)
print("alive")
"""
    paths = []
    for at, name in enumerate(["ncu/h200_range.ncu-rep", "ncu/full_raw.csv.zst", "nsys/small_forward.sqlite.zst", "kineto/mlp_n10_d1024_m128.json.gz"]):
        whole = pathlib.Path("fixtures", name).read_bytes()
        for kind, content in {
            "half": whole[: len(whole) // 2],
            "noise": whole[:64] + bytes((one * 197 + at) % 256 for one in range(len(whole) - 64)),
            "head": whole[:20],
        }.items():
            path = tmp_path / f"{kind}-{pathlib.Path(name).name}"
            path.write_bytes(content)
            paths.append(str(path))
    done = subprocess.run([sys.executable, "-c", program, *paths], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "alive\n"), done.stderr
