from collections.abc import Iterator
from os import PathLike
from pathlib import Path
from typing import Any, final

__version__: str

_Input = str | PathLike[str] | Source
_Look = tuple[list[str], list[str], int | None, bool, bool, bool]
_Answer = tuple[str, list[Table], list[str], list[str]]

def read(path: str | PathLike[str], /) -> Source:
    """Opens what a profiler recorded: a report of Nsight Compute, an export of Nsight Systems, a trace of ``torch.profiler``, each also
    compressed with gzip or Zstandard, or a run directory. What it is is told from its content.

    :raises InputNotFoundError: there is no such file
    :raises InputError: it is nothing that can be read, or damaged
    """

@final
class Source:
    """A recorded file or folder, and the tables in it, by name or as attributes."""

    @property
    def path(self) -> Path:
        """The file or folder."""
    @property
    def kind(self) -> str:
        """What it is: ``ncu``, ``nsys``, ``kineto`` or ``run``."""
    @property
    def tables(self) -> list[str]:
        """The names of its tables."""
    @property
    def warnings(self) -> list[str]:
        """What was strange in what was read so far."""
    def keys(self) -> list[str]: ...
    def __getitem__(self, name: str, /) -> Table: ...
    def __getattr__(self, name: str, /) -> Table: ...
    def __iter__(self) -> Iterator[str]: ...
    def __len__(self) -> int: ...
    def __contains__(self, name: str, /) -> bool: ...
    def __dir__(self) -> list[str]: ...
    def _repr_html_(self) -> str: ...

@final
class Table:
    """A table of a source, or some of its columns. Whatever takes Arrow's PyCapsules takes it without a copy; each time it is read anew."""

    @property
    def name(self) -> str:
        """Its name: ``kernels``."""
    @property
    def about(self) -> str:
        """What its rows are, in a sentence."""
    @property
    def columns(self) -> list[str]:
        """The names of its columns."""
    @property
    def schema(self) -> Schema:
        """Its columns: names, types and meanings."""
    def select(self, *columns: str) -> Table:
        """The same table with these columns alone. What is not asked for is not read."""
    def to_dicts(self, limit: int | None = None) -> list[dict[str, Any]]:
        """Its rows as dicts, at most so many: for this no other library is needed."""
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...
    def __arrow_c_schema__(self) -> object: ...
    def _repr_html_(self) -> str: ...

@final
class Schema:
    """The columns of a table."""

    @property
    def names(self) -> list[str]:
        """The names of the columns."""
    def __len__(self) -> int: ...
    def __getitem__(self, key: int | str, /) -> Field: ...
    def __iter__(self) -> Iterator[Field]: ...
    def __arrow_c_schema__(self) -> object: ...
    def _repr_html_(self) -> str: ...

@final
class Field:
    """A column: its name, its type, and what it means."""

    @property
    def name(self) -> str: ...
    @property
    def type(self) -> str:
        """``int64``, ``uint64``, ``float64`` or ``text``."""
    @property
    def nullable(self) -> bool:
        """Whether rows may lack it."""
    @property
    def description(self) -> str:
        """What it means, with its unit."""
    @property
    def metric(self) -> str | None:
        """Of a metric of Nsight Compute: its name there."""
    @property
    def unit(self) -> str | None:
        """Of a metric of Nsight Compute: its unit there."""

def passes(input: _Input, look: _Look, measured: list[int]) -> _Answer: ...
def kernels(input: _Input, look: _Look) -> _Answer: ...
def compare(a: _Input, b: _Input, look: _Look, all: bool) -> _Answer: ...
def diff(before: _Input, after: _Input, look: _Look, all: bool, keep_layers: bool) -> _Answer: ...
def summary(paths: list[str | PathLike[str]], look: _Look, measured: list[int], top: int) -> tuple[str, str, str]: ...
