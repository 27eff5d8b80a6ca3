"""Functions of other packages that do more while something is counted."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

__all__ = ["replace"]


def replace(stack: ExitStack, owner: Any, name: str, make: Callable[[Any], Any]) -> None:
    """Replaces what an object or module has under a name by what is made of it, until the stack is closed."""
    original = getattr(owner, name)
    setattr(owner, name, make(original))
    stack.callback(setattr, owner, name, original)
