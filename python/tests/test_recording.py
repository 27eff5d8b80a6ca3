"""Recording of this process, on a CUPTI that needs no GPU."""

import ctypes
import os
import pathlib
import sqlite3
import subprocess
import sys

import flopgap
import pytest

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
FAKE = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", REPOSITORY / "target")) / "debug/examples/libfake_cupti.so"

PROGRAM = """
import ctypes, sys, threading
import flopgap

fake, folder = sys.argv[1:]
launch = lambda: ctypes.CDLL(fake).fake_launch(b"kernel", threading.get_native_id())
launch()
for name, count in [("a", 3), ("b", 5)]:
    with flopgap.record(f"{folder}/{name}.sqlite") as recording:
        for _ in range(count):
            launch()
    assert (recording.processes, recording.kernels, recording.calls) == (1, count, count), recording
    assert recording.losses == ()
    launch()
try:
    with flopgap.record(f"{folder}/c.sqlite"):
        with flopgap.record(f"{folder}/d.sqlite"):
            pass
except flopgap.FlopgapError as error:
    print(error)
"""


@pytest.mark.skipif(not FAKE.exists(), reason="the examples of flopgap-record are not built: cargo test builds them")
def test_blocks_are_recorded_one_after_another(tmp_path):
    environment = os.environ | {"FLOPGAP_RECORD_CUPTI": str(FAKE)}
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(FAKE), str(tmp_path)], env=environment, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    assert "another block records" in run.stdout
    for name, count in [("a", 3), ("b", 5)]:
        rows = sqlite3.connect(tmp_path / f"{name}.sqlite").execute("SELECT start FROM CUPTI_ACTIVITY_KIND_KERNEL")
        assert [start >= 0 for (start,) in rows] == [True] * count


def test_without_a_driver_nothing_is_recorded(monkeypatch, tmp_path):
    monkeypatch.delenv("FLOPGAP_RECORD_CUPTI", raising=False)
    try:
        ctypes.CDLL("libcuda.so.1")
        pytest.skip("there is a driver")
    except OSError:
        pass
    with pytest.raises(flopgap.AbsentError, match="needs the NVIDIA driver"), flopgap.record(tmp_path / "x.sqlite"):
        pass
    assert not (tmp_path / "x.sqlite").exists()


def test_a_process_that_is_recorded_from_outside_says_so(monkeypatch, tmp_path):
    monkeypatch.setenv("FLOPGAP_RECORD", str(tmp_path))
    with pytest.raises(flopgap.FlopgapError, match="recorded by `flopgap record` already"):
        with flopgap.record(tmp_path / "x.sqlite"):
            pass
