"""The package as it is installed."""

import importlib.metadata
import re

import flopgap


def test_the_version_is_that_of_the_distribution():
    assert re.fullmatch(r"\d+\.\d+\.\d+", flopgap.__version__)
    assert flopgap.__version__ == importlib.metadata.version("flopgap")


def test_it_needs_nothing_else():
    assert importlib.metadata.requires("flopgap") is None


def test_errors_have_a_hint():
    error = flopgap.InputError("a.csv is empty", "record it again")
    assert error.hint == "record it again"
    assert isinstance(error, flopgap.FlopgapError)
    notes = "\n".join(getattr(error, "__notes__", [])) or str(error)
    assert "hint: record it again" in notes
    assert issubclass(flopgap.InputNotFoundError, FileNotFoundError)
