"""What recorders cost: programs alone and under each recorder, in turns, on one machine with a GPU.

    measure.py --flopgap PROGRAM [--nsys PROGRAM] [--repeat N] [--only NAME...]

Prints the median of each program under each recorder, and its ratio to the program alone. `floor` is the same
records of CUPTI into buffers that are thrown away (floor.c); `profiler` is torch.profiler, for programs of PyTorch.
"""

import argparse
import glob
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
CUDA = pathlib.Path(os.environ.get("CUDA_HOME", "/usr/local/cuda"))


def build(into: pathlib.Path) -> dict[str, list[str]]:
    """Compiles the programs; returns the command of each."""
    cupti = glob.glob(f"{CUDA}/targets/*/lib/libcupti.so*") + glob.glob(f"{CUDA}/extras/CUPTI/lib64/libcupti.so*")
    includes = [f"-I{CUDA}/include", f"-I{CUDA}/extras/CUPTI/include"]
    run = lambda *command: subprocess.run(command, check=True)
    run(f"{CUDA}/bin/nvcc", "-O2", "-arch=native", "-o", into / "launches", HERE / "launches.cu", "-lpthread")
    run("gcc", "-O2", *includes, "-o", into / "ranges", HERE / "ranges.c", "-ldl")
    folder = os.path.dirname(cupti[0])
    run("gcc", "-O2", "-shared", "-fPIC", *includes, "-o", into / "floor.so", HERE / "floor.c", cupti[0], f"-Wl,-rpath,{folder}")
    launches = str(into / "launches")
    return {
        "launches": [launches, "200000"],
        "threads": [launches, "400000", "8"],
        "graphs": [launches, "300000", "1", "1000"],
        "training": [sys.executable, str(HERE / "train.py"), "40"],
        "large": [sys.executable, str(HERE / "train.py"), "40", "large"],
        "decode": [sys.executable, str(HERE / "decode.py"), "400"],
        "ranges": [str(into / "ranges")],
    }


def recorders(arguments, into: pathlib.Path) -> dict[str, tuple[list[str], dict[str, str]]]:
    """What comes before a program, and the variables that it gets."""
    flopgap = [arguments.flopgap, "record", "--quiet", "--output", str(into / "x.sqlite")]
    found = {
        "alone": ([], {}),
        "floor": ([], {"CUDA_INJECTION64_PATH": str(into / "floor.so")}),
        "flopgap": ([*flopgap, "--"], {}),
        "floor, whole graphs": ([], {"CUDA_INJECTION64_PATH": str(into / "floor.so"), "FLOOR_WHOLE_GRAPHS": "1"}),
        "flopgap, whole graphs": ([*flopgap, "--graph", "graph", "--"], {}),
        "profiler": ([], {"TRAIN_PROFILER": "1"}),
    }
    if arguments.nsys:
        profile = [arguments.nsys, "profile", "-t", "cuda,nvtx", "-s", "none", "--cpuctxsw=none", "-f", "true"]
        found["nsys"] = ([*profile, "-o", str(into / "nsys"), "--cuda-graph-trace=node"], {})
        found["nsys, whole graphs"] = ([*profile, "-o", str(into / "nsys"), "--cuda-graph-trace=graph"], {})
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--flopgap", default=shutil.which("flopgap"))
    parser.add_argument("--nsys", default=shutil.which("nsys"))
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--only", nargs="*")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        into = pathlib.Path(scratch)
        programs = build(into)
        for name, program in programs.items():
            if arguments.only and name not in arguments.only:
                continue
            suited = {
                recorder: how for recorder, how in recorders(arguments, into).items()
                if ("whole" not in recorder or name in ("graphs", "decode"))
                and (recorder != "profiler" or name in ("training", "large", "decode"))
            }  # fmt: skip
            if name == "ranges":
                suited = {recorder: how for recorder, how in suited.items() if recorder in ("alone", "flopgap", "nsys")}
            times = {recorder: [] for recorder in suited}
            for _ in range(arguments.repeat):
                for recorder, (before, variables) in suited.items():
                    output = subprocess.run(
                        [*before, *program], env=os.environ | variables, capture_output=True, text=True, check=False
                    ).stdout  # fmt: skip
                    found = re.search(r"([\d.]+) (us a kernel|ms a step|ns a pair)", output)
                    if found:
                        times[recorder].append(float(found[1]))
                        unit = found[2]
            alone = statistics.median(times["alone"])
            for recorder, values in times.items():
                if values:
                    middle = statistics.median(values)
                    spread = f"{min(values):.3f} to {max(values):.3f}"
                    print(f"{name:9} {recorder:22} {middle:9.3f} {unit}  {middle / alone:6.3f}  ({spread})", flush=True)


if __name__ == "__main__":
    main()
