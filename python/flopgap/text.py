"""Counts for people: text, and a table for notebooks."""

from __future__ import annotations

import html
import textwrap
from typing import TYPE_CHECKING

from .names import kernel
from .theory import PRODUCTS

if TYPE_CHECKING:
    from .result import Counts

__all__ = ["html_of", "text_of"]

#: Kernels and operators that are named before "and N more".
_NAMED = 4

#: Columns of the text, and of a value that is written in a column of its own.
_WIDTH, _VALUE = 100, 40


def _si(value: float, unit: str) -> str:
    """A number with a prefix: ``1.23 TFLOP``."""
    for factor, prefix in ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= factor:
            return f"{value / factor:.3g} {prefix}{unit}" if abs(value) < 999.5 * factor else f"{value / factor:.0f} {prefix}{unit}"
    return f"{value:.3g} {unit}"


def _duration(seconds: float) -> str:
    for factor, unit in ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs")):
        if seconds >= factor:
            return f"{seconds / factor:.4g} {unit}"
    return f"{seconds * 1e9:.0f} ns"


def _percent(ratio: float) -> str:
    return f"{ratio:+.3%}" if abs(ratio) < 0.1 else f"{ratio:+.1%}"


def _presets_for(counts: Counts, key: str) -> str:
    """The presets that would count a type."""
    if key not in counts._parts:
        return "products of integers: no preset counts them"
    missing = {part.metric for part in counts._parts[key]} - set(counts.metrics)
    names = [name for name, metrics in counts.all_presets if name not in counts.presets and missing & set(metrics)]
    return "preset " + " and ".join(names) if names else "names of kernels do not say whether they compute with it"


def _facts(counts: Counts) -> list[tuple[str, str, str]]:
    """Lines: what, value, remark."""
    facts: list[tuple[str, str, str]] = []
    # Counting makes regions longer: their time gives no rates.
    seconds = counts.seconds or counts.kernel_seconds
    over = "" if counts.seconds is not None else " while kernels run"
    unknown: dict[str, list[str]] = {}
    for key, count in counts.flops.items():
        if count is None:
            unknown.setdefault(_presets_for(counts, key), []).append(key)
        elif count:
            share = ""
            rate = counts.peaks.flops_per_second.get(key) if counts.peaks is not None else None
            if rate and seconds:
                share = f"{_si(count / seconds, 'FLOP/s')}, {count / seconds / rate:.1%} of the peak{over}"
            facts.append((key, f"{count:,}", share))
    zeros = [key for key, count in counts.flops.items() if count == 0]
    metrics = set(counts.metrics)
    counted = [key for key in zeros if any(part.metric in metrics for part in counts._parts[key])]
    if counted:
        facts.append(("none on", ", ".join(counted), ""))
    if inferred := [key for key in zeros if key not in counted]:
        facts.append(("none on", ", ".join(inferred), "not counted: no kernel has a name of it"))
    facts += [("not counted", ", ".join(keys), presets) for presets, keys in unknown.items()]
    theory = counts.theory
    if theory is not None and not theory.unseen:
        kinds = {kind: count for kind, count in theory.by_kind.items() if count}
        products = ", ".join(f"{kind} {_si(kinds[kind], 'FLOP')}" for kind in PRODUCTS if kind in kinds)
        facts.append(("theory, products", f"{theory.products:,}", products))
        rest = ", ".join(f"{kind} {_si(count, 'FLOP')}" for kind, count in kinds.items() if kind not in PRODUCTS)
        facts.append(("theory, the rest", f"{theory.total - theory.products:,}", rest))
        if missing := theory.no_formula:
            names = [f"{name} ({calls})" for name, calls in missing.items()]
            more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
            facts.append(("without a formula", ", ".join(names[:_NAMED]) + more, ""))
    gap = counts.gap
    for name, value, text in (
        ("epsilon", gap.epsilon, "products executed above theory"),
        ("rho", gap.rho, "split-K FLOPs for each number that a product wrote"),
        ("kappa", gap.kappa, "everything else above theory"),
        ("omega", gap.omega, "the total above theory"),
    ):
        if value is not None:
            facts.append((name, f"{value:.4f}" if name == "rho" else _percent(value), text))
    for name, count, text in (
        ("padding", gap.padding, "products: tiles beyond the matrix, less what a mask leaves out"),
        ("split-K", gap.split_k, "sums of partial products"),
        ("inside products", gap.inside_products, "shader cores: epilogues, softmax of attention"),
        ("element-wise", gap.elementwise, "shader cores: everything else"),
        ("recomputation", gap.recomputation, "products computed again for backward"),
        ("unattributed", gap.unattributed, "tensor operations that no operator with a formula asked for"),
    ):
        if count:
            facts.append((name, f"{count:,}", text))
    if counts.seconds is not None:
        facts.append(("time", _duration(counts.seconds), "of the step, without counting"))
    if counts.kernel_seconds is not None:
        facts.append(("kernels", _duration(counts.kernel_seconds), "while counted, one after the other"))
    elif counts.seconds is None and counts.time_ns:
        facts.append(("counted for", _duration(counts.time_ns * 1e-9), "longer than the step takes without counting"))
    if counts.bytes is not None:
        bandwidth = ""
        if seconds:
            bandwidth = _si(counts.bytes / seconds, "B/s")
            if counts.peaks is not None and counts.peaks.bytes_per_second:
                bandwidth += f", {counts.bytes / seconds / counts.peaks.bytes_per_second:.1%} of the peak{over}"
        facts.append(("memory", f"{_si(counts.bytes_read or 0, 'B')} read, {_si(counts.bytes_written or 0, 'B')} written", bandwidth))
    for name, utilization, text in (("MFU", counts.mfu, "theory against the peak"), ("HFU", counts.hfu, "executed against the peak")):
        if utilization is not None and counts.peaks is not None:
            facts.append((name, f"{utilization:.1%}", f"{text} ({counts.peaks.source})"))
    if theory is not None and not theory.unseen and counts.no_mfu and (theory.products or counts.tensor_flops):
        facts.append(("MFU", "unknown", counts.no_mfu))
    for preset, kernels in counts.uncounted.items():
        launches = sum(kernels.values())
        names = [kernel(symbol).short for symbol in kernels]
        more = f" and {len(names) - 2} more" if len(names) > 2 else ""
        facts.append((f"for {preset}", f"{launches} launch{'es' if launches != 1 else ''}", f"may compute what was not counted: {', '.join(names[:2])}{more}"))
    return facts


