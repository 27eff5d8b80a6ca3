"""Which operators of PyTorch run, observed in its dispatcher.

A ``TorchDispatchMode`` would be the usual way, and changes what it observes: while one is active PyTorch breaks composite operators up
(``silu_backward`` becomes six others), adds gradients up out of place and indexes out of place. So the observer is a kernel of every operator
for a dispatch key of its own, below those of autograd and above those of the devices. Where the key is not set, nothing is observed; where it
is, an operator goes on with its own arguments to the kernel that it would have run.
"""

from __future__ import annotations

import importlib
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from .patches import replace

__all__ = ["Observation", "observed"]

#: A dispatch key between those of autograd and those of devices, which PyTorch itself does not use.
_KEY = "Fake"

#: Operators that compute nothing and have arguments that are no business of Python: communication, interpreters, profilers.
_UNOBSERVED = ("prim", "profiler", "c10d", "_c10d", "symm_mem", "export", "_test")

#: An operator begins on this thread, with its arguments. Gives what is called when it has ended: with its result, or, after an error, without.
Begin = Callable[[Any, tuple[Any, ...], dict[str, Any]], Callable[..., None]]


class Observation:
    """What is observed now, by whom."""

    def __init__(self, begin: Begin) -> None:
        self.begin: Begin | None = begin
        #: Whether compiled code began to run. It is not observed, and what runs after it is not either.
        self.compiled = False
        #: Types of tensors that are written in Python: what they are made of is not seen.
        self.opaque_tensors: set[str] = set()

    def stop(self) -> None:
        """Compiled code begins: PyTorch would compile it again for a dispatch key that is new to it."""
        self.begin, self.compiled = None, True
        _include(False)


