"""The programs that the package installs, and what they share with the module."""

import importlib.metadata
import os
import signal
import subprocess
import sys
import sysconfig
import time
from pathlib import Path

import pytest

PROGRAMS = ["flopgap", "hyper-profile", "mlp-bench", "mlp-validate", "model-calibrate", "ncu-analyze", "nsys-analyze"]


def program(name):
    path = Path(sysconfig.get_path("scripts")) / name
    if not path.exists():
        pytest.skip(f"{name}: the package is not installed with its programs")
    return path


def run(name, *arguments, **options):
    return subprocess.run([program(name), *arguments], capture_output=True, text=True, **options)


def test_the_programs_are_those_of_the_distribution():
    scripts = importlib.metadata.distribution("flopgap").entry_points.select(group="console_scripts")
    assert sorted(script.name for script in scripts) == PROGRAMS


@pytest.mark.parametrize("name", PROGRAMS)
def test_versions_and_help(name):
    version = importlib.metadata.version("flopgap")
    assert run(name, "--version").stdout == f"{name} {version}\n"
    help = run(name, "--help")
    assert help.returncode == 0
    assert f"{name} " in help.stdout


def test_a_report_of_ncu():
    done = run("ncu-analyze", "kernels", "fixtures/ncu/n4_d512_m64_forward.csv", "--format", "json")
    assert done.returncode == 0, done.stderr
    assert "splitKreduce_kernel" in done.stdout


def test_a_gate_fails_with_the_exit_code_of_the_program():
    traces = ["fixtures/nsys/small_forward_backward.sqlite.zst", "fixtures/nsys/small_training_step.sqlite.zst"]
    slower = run("nsys-analyze", "diff", *traces, "--fail-if-slower", "3")
    assert slower.returncode == 1
    assert "wall time" in slower.stdout
    assert run("nsys-analyze", "diff", traces[0], traces[0], "--fail-if-slower", "3").returncode == 0


def test_exit_codes():
    wrong = run("nsys-analyze", "stats")
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert "Usage: nsys-analyze" in wrong.stderr
    failed = run("nsys-analyze", "stats", "README.md")
    assert failed.returncode == 1
    assert failed.stderr.startswith("nsys-analyze: error: README.md: ")


def test_an_interrupt_ends_a_program(tmp_path):
    # A pipe that nobody fills: the program waits for it.
    pipe = tmp_path / "report.csv"
    os.mkfifo(pipe)
    running = subprocess.Popen([program("ncu-analyze"), "kernels", pipe], stderr=subprocess.PIPE)
    writer = os.open(pipe, os.O_WRONLY)
    time.sleep(0.5)
    running.send_signal(signal.SIGINT)
    assert running.wait(timeout=20) == -signal.SIGINT
    os.close(writer)


def test_no_program_of_another_name():
    from flopgap._flopgap import command

    with pytest.raises(ValueError, match="no program is called rm"):
        command("rm", [], sys.executable)
