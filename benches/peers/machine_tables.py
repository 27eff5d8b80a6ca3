"""Compares flopgap's tables of GPUs that others measured with three other methods, row by row.

    python3 machine_tables.py FOLDER OUTPUT [--flopgap FILE] [--gpus h200,a100,...]

FOLDER has a folder for each system with the Parquet tables of ai-dynamo/aiconfigurator, and FILE is
what `machine-tables` (benches/src/bin) prints of it. Rows are read and held out as there: of equal
shapes the first counts, and the fifth of them that a hash of the sizes picks is predicted from the
others. Halves of that fifth give each other the widths of intervals (split conformal, 90 %), which
the collectives of a GPU share.

The others: aiconfigurator itself, in its mode that interpolates measurements (SILICON), with a
database of the fitted rows alone; extra trees and a random forest of scikit-learn, of 100 trees and
otherwise with defaults, on logarithms of sizes, operations and bytes. Nothing was tuned on judged
rows. To prefill attention, aiconfigurator adds kernels that were not measured with it: what it adds
to fitted rows of the same heads is subtracted. Its decode attention is the mean of five lengths
between 0.9 and 1.1 of the one asked for, and stays so.

OUTPUT gets `results.csv` and `summary.md`. Of aiconfigurator's package, the descriptions of systems
are read, not its measurements, which have all rows.

    pip install aiconfigurator-core==0.12.0 scikit-learn pandas pyarrow
"""

import argparse
import collections
import pathlib
import re
import shutil
import sys
import tempfile

import aiconfigurator_core
import numpy as np
import pandas as pd
import sklearn
import yaml
from aiconfigurator_core.sdk import common, engine, operations
from aiconfigurator_core.sdk.operations.attention import resolved_lane_order_for_op
from aiconfigurator_core.sdk.perf_database import PerfDatabase
from sklearn.ensemble import ExtraTreesRegressor, RandomForestRegressor

FOLDERS = {"h200": "h200_sxm", "a100": "a100_sxm", "h100": "h100_sxm", "l40s": "l40s", "b200": "b200_sxm",
           "gb200": "gb200", "gb300": "gb300", "rtx-pro-6000": "rtx_pro_6000_server"}
BITS = {"bf16": 16, "fp8": 8, "fp8-block": 8, "nvfp4": 4, "int4": 4, "mxfp4": 4, "mxfp4-fp8": 4}
VARIANTS = {"bfloat16": "bf16", "fp8_block": "fp8-block", "int4_wo": "int4", "w4a16_mxfp4": "mxfp4",
            "w4a8_mxfp4_mxfp8": "mxfp4-fp8", "alltoall": "all-to-all"}
ROUTINGS = {"balanced": 0, "power_law_1.01": 1, "power_law_1.2": 2}
ATTENTION = ["window_size", "head_dim", "num_key_value_heads", "num_heads", "batch_size", "tokens"]
EXPERTS = ["hidden_size", "inter_size", "topk", "num_experts", "moe_tp_size", "moe_ep_size", "routing", "num_tokens"]
# Kind, folder in aiconfigurator's layout, column of the variant, and sizes in the order of the hash.
TABLES = {
    "gemm": ("products", "gemm", "gemm_dtype", ["n", "k", "m"]),
    "context_attention": ("prefill attention", "attention", "kv_cache_dtype", ATTENTION),
    "generation_attention": ("decode attention", "attention", "kv_cache_dtype", ATTENTION),
    "moe": ("experts", "moe", "moe_dtype", EXPERTS),
    "nccl": ("collectives", "comm", "op_name", ["num_gpus", "width", "message_size"]),
}
METHODS = {"aiconfigurator": None, "extra trees": ExtraTreesRegressor, "forest": RandomForestRegressor}
COLUMNS = ["gpu", "table", "variant", "rows_fitted", "rows_judged", "method", "mape", "median", "p90", "covered"]


