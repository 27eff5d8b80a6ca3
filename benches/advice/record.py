"""Runs the experiments that check the advice of `flopgap gap`: measures each step, then records it.

    python3 benches/advice/record.py --out OUT                  all experiments: OUT/experiments.json and OUT/traces-1.tar
    python3 benches/advice/record.py --out OUT --only decode    one of them; may be given several times
    python3 benches/advice/record.py --out OUT --device cpu     a trial run of the programs with tiny sizes

Each variant runs in a process of its own, which measures the step before it loads the profiler: a program
that fails or hangs costs nothing but its own result. Written for PyTorch 2.11.
"""

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
import traceback
import warnings

HERE = os.path.dirname(os.path.abspath(__file__))
# A tar file stays below this, and there are at most so many.
TAR_BYTES, TAR_FILES = 15 << 20, 4

# One thread compiles: a pool of processes costs more than it saves for programs this small.
os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")
# Asks for GPUs without CUDA, which a process that forks must not initialize.
os.environ.setdefault("PYTORCH_NVML_BASED_CUDA_CHECK", "1")
# Set by this program for itself if modules that were imported early keep the children from the GPU.
LATE_IMPORTS = "FLOPGAP_ADVICE_LATE_IMPORTS"


def log(text):
    print(text, flush=True)


def end(group):
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)


def isolated(function, seconds):
    """Runs `function` in a process of its own; what went wrong, or None.

    A fork and not a new program, since importing PyTorch again takes seconds. The parent never touches the GPU.
    """
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.setsid()
            function()
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            # Without the usual clean-up, which would wait for the workers of a loader.
            os._exit(code)
    late = time.monotonic() + seconds
    while time.monotonic() < late:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            # Workers that the child left.
            end(child)
            code = os.waitstatus_to_exitcode(status)
            return None if code == 0 else f"exit status {code}"
        time.sleep(0.01)
    end(child)
    os.waitpid(child, 0)
    return f"ended after {seconds:.0f} s"


def import_early():
    """Imports once what every child would import again, which takes seconds."""
    import torch._dynamo  # noqa: F401
    import torch._inductor.compile_fx  # noqa: F401
    import torch.profiler  # noqa: F401


def write(path, value):
    with open(f"{path}.new", "w", encoding="utf-8") as file:
        json.dump(value, file, indent=1)
        file.write("\n")
    os.replace(f"{path}.new", path)


def machine(device, path):
    """What the figures were measured on."""
    import torch

    found = {"torch": torch.__version__, "python": sys.version.split()[0], "device": device, "gpus": 0}
    if device == "cuda":
        found["gpus"] = torch.cuda.device_count()
        found["gpu"] = torch.cuda.get_device_name(0)
        found["cuda"] = torch.version.cuda
        found["cudnn"] = torch.backends.cudnn.version()
    write(path, found)


def single(planned, variant, device, seconds, folder):
    """Measures and records one variant, in this process."""
    import torch
    from measure import Setup, framework_flops, recorded, timed, warm

    setup = Setup(device)
    if not setup.gpu:
        # A trial run must not compete with whatever else the machine does.
        torch.set_num_threads(1)
    # "Profiler clears events at the end of each cycle": there is one cycle.
    warnings.filterwarnings("ignore", "Warning: Profiler clears events")
    torch.manual_seed(0)
    # TF32 everywhere but where its absence is planted.
    torch.set_float32_matmul_precision("high")
    step = planned.build(setup, variant != "before")
    result = {"value": warm(setup, step), **timed(setup, step, seconds)}
    if setup.gpu:
        result["peak_memory_bytes"] = torch.cuda.max_memory_allocated()
    base = f"{planned.name}.{variant}"
    # Kept also if the profiler fails.
    write(os.path.join(folder, f"{base}.json"), result)
    recorded(setup, step, os.path.join(folder, f"{base}.json.gz"), planned.steps, planned.marks, planned.clean)
    result = {**result, "traces": [f"{base}.json.gz"]}
    write(os.path.join(folder, f"{base}.json"), result)
    write(os.path.join(folder, f"{base}.json"), {**result, "framework_flops": framework_flops(step)})


def job(planned, variant, device, seconds, folder, limit):
    """The same in a process for each GPU."""
    call = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={planned.gpus}"]
    call += [os.path.join(HERE, "rank.py"), planned.name, variant, folder, "--device", device, "--seconds", str(seconds)]
    child = subprocess.Popen(call, start_new_session=True)
    try:
        code = child.wait(timeout=limit)
        return None if code == 0 else f"exit status {code}"
    except subprocess.TimeoutExpired:
        return f"ended after {limit:.0f} s"
    finally:
        end(child.pid)
        child.wait()


def row(planned, variant, folder, error):
    """The expectation and what was measured."""
    path = os.path.join(folder, f"{planned.name}.{variant}.json")
    measured = {}
    if os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            measured = json.load(file)
    if measured:
        spread = measured["step_seconds_max"] - measured["step_seconds_min"]
        measured["spread"] = spread / measured["step_seconds"]
        traces = measured.get("traces", [])
        measured["trace_bytes"] = [os.path.getsize(os.path.join(folder, trace)) for trace in traces]
    if error:
        measured["error"] = error
    return {**planned.expected(variant), **measured}


