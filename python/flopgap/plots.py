"""Answers as figures, by matplotlib or plotly, whichever is installed: the package depends on neither."""

from __future__ import annotations

import importlib
import importlib.util
from dataclasses import dataclass
from typing import Any, Literal

from .errors import AbsentError

__all__ = ["Bars", "Drawn"]

_LIBRARIES = ("matplotlib", "plotly")

#: Segments that have a name of their own; the others of a figure are one.
_NAMED = 9


@dataclass(frozen=True)
class Bars:
    """Stacked bars of milliseconds: a bar for each name, a segment for each part."""

    title: str
    names: list[str]
    #: What a segment is, and how long it is in each bar.
    parts: dict[str, list[float]]

    def shortened(self) -> Bars:
        """The same with the smallest parts as one."""
        if len(self.parts) <= _NAMED + 1:
            return self
        # The answer's order is kept: parts that belong together are next to each other.
        named = set(sorted(self.parts, key=lambda part: -sum(self.parts[part]))[:_NAMED])
        parts = {part: lengths for part, lengths in self.parts.items() if part in named}
        rest = [lengths for part, lengths in self.parts.items() if part not in named]
        parts[f"{len(rest)} others"] = [sum(lengths) for lengths in zip(*rest, strict=True)]
        return Bars(self.title, self.names, parts)


class Drawn:
    """An answer that a figure can show."""

    def _bars(self) -> Bars:
        raise NotImplementedError

    def plot(self, *, backend: Literal["matplotlib", "plotly"] | None = None, ax: Any = None) -> Any:
        """Draws the answer as bars of milliseconds.

        :param backend: the library that draws; by default the first of both that is installed
        :param ax: axes of matplotlib to draw in, instead of a new figure
        :return: axes of matplotlib, or a figure of plotly
        :raises AbsentError: the library is not installed
        """
        return _draw(self._bars(), backend, ax)


def _draw(bars: Bars, backend: str | None, ax: Any) -> Any:
    """Axes of matplotlib, or a figure of plotly."""
    if backend not in (None, *_LIBRARIES):
        raise ValueError(f"backend is 'matplotlib' or 'plotly', not {backend!r}")
    if ax is not None and backend is None:
        backend = "matplotlib"
    wanted = [backend] if backend else list(_LIBRARIES)
    found = next((name for name in wanted if importlib.util.find_spec(name)), None)
    if found is None:
        raise AbsentError(f"{' and '.join(wanted)} {'is' if backend else 'are'} not installed", f"pip install {wanted[0]}")
    bars = bars.shortened()
    return _by_matplotlib(bars, ax) if found == "matplotlib" else _by_plotly(bars)


def _by_matplotlib(bars: Bars, ax: Any) -> Any:
    if ax is None:
        height = 1.5 + 0.3 * min(len(bars.names), 30)
        _, ax = importlib.import_module("matplotlib.pyplot").subplots(figsize=(10, height), layout="constrained")
    # By position: bars may have equal names.
    places = range(len(bars.names))
    left = [0.0] * len(bars.names)
    colors = importlib.import_module("matplotlib").colormaps["tab10"].colors
    for index, (part, lengths) in enumerate(bars.parts.items()):
        ax.barh(places, lengths, left=left, label=part, color=colors[index % len(colors)])
        left = [start + length for start, length in zip(left, lengths, strict=True)]
    # Names of many steps would cover each other.
    every = 1 + len(bars.names) // 40
    ax.set_yticks(places[::every], bars.names[::every])
    ax.invert_yaxis()
    ax.set(title=bars.title, xlabel="ms")
    if len(bars.parts) > 1:
        ax.legend(loc="center left", bbox_to_anchor=(1, 0.5), fontsize="small", frameon=False)
    return ax


def _by_plotly(bars: Bars) -> Any:
    plotly = importlib.import_module("plotly.graph_objects")
    places = list(range(len(bars.names)))
    figure = plotly.Figure([plotly.Bar(y=places, x=lengths, name=part, orientation="h") for part, lengths in bars.parts.items()])
    axis = {"tickvals": places, "ticktext": bars.names, "autorange": "reversed"}
    figure.update_layout(barmode="stack", title=bars.title, xaxis_title="ms", yaxis=axis, showlegend=len(bars.parts) > 1)
    return figure