def part(sizes):
    """A number that depends on sizes alone (FNV-1a, mixed), as in `machines/table.rs`."""
    hashes = np.full(len(sizes), 0xCBF29CE484222325, np.uint64)
    for column in sizes.astype(np.uint64).T:
        for shift in range(0, 64, 8):
            hashes = (hashes ^ ((column >> np.uint64(shift)) & np.uint64(0xFF))) * np.uint64(0x100000001B3)
    return ((hashes ^ (hashes >> np.uint64(32))) * np.uint64(0xFF51AFD7ED558CCD)) >> np.uint64(20)


def read(path, variant, sizes):
    """The rows of a table, the first of equal ones; `latency` is in milliseconds."""
    rows = pd.read_parquet(path)
    if "step" in rows:
        rows["tokens"], rows["window_size"] = rows["isl"] + rows["step"], rows.get("window_size", 0)
    if "distribution" in rows:
        rows["routing"] = rows["distribution"].map(ROUTINGS)
    if "nccl_dtype" in rows:
        rows["width"] = np.where(rows["nccl_dtype"] == "half", 2, 1)
    rows["variant"] = rows[variant].replace(VARIANTS).str.replace("_", "-")
    rows = rows.drop_duplicates(["variant", *sizes], ignore_index=True)
    number = part(rows[sizes].to_numpy())
    return rows.assign(held=number % 5 == 0, odd=number // 5 % 2 == 1)


def features(kind, rows, sizes):
    """Logarithms of the sizes, and of operations and bytes, which follow from them."""
    found = list(rows[sizes].to_numpy(float).T)
    bits = rows["variant"].map(BITS).to_numpy(float)
    if kind == "products":
        n, k, m = found
        found += [m * n * k, (m * k + n * k) * bits + m * n * 16]
    elif kind == "experts":
        hidden, inner, topk, experts, tensor, parallel, routing, tokens = found
        found[6] = 2 ** routing
        chosen = experts / parallel * (1 - (1 - topk / experts) ** tokens)
        found += [inner / tensor, experts / parallel, tokens * topk / experts,
                  tokens * topk * hidden * inner / tensor / parallel, hidden * inner / tensor * chosen * bits]
    elif kind == "collectives":
        found.append(found[1] * found[2])
    else:
        window, head, kv, heads, batch, tokens = found
        found[0], seen = window + 1, np.where(window > 0, np.minimum(window, tokens), tokens)
        queries = tokens if kind.startswith("prefill") else 1
        found += [heads / kv, seen, batch * heads * head * seen * queries, batch * kv * seen * head * bits]
    return np.log2(np.column_stack(found))


class Aiconfigurator:
    """aiconfigurator's engine on a database of the fitted rows of a system."""

    def __init__(self, system, tables, root):
        for name in (f"{system}.yaml", "query_versions.yaml", "attention_lane_defaults.yaml"):
            shutil.copy(pathlib.Path(aiconfigurator_core.__file__).parent / "systems" / name, root)
        spec = yaml.safe_load(pathlib.Path(root, f"{system}.yaml").read_text())
        version = tables["gemm"]["version"].iloc[0].split("+")[0]
        for name, rows in tables.items():
            family = TABLES[name][1]
            backend = f"nccl/{spec['misc']['nccl_version']}" if family == "comm" else f"vllm/{version}"
            path = pathlib.Path(root, spec["data_dir"], family, backend, f"{name}_perf.parquet")
            path.parent.mkdir(parents=True, exist_ok=True)
            rows[~rows["held"]].drop(columns=["held", "odd", "variant"]).to_parquet(path, index=False)
        # Without the shared layer: nothing from other versions or programs.
        database = PerfDatabase(system, "vllm", version, root, database_mode="SILICON", shared_layer=False)
        self.engine = engine.EngineHandle.for_database(database, systems_path=root)
        self.lanes = {name: resolved_lane_order_for_op(database, f"_{name}_data")
                      for name in tables if "attention" in name}

    def operation(self, table, row):
        """A row in aiconfigurator's words, named by its index."""
        name = str(row.Index), 1.0
        if table == "gemm":
            return operations.GEMM(*name, row.n, row.k, common.GEMMQuantMode[row.gemm_dtype])
        if table == "moe":
            sizes = [getattr(row, size) for size in EXPERTS[:6]]
            return operations.MoE(*name, *sizes, common.MoEQuantMode[row.moe_dtype], row.distribution, 1)
        if table == "nccl":
            return operations.NCCL(*name, row.op_name, 1, row.num_gpus, common.CommQuantMode[row.nccl_dtype])
        heads = [row.num_heads, row.num_key_value_heads, common.KVCacheQuantMode[row.kv_cache_dtype]]
        kind = operations.GenerationAttention
        if table == "context_attention":
            kind, heads = operations.ContextAttention, [*heads, common.FMHAQuantMode[row.attn_dtype]]
        operation = kind(*name, *heads, head_size=row.head_dim, window_size=row.window_size)
        operation._lane_order = self.lanes[table]
        return operation

    def evaluate(self, ops, shape, counts):
        try:
            found = self.engine.evaluate_ops_json(engine.build_ops_json(ops), **shape)
        except Exception as error:
            if len(ops) > 1:
                return [one for op in ops for one in self.evaluate([op], shape, counts)]
            counts[f"refused: {type(error).__name__}"] += 1
            return []
        counts.update(f"{source}, {self.engine.last_provenance() or 'measured'}" for *_, source in found)
        return [(int(index), milliseconds) for index, milliseconds, *_ in found]

    def answers(self, table, rows, counts):
        """Milliseconds by index; what is refused is absent."""
        found, attention = [], "attention" in table
        by = ["batch_size", "tokens"] if attention else [TABLES[table][3][-1]]
        for shape, group in rows.groupby(by):
            asked = {"batch_size": 1, "s": 1, "is_context": table != "generation_attention"}
            asked |= zip(["batch_size", "s"] if attention else ["x"], shape)
            found += self.evaluate([self.operation(table, row) for row in group.itertuples()], asked, counts)
        return pd.Series(dict(found), dtype=float)

    def predict(self, table, rows, counts):
        held, fitted = rows[rows["held"]], rows[~rows["held"]]
        answers = self.answers(table, held, counts)
        if table == "context_attention":
            heads = ["num_heads", "num_key_value_heads", "head_dim", "kv_cache_dtype"]
            some = fitted.groupby(heads).head(9)
            added = self.answers(table, some, collections.Counter()) - some["latency"]
            added = added.groupby([some[column] for column in heads]).median().rename("added")
            answers -= held.join(added, on=heads)["added"].fillna(added.median())
        slices, size = ["variant", *TABLES[table][3][:-1]], TABLES[table][3][-1]
        near = held.join(fitted.groupby(slices)[size].agg(["min", "max"]), on=slices)
        beyond = ~held[size].between(near["min"], near["max"])
        counts["beyond fitted rows of the same other sizes"] += int(beyond.sum())
        return answers.reindex(held.index)


def trees(model, kind, rows, sizes):
    found = []
    for _, group in rows.groupby("variant"):
        x, held = features(kind, group, sizes), group["held"].to_numpy()
        fit = model(n_estimators=100, n_jobs=1, random_state=0).fit(x[~held], np.log(group["latency"][~held]))
        found.append(pd.Series(np.exp(fit.predict(x[held])), group.index[held]))
    return pd.concat(found)


def covered(own, odd, widths, widths_odd):
    """The share of scores between the 5th and 95th percentile of those of the other half."""
    inside = 0
    for half in (False, True):
        others = widths[widths_odd != half]
        beyond = 0.05 * (1 - 1 / len(others))
        inside += own[odd == half].between(*np.quantile(others, [beyond, 1 - beyond])).sum()
    return inside / len(own)


def compare(gpu, folder):
    """Lines of results, and how aiconfigurator answered: how many rows from measurements, say."""
    tables = {name: read(folder / f"{name}.parquet", *TABLES[name][2:]) for name in TABLES}
    lines, counts = [], collections.defaultdict(collections.Counter)
    with tempfile.TemporaryDirectory() as root:
        peer = Aiconfigurator(folder.name, tables, root)
        for name, rows in tables.items():
            kind, _, _, sizes = TABLES[name]
            for method, model in METHODS.items():
                found = trees(model, kind, rows, sizes) if model else peer.predict(name, rows, counts[kind])
                held = rows[rows["held"]].assign(predicted=found).query("predicted > 0")
                held["score"] = np.log(held["latency"] / held["predicted"])
                for variant, own in held.groupby("variant"):
                    widths = held if kind == "collectives" else own
                    error = (own["predicted"] / own["latency"] - 1).abs()
                    cover = covered(own["score"], own["odd"], widths["score"], widths["odd"])
                    fitted = int((~rows["held"] & (rows["variant"] == variant)).sum())
                    lines.append([gpu, kind, variant, fitted, len(own), method, error.mean(),
                                  error.median(), error.quantile(0.9), cover])
    return lines, {f"{gpu}, {kind}": dict(found) for kind, found in counts.items()}


def with_flopgap(path, results):
    """And what machine-tables printed, in percent; its numbers of rows must agree."""
    printed = [re.split(" *[|] *", line) for line in path.read_text().splitlines()]
    printed = {(line[1], *line[2].split(", ")): line[3:8] for line in printed}
    lines = []
    for key, group in results.groupby(COLUMNS[:3], sort=False):
        fitted, judged = group[["rows_fitted", "rows_judged"]].max()
        total, *percents = printed[key]
        if int(total) != fitted + judged:
            sys.exit(f"{key}: {fitted} + {judged} rows, but machine-tables had {total}")
        lines.append([*key, fitted, judged, "flopgap", *(float(one) / 100 for one in percents)])
    return pd.concat([pd.DataFrame(lines, columns=COLUMNS), results], ignore_index=True)


def summary(results, answered):
    methods, gpus, kinds = (list(dict.fromkeys(results[column])) for column in ("method", "gpu", "table"))
    text = [f"MAPE, %: {' / '.join(methods)}."]
    for kind in kinds:
        text += ["", f"| {kind} | {' | '.join(gpus)} |", "|---" + "|---:" * len(gpus) + "|"]
        for variant, chosen in results[results["table"] == kind].groupby("variant", sort=False):
            cells = (" / ".join(f"{100 * mape:.1f}" for mape in chosen["mape"][chosen["gpu"] == gpu]) for gpu in gpus)
            text.append(f"| {variant} | {' | '.join(cells)} |")
    text += ["", f"| geometric means of MAPE (and of medians), %; median covered | {' | '.join(methods)} |",
             "|---" + "|---:" * len(methods) + "|"]
    for kind in [*kinds, "all"]:
        cells = []
        for method in methods:
            one = results[((results["table"] == kind) | (kind == "all")) & (results["method"] == method)]
            mape, median = (100 * np.exp(np.log(one[column]).mean()) for column in ("mape", "median"))
            cells.append(f"{mape:.2f} ({median:.2f}); {100 * one['covered'].median():.1f}")
        text.append(f"| {kind}: {len(one)} | {' | '.join(cells)} |")
    text += ["", f"aiconfigurator-core 0.12.0, scikit-learn {sklearn.__version__}. aiconfigurator answered:", ""]
    return "\n".join(text + [f"- {key}: {found}" for key, found in answered.items()]) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("output", type=pathlib.Path)
    parser.add_argument("--flopgap", type=pathlib.Path)
    parser.add_argument("--gpus", default=",".join(FOLDERS))
    options = parser.parse_args()
    lines, answered = [], {}
    for gpu in options.gpus.split(","):
        more, counts = compare(gpu, options.folder / FOLDERS[gpu])
        lines, answered = lines + more, answered | counts
        results = pd.DataFrame(lines, columns=COLUMNS)
        results = with_flopgap(options.flopgap, results) if options.flopgap else results
        results.to_csv(options.output / "results.csv", index=False, float_format="%.5f")
        (options.output / "summary.md").write_text(summary(results, answered))


if __name__ == "__main__":
    main()
