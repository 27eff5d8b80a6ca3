"""Stubs name what the module has, and examples print what they say."""

import ast
import doctest
import importlib
import inspect
import pathlib
import pkgutil
import re
import subprocess
import sys

import flopgap
import pytest
from conftest import REPOSITORY, missing
from flopgap import _flopgap

PACKAGE = pathlib.Path(flopgap.__file__).parent
MODULES = ["flopgap"] + [f"flopgap.{module.name}" for module in pkgutil.iter_modules([str(PACKAGE)]) if module.name != "_flopgap"]


def public(names):
    return {name for name in names if not name.startswith("_") or name in ("__version__",)}


def test_stubs_name_what_the_module_has():
    tree = ast.parse((PACKAGE / "_flopgap.pyi").read_text())
    stubs = {node.name: node for node in tree.body if isinstance(node, (ast.ClassDef, ast.FunctionDef))}
    names = set(stubs) | {node.target.id for node in tree.body if isinstance(node, ast.AnnAssign)}
    assert public(names) == public(dir(_flopgap))
    for name, stub in stubs.items():
        own = getattr(_flopgap, name)
        if isinstance(stub, ast.ClassDef):
            described = {node.name for node in stub.body if isinstance(node, ast.FunctionDef)}
            assert public(described) == public(vars(own)), name
            # Python asks these of the type itself, and a sequence needs no __iter__.
            for method in described - {"__getattr__", "__iter__"}:
                assert hasattr(own, method), f"{name}.{method}"
        else:
            arguments = [one.arg for one in stub.args.posonlyargs + stub.args.args + stub.args.kwonlyargs]
            assert arguments == list(inspect.signature(own).parameters), name


def test_what_is_exported_is_there_and_documented():
    assert sorted(flopgap.__all__) == flopgap.__all__
    for name in flopgap.__all__:
        value = getattr(flopgap, name)
        assert name == "__version__" or value.__doc__, name
    for name in MODULES:
        module = importlib.import_module(name)
        assert module.__doc__, name
        for own in getattr(module, "__all__", []):
            assert hasattr(module, own), f"{name}.{own}"


@pytest.mark.parametrize("name", MODULES)
def test_examples_print_what_they_say(name):
    module = importlib.import_module(name)
    if name == "flopgap":
        missing("polars")
    results = doctest.testmod(module, optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    assert results.failed == 0


def test_examples_of_the_readme():
    missing("polars")
    missing("duckdb")
    missing("pandas")
    missing("pyarrow")
    blocks = re.findall(r"^```pycon\n(.*?)^```$", (REPOSITORY / "python/README.md").read_text(), re.DOTALL | re.MULTILINE)
    test = doctest.DocTestParser().get_doctest("\n".join(blocks), {}, "README.md", None, None)
    assert len(test.examples) > 10
    assert doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(test).failed == 0


def test_types_are_sound():
    missing("mypy")
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "--cache-dir", "/dev/null", "-p", "flopgap"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
