"""``--format json``: documents that hold to ``docs/document.schema.json``."""

import json
import pathlib
import subprocess
import sys

import pytest

STEP = "fixtures/nsys/small_training_step.sqlite.zst"
REPORT = "fixtures/ncu/n10_d1024_m128_forward.csv.zst"


def document(*arguments):
    done = subprocess.run([sys.executable, "-m", "flopgap", *arguments, "--format", "json"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def validator():
    jsonschema = pytest.importorskip("jsonschema")
    schema = json.loads(pathlib.Path("docs/document.schema.json").read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


@pytest.mark.parametrize(
    "command",
    [
        ["gap", STEP],
        ["nsys", "kernels", STEP],
        ["nsys", "passes", STEP],
        ["nsys", "summary", STEP],
        ["nsys", "diff", STEP, STEP],
        ["gate", STEP, STEP],
        ["ncu", "kernels", REPORT],
        ["ncu", "diff", REPORT, REPORT],
        ["doctor"],
        ["calibrate", "machines"],
        ["calibrate", "flops", "fixtures/models/mlp.onnx"],
        ["calibrate", "estimate", "fixtures/models/mlp.onnx", "--machine", "h200"],
    ],
    ids=lambda command: " ".join(command[:2]),
)
def test_documents_are_valid(validator, command):
    found = document(*command)
    validator.validate(found)
    words = [word for word in command if not word.startswith(("-", "fixtures")) and word not in ("h200",)]
    assert found["format"] == "flopgap-" + "-".join(words if words != ["gap"] else ["nsys", "gap"])
    if "rows" in found and len(found["rows"]) > 1 and command[0] != "nsys":
        assert len({tuple(row) for row in found["rows"]}) == 1, "rows have the same keys"


def test_a_bare_list_is_no_document(validator):
    assert not validator.is_valid([1])
    assert not validator.is_valid({"format": "flopgap-gap"})
    assert not validator.is_valid({"format": "other", "version": 1})
