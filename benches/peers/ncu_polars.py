"""FLOPs by kernel from a long ncu CSV with Polars' lazy engine: python3 ncu_polars.py FILE"""
import sys

import polars as pl

grouped = (
    pl.scan_csv(sys.argv[1], infer_schema=False)
    .select("Kernel Name", "Metric Name", pl.col("Metric Value").str.replace_all(",", "", literal=True).cast(pl.Int64))
    .filter(pl.col("Metric Value") != 0)
    .with_columns(
        pl.col("Kernel Name").str.extract(r"([A-Za-z0-9_]+?_(?:nn|kernel|nt|tn))").alias("Simple Kernel"),
        pl.col("Metric Name").str.extract(r"_(fadd|fmul|ffma)_").alias("Simple Metric"),
    )
    .group_by("Simple Kernel", "Simple Metric")
    .agg(pl.col("Metric Value").sum())
    .sort("Simple Kernel", "Simple Metric")
    .collect()
)
print(grouped.write_csv(), end="")
