"""Operators give the same bits, strides and random numbers while they are observed: PyTorch's own samples of all operators."""

import warnings

import pytest

torch = pytest.importorskip("torch")
samples = pytest.importorskip("torch.testing._internal.common_methods_invocations")

from flopgap.observe import observed  # noqa: E402

#: Of each operator, so that all of them take less than a minute.
SAMPLES = 4

#: Memory that nobody has written.
UNWRITTEN = ("empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided", "resize_", "resize_as_")


def flat(value):
    """The tensors and numbers in a result."""
    if isinstance(value, (list, tuple)):
        return [item for one in value for item in flat(one)]
    if isinstance(value, dict):
        return flat(list(value.values()))
    return [value]


def same(a, b):
    if not isinstance(a, torch.Tensor):
        return type(a) is type(b) and (a == b or a != a)
    if (type(a), a.dtype, a.shape, a.layout) != (type(b), b.dtype, b.shape, b.layout):
        return False
    if a.layout is not torch.strided:
        a, b = a.to_dense(), b.to_dense()
    elif a.stride() != b.stride():
        return False
    return torch.equal(bits(a), bits(b))


def bits(tensor):
    """What NaNs have in them, too."""
    tensor = tensor.detach().resolve_conj().resolve_neg()
    tensor = torch.view_as_real(tensor) if tensor.is_complex() else tensor
    return torch.empty(tensor.numel(), dtype=tensor.dtype).copy_(tensor.reshape(-1)).view(torch.uint8)


def run(op, sample):
    """Outputs, gradients, and the random numbers that come next; or the error."""
    torch.manual_seed(1)
    leaves = []

    def fresh(value):
        if isinstance(value, torch.Tensor):
            copy = value.detach().clone(memory_format=torch.preserve_format)
            if value.requires_grad:
                leaves.append(copy.requires_grad_())
            return copy
        if isinstance(value, (list, tuple)):
            items = [fresh(one) for one in value]
            return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
        return value

    try:
        out = op(fresh(sample.input), *fresh(sample.args), **{name: fresh(value) for name, value in sample.kwargs.items()})
        results = flat(out)
        sums = [one.sum() for one in results if isinstance(one, torch.Tensor) and one.requires_grad]
        if sums:
            sum(one.abs() for one in sums).backward()
        results += [leaf.grad for leaf in leaves]
    except Exception as error:  # noqa: BLE001  The same error is as good.
        results = [type(error).__name__]
    return [*results, torch.rand(3)]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_operators_give_the_same_bits_while_they_are_observed(dtype):
    seen, different, tried = set(), [], 0

    def begin(func, _args, _kwargs):
        seen.add(str(func))
        return lambda *_out: None

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for op in samples.op_db:
            if dtype not in op.supported_dtypes("cpu") or op.name in UNWRITTEN:
                continue
            torch.manual_seed(0)
            inputs = list(zip(range(SAMPLES), op.sample_inputs("cpu", dtype, requires_grad=op.supports_autograd)))
            for index, sample in inputs:
                before, again = run(op, sample), run(op, sample)
                if not same_all(before, again):
                    # It is not the same twice without anybody looking.
                    continue
                tried += 1
                with observed(begin):
                    watched = run(op, sample)
                if not same_all(before, watched):
                    different.append((op.full_name, index, before[0], watched[0]))
    assert not different, f"{len(different)} of {tried} are different: {different[:5]}"
    assert tried > 1000 and len(seen) > 400, (tried, len(seen))


def same_all(a, b):
    return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b))
