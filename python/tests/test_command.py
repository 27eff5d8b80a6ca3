"""``python -m flopgap``."""

import subprocess
import sys

import pytest


def run(*arguments):
    return subprocess.run([sys.executable, "-m", "flopgap", *arguments], capture_output=True, text=True)


def test_a_trace_is_answered():
    done = run("fixtures/nsys/small_forward.sqlite.zst")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("# small_forward\n")
    assert "Matrix products take" in done.stdout


@pytest.mark.parametrize(
    "path, words",
    [
        ("fixtures/ncu/n4_d512_m64_forward.csv", ["ncu, with launches, counters", "split-k-reduce", "vectorized_elementwise_kernel [sigmoid]", "524,288"]),
        ("fixtures/kineto/mlp_n10_d1024_m128.json.gz", ["kineto, with operators", "aten::mm"]),
        ("fixtures/runs/h200-pytorch", ["run, with metrics, overheads", "epsilon", "17,244,160"]),
    ],
)
def test_other_files_show_their_first_table(path, words):
    done = run(path, "--rows", "400")
    assert done.returncode == 0, done.stderr
    for word in words:
        assert word in done.stdout


def test_a_table_by_name():
    done = run("fixtures/nsys/small_forward.sqlite.zst", "--table", "gpus")
    assert done.returncode == 0, done.stderr
    assert "NVIDIA H200" in done.stdout


def test_exit_codes():
    assert run().returncode == 2
    assert run("fixtures/nsys/small_forward.sqlite.zst", "--rows", "0").returncode == 2
    absent = run("fixtures/nsys/small_forward.sqlite.zst", "--table", "nothing")
    assert absent.returncode == 3
    assert "has no table `nothing`" in absent.stderr and "hint: it has kernels" in absent.stderr
    failed = run("README.md")
    assert failed.returncode == 1
    assert failed.stderr.startswith("flopgap: error: README.md: ")
    assert run("--version").stdout.startswith("flopgap ")
