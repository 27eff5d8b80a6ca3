"""Where in a program work comes from: regions, named ranges, modules, forward and backward, operators.

A :class:`Labels` knows the place that is current on whatever thread, and reports every change to the counters.
"""

from __future__ import annotations

import bisect
import functools
import importlib
import inspect
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

from .patches import replace

__all__ = ["Label", "Labels", "follow_backward", "follow_modules", "follow_ranges"]



@dataclass(frozen=True)
class Label:
    """A place."""

    #: Names joined with ``/``; empty at the top.
    path: str = ""
    #: ``forward``, ``backward``, ``recompute``, or empty outside modules.
    phase: str = ""
    #: The call of an operator.
    call: int | None = None


class Labels:
    """The place that is current."""

    def __init__(self, switch: Callable[[str], None], with_calls: bool, with_modules: bool) -> None:
        self._switch = switch
        self.with_calls = with_calls
        self.with_modules = with_modules
        self._numbers: dict[Label, int] = {}
        #: All labels, in the order of the numbers under which the counters know them.
        self.all: list[Label] = []
        self._now: Label | None = None
        self._started = False
        self._names: list[str] = []
        #: The paths of the modules that run forward.
        self.modules: list[str] = []
        #: Why it is not known which module an autograd node is of, where it is not.
        self.ambiguous = ""
        #: How many backward passes run whose own derivatives are wanted.
        self.differentiated = 0
        self._thread: int | None = None
        self._phase = ""
        self._backward: str | None = None
        #: The calls that run, with their thread.
        self._calls: list[tuple[int, int]] = []
        #: Whether operators ran on several threads at once: what is launched then may be that of another.
        self.concurrent = False
        # Each thread numbers the autograd nodes that it makes: from which number on they are whose. Parallel lists, for `bisect`.
        self._nodes: dict[int, tuple[list[int], list[str]]] = {}
        # The threads that made the nodes that backward passes within backward passes run.
        self._makers: list[int] = []

    # What the counters see.

    def start(self) -> None:
        """Reports to the counters the first place."""
        self._started = True
        self._update()

    def __getitem__(self, number: str) -> Label:
        return self.all[int(number)]

    def _update(self) -> None:
        label = self.current()
        if label == self._now or not self._started:
            return
        self._now = label
        number = self._numbers.get(label)
        if number is None:
            number = self._numbers[label] = len(self.all)
            self.all.append(label)
        self._switch(str(number))

    def current(self) -> Label:
        """The place now."""
        if not self.with_modules:
            module = phase = ""
        elif self._backward is not None and self._phase != "recompute":
            module, phase = self._backward, "backward"
        else:
            module = self.modules[-1] if self.modules else ""
            phase = self._phase if self.modules else ""
        path = "/".join([*self._names, module] if module else self._names)
        return Label(path, phase, self._calls[-1][1] if self._calls and self.with_calls else None)

    # What the program does.

    @contextmanager
    def name(self, name: str) -> Iterator[None]:
        """A region or range."""
        self.push(name)
        try:
            yield
        finally:
            self.pop()

    def push(self, name: str) -> None:
        """A region or range begins."""
        self._names.append(name.replace("/", "∕"))
        self._update()

    def pop(self) -> None:
        """The region or range ends that began last. One that began before the counting is nobody's business."""
        if self._names:
            self._names.pop()
            self._update()

    def enter_module(self, path: str, number: int, phase: str) -> None:
        """A module runs forward."""
        self.modules.append(path)
        self._phase = phase
        self._own(number)
        self._update()

    def leave_module(self, number: int) -> None:
        """The module that began last has run."""
        if self.modules:
            self.modules.pop()
            self._own(number)
            if not self.modules:
                self._phase = ""
            self._update()

    def _own(self, number: int) -> None:
        """Nodes that this thread makes from this number on are those of the module that runs."""
        thread = threading.get_ident()
        if self._phase != "recompute":
            self._thread = self._thread or thread
            if self._thread != thread:
                self.ambiguous = "modules ran forward on several threads"
                return
        path = self.modules[-1] if self.modules else ""
        starts, owners = self._nodes.setdefault(thread, ([], []))
        if starts and number == starts[-1]:
            owners[-1] = path
        else:
            starts.append(number)
            owners.append(path)

    @contextmanager
    def backward_within_backward(self) -> Iterator[None]:
        """A node runs a backward pass of its own, of what this thread has just computed again (checkpoints that are reentrant). Otherwise what
        is computed again has nodes that are never run: backward goes through those of the first time."""
        self._makers.append(threading.get_ident())
        try:
            yield
        finally:
            self._makers.pop()

    def at_node(self, number: int | None) -> None:
        """Work is for the autograd node of this number, or for none."""
        if number is None or self.ambiguous:
            self._backward = None if number is None else ""
            return
        starts, owners = self._nodes.get(self._makers[-1] if self._makers else self._thread or 0, ([], []))
        index = bisect.bisect_right(starts, number) - 1
        # Gradients are added up by nodes without a number of their own: they belong to what was before them.
        if index >= 0 and number < 1 << 62:
            self._backward = owners[index]
        elif self._backward is None:
            self._backward = ""

    def before_call(self, call: int) -> tuple[str, str]:
        """A call of an operator begins."""
        thread = threading.get_ident()
        self.concurrent |= any(other != thread for other, _ in self._calls)
        self._calls.append((thread, call))
        self._update()
        label = self.current()
        return label.path, label.phase

    def after_call(self, call: int) -> None:
        """It has ended."""
        self._calls.remove((threading.get_ident(), call))
        self._update()

    def finish(self) -> None:
        """Nothing is reported any more."""
        self._started = False


