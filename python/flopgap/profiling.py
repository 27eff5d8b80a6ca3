"""PyTorch's profiler: while it traces kernels, CUPTI counts no instructions and too many bytes."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from .patches import replace

__all__ = ["is_profiling", "kernels_traced"]


def is_profiling() -> bool:
    """Whether it is active, as against ranges for NVTX or ITT, which trace nothing."""
    torch = sys.modules.get("torch")
    if torch is None or not torch.autograd._profiler_enabled():
        return False
    kind = getattr(torch._C._autograd, "_profiler_type", None)
    return kind is None or kind().name not in ("NONE", "NVTX", "ITT")


@contextmanager
def kernels_traced() -> Iterator[Callable[[], bool]]:
    """Says whether somebody began to trace kernels since."""
    torch = sys.modules.get("torch")
    traced = False

    def make(original: Any) -> Any:
        def begin(config: Any, activities: Any, *args: Any) -> Any:
            nonlocal traced
            traced |= any(activity.name == "CUDA" for activity in activities)
            return original(config, activities, *args)

        return begin

    with ExitStack() as patches:
        if torch is not None:
            for name in ("_prepare_profiler", "_enable_profiler"):
                replace(patches, torch.autograd.profiler, name, make)
        yield lambda: traced