def _head(counts: Counts) -> str:
    runs = "1 run" if counts.runs == 1 else f"{counts.runs} runs"
    graphs = f" and {counts.graphs} graphs" if counts.graphs else ""
    if not counts.presets:
        return f"{counts.device or 'no GPU'}: nothing was counted, formulas alone"
    return f"{counts.device} ({counts.chip}): {counts.launches:,} launches{graphs}, {runs}, preset {', '.join(counts.presets)}"


def _wrapped(first: str, text: str, rest: str) -> str:
    """A line that begins with ``first``, in lines of at most :data:`_WIDTH` columns that begin with ``rest``."""
    # Names of kernels may be longer than a line.
    return textwrap.fill(text, _WIDTH, initial_indent=first, subsequent_indent=rest, break_on_hyphens=False).rstrip()


def text_of(counts: Counts) -> str:
    """The counts as lines of text."""
    facts = _facts(counts)
    first = max((len(name) for name, _, _ in facts), default=0)
    second = max((len(value) for _, value, _ in facts if len(value) <= _VALUE), default=0)
    lines = [_wrapped("", _head(counts), "  ")]
    for name, value, remark in facts:
        start = f"  {name:<{first}}  "
        if len(value) <= _VALUE:
            start, text = f"{start}{value:>{second}}  ", remark
        else:
            text = f"{value}  {remark}"
        lines.append(_wrapped(start, text, " " * len(start)) if text.strip() else start.rstrip())
    lines += [_wrapped("  note: ", note, " " * 8) for note in counts.notes]
    if "total" not in counts.tables[:1] or len(counts.tables) > 1:
        lines.append(_wrapped("  tables: ", ", ".join(counts.tables), " " * 10))
    return "\n".join(lines)


def html_of(counts: Counts) -> str:
    """The counts as a table of HTML. It takes its colors from the page around it."""
    cell = "text-align:left;vertical-align:top;padding:2px 12px 2px 0"
    number = "text-align:right;vertical-align:top;white-space:nowrap;font-variant-numeric:tabular-nums;padding:2px 12px 2px 0"
    rows = [
        f'<tr><th scope="row" style="{cell};white-space:nowrap;font-weight:600">{html.escape(name)}</th>'
        f'<td style="{number}">{html.escape(value)}</td><td style="{cell};opacity:.75">{html.escape(remark)}</td></tr>'
        for name, value, remark in _facts(counts)
    ]
    notes = "".join(f'<p style="margin:4px 0">{html.escape(note)}</p>' for note in counts.notes)
    return (
        f'<div><p style="margin:4px 0;font-weight:600">{html.escape(_head(counts))}</p>'
        f'<table style="border-collapse:collapse;margin:0"><tbody>{"".join(rows)}</tbody></table>{notes}</div>'
    )
