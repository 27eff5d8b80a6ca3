"""Executed FLOPs of what runs on the GPU, and the reports of Nsight Compute, Nsight Systems and ``torch.profiler`` as tables."""

from ._flopgap import __version__
from .errors import AbsentError, CountError, FlopgapError, InputError, InputNotFoundError

__all__ = [
    "AbsentError",
    "CountError",
    "FlopgapError",
    "InputError",
    "InputNotFoundError",
    "__version__",
]
