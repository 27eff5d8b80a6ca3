"""What can go wrong, as exceptions. Each says what is wrong, and its :attr:`~FlopgapError.hint` what to do about it."""

from __future__ import annotations

__all__ = ["AbsentError", "CountError", "FlopgapError", "InputError", "InputNotFoundError"]


class FlopgapError(Exception):
    """The base of all exceptions of this package.

    The hint is shown below the message: as a note from Python 3.11 on, in the message before.

    >>> print(FlopgapError("no GPU was found", "run this on a machine with one").hint)
    run this on a machine with one
    """

    #: What is wrong.
    message: str
    #: What to do about it, where that is known.
    hint: str | None

    def __init__(self, message: str, hint: str | None = None) -> None:
        self.message = message
        self.hint = hint
        add_note = getattr(self, "add_note", None)
        if hint is not None and add_note is not None:
            super().__init__(message)
            add_note(f"hint: {hint}")
        elif hint is not None:
            super().__init__(f"{message}\nhint: {hint}")
        else:
            super().__init__(message)


class InputError(FlopgapError):
    """A file cannot be read, or is not what was asked for."""


class InputNotFoundError(InputError, FileNotFoundError):
    """There is no such file or folder."""


class AbsentError(FlopgapError, LookupError):
    """What was asked for is not in the input, or not on this machine."""


class CountError(FlopgapError):
    """The FLOPs of a function could not be counted."""