def _torch() -> Any:
    return importlib.import_module("torch")


def sequence_number() -> int:
    """The number that the next autograd node of this thread gets."""
    return int(_torch().autograd._get_sequence_nr())


@contextmanager
def follow_modules(labels: Labels, depth: int | None, only: tuple[Any, ...]) -> Iterator[None]:
    """Reports to ``labels`` which ``torch.nn.Module`` runs, no deeper than ``depth``.

    Hooks for all modules are set while it lasts; none of them touches a tensor, so modules that work in place are no exception. Modules
    in backward are known from the numbers of autograd's nodes (see :func:`at_current_node`).
    """
    torch = _torch()
    hooks_of_all = importlib.import_module("torch.nn.modules.module")
    names: dict[int, str] = {}
    # They are kept, so that another cannot have the number of one that is gone.
    roots: dict[int, Any] = {}
    titles: Counter[str] = Counter()

    def know(root: Any) -> None:
        if id(root) in roots:
            return
        roots[id(root)] = root
        title = type(root).__name__
        titles[title] += 1
        if titles[title] > 1:
            title += f"#{titles[title]}"
        for name, module in root.named_modules():
            parts = name.split(".") if name else []
            if depth is None or len(parts) <= depth:
                names.setdefault(id(module), "/".join([title, *parts]))

    for root in only:
        know(root)
    entered: list[int] = []

    def before(module: Any, _args: Any) -> None:
        if not entered and not only:
            know(module)
        path = names.get(id(module))
        if path is not None:
            entered.append(id(module))
            phase = "recompute" if torch._C._current_graph_task_id() != -1 else "forward"
            labels.enter_module(path, sequence_number(), phase)

    def after(module: Any, _args: Any, _out: Any) -> None:
        if entered and entered[-1] == id(module):
            entered.pop()
            labels.leave_module(sequence_number())

    with ExitStack() as hooks:
        hooks.callback(hooks_of_all.register_module_forward_pre_hook(before).remove)
        hooks.callback(hooks_of_all.register_module_forward_hook(after, always_call=True).remove)
        yield


@contextmanager
def follow_backward(labels: Labels) -> Iterator[None]:
    """Reports to ``labels`` backward passes within backward passes, and those whose own derivatives are wanted."""
    torch = _torch()

    def make(original: Any) -> Any:
        @functools.wraps(original)
        def run(*args: Any, **kwargs: Any) -> Any:
            if torch._C._current_graph_task_id() != -1:
                with labels.backward_within_backward():
                    return original(*args, **kwargs)
            if not signature.bind(*args, **kwargs).arguments.get("create_graph"):
                return original(*args, **kwargs)
            labels.differentiated += 1
            try:
                return original(*args, **kwargs)
            finally:
                labels.differentiated -= 1
                # Its nodes are numbered by autograd's thread, and run beside those that the program's thread has numbered.
                labels.ambiguous = "derivatives of a backward pass were computed"

        signature = inspect.signature(original)
        return run

    with ExitStack() as patches:
        for name in ("backward", "grad"):
            replace(patches, torch.autograd, name, make)
        yield


def at_current_node(labels: Labels) -> None:
    """Reports to ``labels`` for which autograd node this thread works."""
    node = _torch()._C._current_autograd_node()
    labels.at_node(None if node is None else int(node._sequence_nr()))


def phase_of_thread(labels: Labels) -> str:
    """``backward``, ``recompute`` or empty, as far as autograd shows. What a checkpoint computes again is recorded for gradients, unlike the
    rest of backward, but where its own derivatives are wanted."""
    torch = _torch()
    if torch._C._current_graph_task_id() == -1:
        return ""
    return "recompute" if torch.is_grad_enabled() and not labels.differentiated else "backward"


@contextmanager
def follow_ranges(labels: Labels) -> Iterator[None]:
    """Reports to ``labels`` the NVTX ranges and those of ``torch.profiler.record_function``: those that Python code begins on any thread."""
    with ExitStack() as patches:

        def pushing(original: Any) -> Any:
            def push(msg: str, *args: Any, **kwargs: Any) -> Any:
                labels.push(str(msg))
                return original(msg, *args, **kwargs)

            return push

        def popping(original: Any) -> Any:
            def pop(*args: Any, **kwargs: Any) -> Any:
                labels.pop()
                return original(*args, **kwargs)

            return pop

        def entering(original: Any) -> Any:
            def enter(self: Any) -> Any:
                labels.push(str(getattr(self, "name", None) or getattr(getattr(self, "attributes", None), "message", "")))
                return original(self)

            return enter

        def leaving(original: Any) -> Any:
            def leave(self: Any, *args: Any) -> Any:
                labels.pop()
                return original(self, *args)

            return leave

        if torch := sys.modules.get("torch"):
            replace(patches, torch.cuda.nvtx, "range_push", pushing)
            replace(patches, torch.cuda.nvtx, "range_pop", popping)
            replace(patches, torch.autograd.profiler.record_function, "__enter__", entering)
            replace(patches, torch.autograd.profiler.record_function, "__exit__", leaving)
        if nvtx := sys.modules.get("nvtx"):
            for name, make in (("push_range", pushing), ("pop_range", popping)):
                if hasattr(nvtx, name):
                    replace(patches, nvtx, name, make)
            annotate = getattr(nvtx, "annotate", None)
            if isinstance(annotate, type):
                replace(patches, annotate, "__enter__", entering)
                replace(patches, annotate, "__exit__", leaving)
        yield