def pack(folder, out):
    """All traces as tar files, since only few files leave some machines."""
    names = sorted(name for name in os.listdir(folder) if name.endswith(".json.gz"))
    files, used = 0, TAR_BYTES
    target = None
    for name in names:
        path = os.path.join(folder, name)
        size = os.path.getsize(path) + 1024
        if used + size > TAR_BYTES:
            if target:
                target.close()
            if files == TAR_FILES:
                log(f"{name} and the traces after it are left out: {TAR_FILES} tar files are full")
                return
            files, used = files + 1, 0
            target = tarfile.open(os.path.join(out, f"traces-{files}.tar"), "w")
        # No owner and no time: the same traces make the same file.
        info = tarfile.TarInfo(name)
        info.size = os.path.getsize(path)
        with open(path, "rb") as file:
            target.addfile(info, file)
        used += size
    if target:
        target.close()


def summary(rows):
    """The gain of every change, and variants that do not compute the same."""
    found = {(row["name"], row["variant"]): row for row in rows if "step_seconds" in row}
    for (name, variant), before in found.items():
        after = found.get((name, "after"))
        if variant != "before" or after is None:
            continue
        ratio = before["step_seconds"] / after["step_seconds"]
        values = [before["value"], after["value"]]
        far = None not in values and abs(values[0] - values[1]) > 0.02 * max(map(abs, values)) + 1e-3
        note = f", but the values differ: {values[0]:.5g} and {values[1]:.5g}" if far else ""
        log(f"{name}: {ratio:.2f} times as fast after the change{note}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", required=True, help="directory of the results")
    parser.add_argument("--only", action="append", metavar="NAME", help="run this experiment only")
    parser.add_argument("--seconds", type=float, default=0.5, help="measure each variant this long [default: 0.5]")
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--each", type=float, default=90, help="end a variant after this many seconds [default: 90]")
    parser.add_argument("--limit", type=float, default=480, help="start nothing after this many seconds [default: 480]")
    options = parser.parse_args()

    begin = time.monotonic()
    sys.path.insert(0, HERE)
    from experiment import EXPERIMENTS

    import programs  # noqa: F401

    if LATE_IMPORTS not in os.environ:
        import_early()
    unknown = set(options.only or []) - set(EXPERIMENTS)
    if unknown:
        parser.error(f"unknown experiment {', '.join(sorted(unknown))}; known are {', '.join(EXPERIMENTS)}")
    chosen = [planned for name, planned in EXPERIMENTS.items() if not options.only or name in options.only]
    os.makedirs(options.out, exist_ok=True)
    rows, skipped = [], []
    with tempfile.TemporaryDirectory() as folder:
        probe = os.path.join(folder, "machine.json")
        error = isolated(lambda: machine(options.device, probe), 60)
        if error and LATE_IMPORTS not in os.environ:
            os.environ[LATE_IMPORTS] = "1"
            os.execv(sys.executable, [sys.executable, *sys.argv])
        if error:
            sys.exit(f"no GPU that PyTorch can use: {error}")
        with open(probe, encoding="utf-8") as file:
            found = json.load(file)
        log(json.dumps(found))

        def skip(planned, reason):
            log(f"{planned.name}: skipped, {reason}")
            skipped.append({"name": planned.name, "reason": reason})

        try:
            for planned in chosen:
                if planned.gpus > 1 and options.device == "cuda" and found["gpus"] < planned.gpus:
                    skip(planned, f"it needs {planned.gpus} GPUs, found {found['gpus']}")
                    continue
                if time.monotonic() - begin > options.limit:
                    skip(planned, f"{options.limit:.0f} s have passed")
                    continue
                for variant in planned.variants:
                    started = time.monotonic()
                    if planned.gpus > 1:
                        error = job(planned, variant, options.device, options.seconds, folder, options.each)
                    else:
                        run = lambda: single(planned, variant, options.device, options.seconds, folder)  # noqa: B023,E731
                        error = isolated(run, options.each)
                    rows.append(row(planned, variant, folder, error))
                    report(rows[-1], time.monotonic() - started)
                    results = {"machine": found, "experiments": rows, "skipped": skipped}
                    write(os.path.join(options.out, "experiments.json"), results)
        finally:
            write(
                os.path.join(options.out, "experiments.json"),
                {"machine": found, "experiments": rows, "skipped": skipped},
            )
            pack(folder, options.out)
    summary(rows)
    failed = [f"{row['name']}.{row['variant']}" for row in rows if "error" in row]
    log(f"{len(rows) - len(failed)} variants recorded in {time.monotonic() - begin:.0f} s")
    if failed:
        log(f"failed: {', '.join(failed)}")


def report(row, seconds):
    name = f"{row['name']}.{row['variant']}"
    if "step_seconds" in row:
        time_text = f"{row['step_seconds'] * 1e3:9.3f} ms, spread {row['spread'] * 100:4.1f} %"
        size = "+".join(f"{size / 1000:.0f}" for size in row["trace_bytes"]) or "no"
        log(f"{name:36} {time_text}, trace {size} kB, took {seconds:.0f} s")
    if "error" in row:
        log(f"{name}: failed: {row['error']}")


if __name__ == "__main__":
    main()
