"""Recording of this process: kernels, copies, CUDA calls and NVTX ranges, as an export that nsys reads, too.

>>> import flopgap
>>> with flopgap.record("step.sqlite") as recording:  # doctest: +SKIP
...     train_step(batch)
>>> print(flopgap.gap("step.sqlite"))  # doctest: +SKIP

``flopgap record -- python3 train.py`` records a program from its beginning, without a change of it.
"""

from __future__ import annotations

import atexit
import ctypes
import dataclasses
import os
import shutil
import sys
import tempfile
import threading
import time
import types

from . import _flopgap
from .errors import AbsentError, FlopgapError

__all__ = ["Recording", "record"]


@dataclasses.dataclass
class Recording:
    """What was recorded. All is 0 until the block has ended."""

    #: The export.
    path: str
    #: Processes: this one, and those that it started in the block.
    processes: int = 0
    #: Kernels, each launch on its own.
    kernels: int = 0
    #: Copies and sets of memory.
    copies: int = 0
    #: Calls of the runtime and the driver.
    calls: int = 0
    #: Ranges and marks of NVTX.
    ranges: int = 0
    #: What is missing, a sentence for each process and cause.
    losses: tuple[str, ...] = ()


class _Process:
    """The recorder of this process: CUPTI takes one, and it stays."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.directory: str | None = None
        self.library: str | None = None

    def start(self) -> str:
        """The directory of the recordings, with the library loaded."""
        if self.directory is not None:
            return self.directory
        if os.environ.get("FLOPGAP_RECORD"):
            raise FlopgapError("this process is recorded by `flopgap record` already", "leave one of both out")
        cupti: str | None = os.environ.get("FLOPGAP_RECORD_CUPTI")
        if cupti is None:
            # Without a driver, CUPTI 13 recurses until the stack overflows.
            try:
                ctypes.CDLL("libcuda.so.1")
            except OSError as error:
                raise AbsentError(f"recording needs the NVIDIA driver: {error}", "record where there is a GPU") from error
            try:
                cupti = str(_flopgap.cupti_path())
            except AbsentError:
                pass
        directory = tempfile.mkdtemp(prefix="flopgap-record-")
        atexit.register(shutil.rmtree, directory, ignore_errors=True)
        library, variables = _flopgap.record_session(directory, cupti)
        os.environ.update(variables)
        ctypes.CDLL(str(library)).InitializeInjection()
        self.library, self.directory = str(library), directory
        return directory


_process = _Process()


def is_idle_recorder(library: str) -> bool:
    """Whether this library is the recorder of this process's blocks, and none of them is open."""
    return library == _process.library and not _process.lock.locked()


def finish_work() -> None:
    """Waits for the GPU, where PyTorch uses it: work that runs has no end yet."""
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available() and torch.cuda.is_initialized():
        torch.cuda.synchronize()


class record:
    """Records a block, and writes an export when it ends.

    What began in the block is in the export. Blocks may follow one another; they cannot be within another or side by
    side. NVTX ranges are recorded if the process used none before the first block. A ``torch.profiler`` that has run
    before keeps CUPTI: the recorder says so on standard error, and there are no kernels.

    Raises:
        AbsentError: the NVIDIA driver is not installed.
        FlopgapError: another block records, or the process is recorded by ``flopgap record``.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._recording = Recording(os.fspath(path))
        self._directory = ""
        self._begin = 0

    def __enter__(self) -> Recording:
        if not _process.lock.acquire(blocking=False):
            raise FlopgapError("another block records", "end it before the next one begins")
        try:
            self._directory = _process.start()
            finish_work()
            _flopgap.record_switch(self._directory, True)
            self._begin = time.time_ns()
        except BaseException:
            _process.lock.release()
            raise
        return self._recording

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: types.TracebackType | None,
    ) -> None:
        try:
            finish_work()
            end = time.time_ns()
            _flopgap.record_switch(self._directory, False)
            found = _flopgap.record_export(self._directory, self._recording.path, self._begin, end)
            kept = self._recording
            kept.processes, kept.kernels, kept.copies, kept.calls, kept.ranges = found[:5]
            kept.losses = tuple(found[5])
        finally:
            _process.lock.release()
