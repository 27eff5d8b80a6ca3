"""seeds.py FOLDER: writes seeds for every target, cut from the fixtures; run from the root of the repository.

The seeds in `seeds/` are those of them that `TARGET -merge=1` found to reach code that the others do not. Needs zstd and sqlite3.
"""

import gzip
import json
import pathlib
import subprocess
import sys

fixtures = pathlib.Path("fixtures")
out = pathlib.Path(sys.argv[1])


def unpacked(path):
    if path.suffix == ".zst":
        return subprocess.run(["zstd", "-qdc", path], check=True, capture_output=True).stdout
    return gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()


def seed(target, name, content):
    folder = out / target
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(content)


def lines(content, most):
    """The first whole lines."""
    return content[: content.rfind(b"\n", 0, most) + 1]


for path in sorted(fixtures.glob("ncu/**/*.csv*")):
    seed("ncu_csv", path.name.removesuffix(".zst"), unpacked(path)[:16384])
seed("ncu_csv", "utf16.csv", (fixtures / "ncu/raw_per_gpu_displaced.csv").read_text().encode("utf-16"))
for path in sorted(fixtures.glob("ncu/*.ncu-rep*")):
    seed("ncu_rep", path.name.removesuffix(".zst"), unpacked(path)[4:])
subprocess.run(["sh", "fuzz/nsys-seeds.sh", out / "nsys_export"], check=True)

small = out / "sqlite_pages"
small.mkdir(parents=True, exist_ok=True)
(small / "overflow").unlink(missing_ok=True)
numbers = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {}) "
subprocess.run(
    ["sqlite3", small / "overflow"],
    input="PRAGMA page_size = 512; CREATE TABLE t(a, b REAL, c TEXT, d BLOB);"
    f"{numbers.format(60)} INSERT INTO t SELECT i * i * i, i / 3.0, 'text ' || i, zeroblob(i % 7) FROM n;"
    "INSERT INTO t VALUES (NULL, 1e300, printf('%.900c', 'x'), randomblob(0)), (-9223372036854775808, 0, '', x'00ff');"
    "CREATE TABLE k(id INTEGER PRIMARY KEY, v); INSERT INTO k VALUES (-5, 1), (7, 2.5), (1 << 40, 'x');",
    text=True,
    check=True,
)

for path in sorted(fixtures.glob("models/*")):
    if path.suffix in (".onnx", ".pt2") and path.stat().st_size < 30000:
        seed("model", path.name, path.read_bytes())

kineto = json.loads(unpacked(fixtures / "kineto/mlp_n10_d1024_m128.json.gz"))
events = kineto["traceEvents"]
kinds = {}
for event in events:
    kinds.setdefault((event.get("ph"), event.get("cat"), event.get("name")), event)
seed("kineto", "kinds.json", json.dumps({**kineto, "traceEvents": list(kinds.values())}).encode())
seed("kineto", "events.json", json.dumps(events[-12:]).encode())
seed("kineto", "compressed.json.gz", gzip.compress(json.dumps(events[:40]).encode(), mtime=0))

for path in sorted(fixtures.glob("dense/*.safetensors")):
    seed("parameters", path.name, path.read_bytes())
header = {"__metadata__": {"flopgap": "version=1 activation=relu output_activation=sigmoid"}}
at = 0
for layer in range(2):
    for name, shape in (("weight", [8, 8]), ("bias", [8])):
        size = 4 * (64 if len(shape) == 2 else 8)
        header[f"layers.{layer}.{name}"] = {"dtype": "F32", "shape": shape, "data_offsets": [at, at + size]}
        at += size
text = json.dumps(header).encode()
text += b" " * (-len(text) % 8)
seed("parameters", "saved.safetensors", len(text).to_bytes(8, "little") + text + bytes(at))

