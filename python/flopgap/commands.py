"""The programs that `pip install flopgap` installs: those of the repository, in this process instead of a binary."""

from __future__ import annotations

import signal
import sys

from ._flopgap import command


def _run(program: str) -> int:
    # Python would only note an interrupt, and look at it when the program has ended.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    return command(program, sys.argv[1:], sys.executable)


def flopgap() -> int:
    """The answer about any file, and all programs as commands; the exit code."""
    return _run("flopgap")


def hyper_profile() -> int:
    """MLPs over (n, d, m) grids: counted and theoretical FLOPs; the exit code."""
    return _run("hyper-profile")


def mlp_bench() -> int:
    """One small MLP in several implementations, timed; the exit code."""
    return _run("mlp-bench")


def mlp_validate() -> int:
    """FLOPs of an MLP by theory, framework and counters; the exit code."""
    return _run("mlp-validate")


def model_calibrate() -> int:
    """FLOPs and estimates of models, calibrations of machines; the exit code."""
    return _run("model-calibrate")


def ncu_analyze() -> int:
    """FLOPs, overheads and differences from Nsight Compute reports; the exit code."""
    return _run("ncu-analyze")


def nsys_analyze() -> int:
    """Reports, rules and answers from Nsight Systems exports; the exit code."""
    return _run("nsys-analyze")
