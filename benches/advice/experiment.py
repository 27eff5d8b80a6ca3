"""What an experiment is, and the list of all of them, which the modules of `programs` fill."""

import dataclasses
from collections.abc import Callable

LIMITS = ["launch", "host", "sync", "input", "allocation", "copies", "communication", "skew", "gpu", "unknown"]
ADVICE = [
    "cuda-graphs", "blocking-call", "input-pipeline", "pageable-copies", "unoverlapped-copies", "fewer-copies",
    "tensor-cores", "fused-attention", "fuse-elementwise", "fused-optimizer", "channels-last", "tile-padding", "allocations",
    "serialized-streams", "communication-overlap", "small-buckets", "straggler", "recomputation", "host-code", "clocks",
]  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Experiment:
    """One planted cause, and the change that removes it."""

    name: str
    # `build(setup, after)` gives the step: a function that runs one iteration and may return a tensor.
    build: Callable
    # The planted cause and the change in words. A healthy program has neither.
    cause: str | None
    change: str | None
    # What limits the step before and after the change.
    limit: str
    limit_after: str
    # The advice that must appear before and must not appear after.
    advice: str | None = None
    # Advice that may appear as well, in either variant, since the program truly has that, too.
    also: tuple[str, ...] = ()
    # How it is recorded: see `measure.recorded`.
    steps: int = 3
    marks: bool = True
    clean: bool = True
    # GPUs that it needs, one process each.
    gpus: int = 1

    def __post_init__(self):
        for limit in (self.limit, self.limit_after):
            assert limit in LIMITS, f"{self.name}: unknown limit `{limit}`"
        for advice in (*self.also, *([self.advice] if self.advice else [])):
            assert advice in ADVICE, f"{self.name}: unknown advice `{advice}`"

    @property
    def variants(self):
        return ["healthy"] if self.cause is None else ["before", "after"]

    def expected(self, variant):
        """What the answer must say about a variant, as a row of `experiments.json`."""
        before = variant == "before"
        return {
            "name": self.name,
            "variant": variant,
            "cause": self.cause,
            "change": self.change,
            "limit": self.limit if before else self.limit_after,
            "advice": self.advice if before else None,
            "also": list(self.also),
            "steps": self.steps,
            "marks": self.marks,
            "clean": self.clean,
        }


EXPERIMENTS: dict[str, Experiment] = {}


def experiment(name, cause, change, limit, limit_after="gpu", **options):
    """Registers the decorated `build` function."""

    def register(build):
        assert name not in EXPERIMENTS, f"two experiments are named `{name}`"
        EXPERIMENTS[name] = Experiment(name, build, cause, change, limit, limit_after, **options)
        return build

    return register


def healthy(name, **options):
    """Registers a program to which no advice may be given."""
    return experiment(name, None, None, "gpu", **options)
