"""The programs that `pip install flopgap` installs: those of the repository, in this process instead of a binary."""

from __future__ import annotations

import signal
import sys

from ._flopgap import command


def _run(program: str) -> int:
    # Python would only note an interrupt, and look at it when the program has ended.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    return command(program, sys.argv[1:])


def ncu_analyze() -> int:
    """FLOPs, overheads and differences from Nsight Compute reports; the exit code."""
    return _run("ncu-analyze")


def nsys_analyze() -> int:
    """Reports, rules and answers from Nsight Systems exports; the exit code."""
    return _run("nsys-analyze")
