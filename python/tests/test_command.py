"""``flopgap FILE`` and ``python -m flopgap FILE``: one command."""

import subprocess
import sys

import pytest


def run(*arguments, **options):
    return subprocess.run([sys.executable, "-m", "flopgap", *arguments], capture_output=True, text=True, **options)


@pytest.mark.parametrize(
    "path, command, words",
    [
        ("fixtures/nsys/small_forward.sqlite.zst", "flopgap nsys gap", ["small_forward on NVIDIA H200\n", "matrix products on CUDA cores"]),
        ("fixtures/kineto/plain.json.gz", "flopgap nsys gap", ["plain on NVIDIA H200\n"]),
        ("fixtures/ncu/n4_d512_m64_forward.csv", "flopgap ncu kernels", ["split-k-reduce"]),
        ("fixtures/runs/h200-small", "flopgap profile analyze --no-files", ["epsilon"]),
        ("fixtures/models/mlp.onnx", "flopgap calibrate flops", ["34,267,136", "NVIDIA H200"]),
    ],
)
def test_a_file_is_answered(path, command, words):
    done = run(path)
    assert done.returncode == 0, done.stderr
    assert f"flopgap: the same as `{command} {path}`" in done.stderr
    for word in words:
        assert word in done.stdout


def test_programs_are_commands():
    usage = run("nsys", "--help")
    assert usage.returncode == 0 and "Usage: flopgap nsys" in usage.stdout
    kernels = run("nsys", "kernels", "fixtures/nsys/small_forward.sqlite.zst", "--format", "csv")
    assert kernels.returncode == 0 and "sm80_xmma_gemm" in kernels.stdout


def test_exit_codes():
    assert run().returncode == 2
    absent = run("README.md")
    assert absent.returncode == 3
    assert absent.stderr.startswith("flopgap: error: README.md: not recognized: ")
    assert run("missing.sqlite").returncode == 1
    assert run("--version").stdout.startswith("flopgap ")


def test_workers_are_started_by_python():
    # What such a process is: without a GPU, it reports that as one.
    worker = run("profile", "count-on", "--device", "0", stdin=subprocess.DEVNULL, env={"CUDA_VISIBLE_DEVICES": ""})
    assert worker.stdout.startswith('{"error":'), worker