class _Dispatcher:
    """The fallback."""

    def __init__(self) -> None:
        self.torch: Any = importlib.import_module("torch")
        torch, self.core = self.torch, self.torch._C
        key = self.core._dispatch_key_parse(_KEY)
        self.key = self.core.DispatchKeySet(key)
        self.below = self.core._dispatch_keyset_full_after(key)
        self.now: Observation | None = None
        #: By thread: whether an operator runs whose parts are its own business.
        self.inside = threading.local()
        self.composite: dict[tuple[Any, str], bool] = {}
        self.tensors: dict[Any, tuple[bool, ...]] = {}
        self.refuses_numbers: set[Any] = set()
        self.formulas: Any = importlib.import_module("torch.utils.flop_counter").flop_registry
        # What has no kernel here passes. All of them stay: nothing comes here where the key is not set.
        self.passing = torch.library.Library("_", "IMPL")
        self.passing.fallback(torch.library.fallthrough_kernel, _KEY)
        self.libraries: dict[str, Any] = {}
        self.known: set[str] = set()

    def register(self) -> None:
        """Observes all operators that there are by now. A fallback would do for all, but PyTorch cannot call one that is written in Python
        where a mode is active that is."""
        names = set(self.core._dispatch_get_all_op_names()) - self.known
        if not names:
            return
        self.known |= names
        for schema in self.core._jit_get_all_schemas():
            name = f"{schema.name}.{schema.overload_name}" if schema.overload_name else schema.name
            space, _, own = name.partition("::")
            # A view computes nothing, and subclasses of tensors are made of views that Python has not seen.
            is_view = any(one.alias_info is not None and not one.alias_info.is_write for one in schema.returns)
            if name in names and not is_view and not space.startswith(_UNOBSERVED):
                if space not in self.libraries:
                    self.libraries[space] = self.core._dispatch_library("IMPL", space, "", __file__, 0)
                self.libraries[space].impl(own, _KEY, self.kernel_of(space, own), True)

    def kernel_of(self, space: str, name: str) -> Callable[..., Any]:
        packet, _, overload = name.partition(".")
        func: Any = None

        def kernel(keyset: Any, *args: Any, **kwargs: Any) -> Any:
            nonlocal func
            if func is None:
                func = getattr(getattr(getattr(self.torch.ops, space), packet), overload or "default")
            return self.run(keyset, func, args, kwargs)

        return kernel

    def run(self, keyset: Any, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if getattr(self.inside, "operator", False) or self.is_made_of_others(keyset, func) and not self.has_number(func, args):
            return self.go_on(keyset, func, args, kwargs)
        if keyset.has(self.core.DispatchKey.Python) and (types := self.types_in_python((args, kwargs))):
            if self.now is not None:
                self.now.opaque_tensors |= types
            return self.go_on(keyset, func, args, kwargs)
        return self.reported(func, args, kwargs, lambda: self.go_on(keyset, func, args, kwargs))

    def types_in_python(self, value: Any) -> set[str]:
        """The types of tensors that say themselves how operators run on them."""
        if isinstance(value, self.torch.Tensor):
            own = getattr(type(value), "__torch_dispatch__", None)
            return {type(value).__name__} if own not in (None, self.core._disabled_torch_dispatch_impl) else set()
        if isinstance(value, dict):
            value = tuple(value.values())
        return set().union(*map(self.types_in_python, value)) if isinstance(value, (list, tuple)) else set()

    def reported(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], work: Callable[[], Any]) -> Any:
        """Runs an operator, and reports its beginning and its end."""
        begin = self.now.begin if self.now is not None else None
        if begin is None:
            return work()
        end = begin(func, args, kwargs)
        results: tuple[Any, ...] = ()
        self.inside.operator = True
        try:
            results = (work(),)
        finally:
            self.inside.operator = False
            end(*results)
        return results[0]

    def go_on(self, keyset: Any, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Runs what would have run."""
        if not self.has_number(func, args):
            return func.redispatch(keyset & self.below, *args, **kwargs)
        with self.core._ExcludeDispatchKeyGuard(self.key):
            if func not in self.refuses_numbers:
                try:
                    return func(*args, **kwargs)
                except RuntimeError as error:
                    # Before anything ran: PyTorch makes tensors of numbers for the usual operators only.
                    if "Expected a value of type 'Tensor'" not in str(error):
                        raise
                    self.refuses_numbers.add(func)
            return func(*self.with_tensors(func, args), **kwargs)

    def with_tensors(self, func: Any, args: tuple[Any, ...]) -> list[Any]:
        """Numbers as tensors of no dimension on the processor, which decide the type of a result no more than numbers do where the other
        argument has dimensions; where it has none, they have the type of the result."""
        others = [arg for arg in args if isinstance(arg, self.torch.Tensor)]
        made = []
        for is_tensor, arg in zip(self.tensors_of(func), args):
            if is_tensor and isinstance(arg, (bool, int, float, complex)):
                exact = {bool: self.torch.bool, int: self.torch.int64, float: self.torch.float64, complex: self.torch.complex128}[type(arg)]
                if others and all(other.dim() == 0 for other in others):
                    exact = self.torch.result_type(others[0], arg)
                arg = self.torch.tensor(arg, dtype=exact)
            made.append(arg)
        return made + list(args[len(made) :])

    def has_number(self, func: Any, args: tuple[Any, ...]) -> bool:
        """Whether a number stands for a tensor: one that does not decide the type of the result. Only a call makes such a tensor again."""
        return any(is_tensor and isinstance(arg, (bool, int, float, complex)) for is_tensor, arg in zip(self.tensors_of(func), args))

    def tensors_of(self, func: Any) -> tuple[bool, ...]:
        """Which arguments of an operator are tensors."""
        known = self.tensors.get(func)
        if known is None:
            kinds = (str(argument.type) for argument in func._schema.arguments)
            known = self.tensors[func] = tuple(kind in ("Tensor", "Optional[Tensor]") for kind in kinds)
        return known

    def is_made_of_others(self, keyset: Any, func: Any) -> bool:
        """Whether an operator has no kernel of its own. Then the others, which come here as well, are what runs."""
        device = "CUDA" if keyset.has(self.core.DispatchKey.CUDA) else "CPU"
        known = self.composite.get((func, device))
        if known is None:
            has, name = self.core._dispatch_has_kernel_for_dispatch_key, func.name()
            known = has(name, "CompositeImplicitAutograd") and not any(has(name, own) for own in (device, "CompositeExplicitAutograd"))
            known = self.composite[func, device] = known and func._overloadpacket not in self.formulas
        return known


_dispatcher: _Dispatcher | None = None


def _include(on: bool) -> None:
    """Sets the key for this thread, and those that work for it."""
    assert _dispatcher is not None
    _dispatcher.core._dispatch_tls_set_dispatch_key_included(_KEY, on)


def _in_child() -> None:
    if _dispatcher is not None and _dispatcher.now is not None:
        _dispatcher.now = None
        _include(False)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)


@contextmanager
def observed(begin: Begin) -> Iterator[Observation]:
    """Reports every operator that this thread runs, autograd for it, and threads that begin and what is given to pools of threads meanwhile.
    Operators that an operator runs are parts of it."""
    global _dispatcher
    if _dispatcher is None:
        _dispatcher = _Dispatcher()
    _dispatcher.register()
    now = Observation(begin)
    with ExitStack() as stack:
        replace(stack, importlib.import_module("torch._ops").HigherOrderOperator, "__call__", _of_higher_order(_dispatcher))
        replace(stack, importlib.import_module("torch"), "compile", _of_compile(now))
        if (frames := sys.modules.get("torch._dynamo.eval_frame")) is not None:
            replace(stack, frames, "_maybe_set_eval_frame", _of_frames(now))
        # Threads begin without the key.
        for owner in (threading.Thread, importlib.import_module("concurrent.futures.thread")._WorkItem):
            replace(stack, owner, "run", _of_threads(now))
        _dispatcher.now = now
        stack.callback(setattr, _dispatcher, "now", None)
        _include(True)
        stack.callback(_include, False)
        yield now


def _of_higher_order(dispatcher: _Dispatcher) -> Callable[[Any], Any]:
    """Operators of functions (flex attention, ``cond``) choose by dispatch key, too, and know nothing of this one."""

    def make(original: Any) -> Any:
        def call(self: Any, /, *args: Any, **kwargs: Any) -> Any:
            with dispatcher.core._ExcludeDispatchKeyGuard(dispatcher.key):
                if getattr(dispatcher.inside, "operator", False):
                    return original(self, *args, **kwargs)
                return dispatcher.reported(self, args, kwargs, lambda: original(self, *args, **kwargs))

        return call

    return make


def _of_threads(now: Observation) -> Callable[[Any], Any]:
    def make(original: Any) -> Any:
        def run(self: Any) -> Any:
            _include(now.begin is not None)
            try:
                return original(self)
            finally:
                _include(False)

        return run

    return make


def _of_compile(now: Observation) -> Callable[[Any], Any]:
    def make(original: Any) -> Any:
        def compile(*args: Any, **kwargs: Any) -> Any:
            now.stop()
            return original(*args, **kwargs)

        return compile

    return make


def _of_frames(now: Observation) -> Callable[[Any], Any]:
    """Compiled code runs from when its callback is set."""

    def make(original: Any) -> Any:
        def set_callback(callback: Any) -> Any:
            if callable(callback):
                now.stop()
            return original(callback)

        return set_callback

    return make