for number, text in enumerate([
    "\n14.02\n13.93 ms\n15us\n",
    "time_us\nstep,time_us\na,14020\nb,13930.5\n",
    "\n10 loops, best of 5: 13.9 msec per loop\n",
    "\nraw times: 139 msec, 140 msec, 0.141 sec\n\n10 loops, best of 3: 13.9 msec per loop\n",
    "\n14 ms ± 57.5 µs per loop (mean ± std. dev. of 7 runs, 100 loops each)\n",
    'timeit_ms\n{"mode": "forward", "timeit_ms": [14.02, 13.93]}',
    "\n[14.02, 1e3]",
    "\n14.02ms,0.01393s",
]):
    seed("measured", f"{number}.txt", text.encode())

for number, text in enumerate([
    "cuda_gpu_kern_sum:nvtx-name:base", "um_sum:rows=-1", "cuda_gpu_trace:mangled",
    "gpu_time_util:threshold=70:chunks=1000:nvtx=step@model/2", "cuda_api_sync:rows=3:start=-5:end=10:process=7:thread=9",
    "gpu_gaps:gap=0", "1s2ms3us4ns/2.5e3us", "-7/1h", "128..2048:128", "1..3", "256", "2/4", "input=8x3x224x224", "batch=",
    "model:blocks.*", r"a\*b\\c*", "aten::mm, op_id = *", "n2_d256_m16", "n2_d256_m16_forward_backward.csv.zst",
    "n1_d1_m1.counts.json.zst", "step_17 of 0x7f",
]):
    seed("spelled", f"{number}.txt", text.encode())

run = fixtures / "runs/h200-default"
for path in sorted(run.glob("raw/n2_d128_m16*"))[:1]:
    seed("run_files", "record", b"r" + unpacked(path))
    seed("run_files", "record.zst", b"r" + path.read_bytes())
seed("run_files", "manifest", b"m" + (run / "manifest.json").read_bytes())
seed("run_files", "metrics", b"t" + lines((run / "processed/metrics.csv").read_bytes(), 1500))

for name in ("xeon-ort", "h200-models"):
    head, *rows = unpacked(fixtures / f"calibration/{name}.jsonl.zst").splitlines(keepends=True)
    short = sorted(rows, key=len)
    kept = [row for row in (*short[:3], *short[len(short) // 2 :][:2]) if len(row) < 6000]
    if len(head) < 20000:
        seed("calibration", name, b"c" + head + b"".join(kept))
    header = json.loads(head)
    if ceilings := header.get("ceilings"):
        small = {**ceilings, "bandwidth": ceilings["bandwidth"][:2]}
        seed("calibration", f"{name}.ceilings", b"r" + json.dumps({"format": "flopgap-ceilings", "version": 1, **small}).encode())
        seed("calibration", f"{name}.small", b"c" + json.dumps({**header, "ceilings": small}).encode() + b"\n" + kept[0])
    row = json.loads(short[0])
    planned = {"engine": "ort", "workload": row["workload"], "mode": row.get("mode"), "precision": row.get("precision")}
    plan = {"format": "flopgap-sweep-plan", "version": 1, "created": "2026-11-22T13:34:30Z", "options": [], "rows": [planned]}
    seed("calibration", f"{name}.plan", b"p" + json.dumps(plan).encode())

sheet = (
    "model,input_dim,hidden_dims,output_dim,batch_size,device,precision,empirical_time_ms,empirical_memory_mb,"
    "analytical_time_ms,analytical_memory_mb,time_error_pct,analytical_bottleneck\n"
    "mlp,64,\"[128, 64]\",10,32,cuda,fp16,0.5,1.5,0.4,1.4,20,memory\n"
)
seed("sheet", "mlp.csv", ("cuda\n" + sheet).encode())
for path in sorted(fixtures.glob("public/*.csv")):
    seed("sheet", path.name, b"\n" + lines(path.read_bytes(), 600))

for path in sorted(fixtures.glob("kernels/names.tsv")):
    names = [line.split("\t")[1] for line in path.read_text().splitlines() if "\t" in line]
    for number, name in enumerate(names[:: max(1, len(names) // 120)]):
        seed("kernel_name", f"{number}.txt", name.encode())
