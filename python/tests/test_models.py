"""Models drawn at random train to the same bits while they are counted, whichever way results are by: `FLOPGAP_DRAWS=40` draws 40."""

import os
import warnings

import pytest

import flopgap
from flopgap import counter as counter_module

torch = pytest.importorskip("torch")
pytest.importorskip("timm")
pytest.importorskip("transformers")

from drawn import drawn, same, trained  # noqa: E402


@pytest.mark.parametrize("seed", range(int(os.environ.get("FLOPGAP_DRAWS", "4"))))
def test_drawn_models_train_to_the_same_bits_while_they_are_counted(gpu, monkeypatch, seed):
    monkeypatch.setattr(counter_module, "_DEVICES", frozenset({"cpu"}))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        name, model, call = drawn(seed)
        _, expected = trained(model, call)
        _, again = trained(model, call)
        if not same(expected, again):
            pytest.skip(f"{name} is not the same twice without anybody looking")
        products = set()
        for by in ("total", "module", "kernel", "launch"):
            counts, state = trained(model, call, flopgap.Counter(by=by).count)
            assert same(expected, state), f"{name}, by {by}"
            products.add(counts.theory.products)
    assert len(products) == 1, f"{name}: {products}"
    print(f"{name}: {counts.theory.products:,} FLOP in products; without a formula {counts.theory.no_formula}")
