"""FLOPs by kernel from a long ncu CSV, the way of the notebook: python3 ncu_pandas.py FILE"""
import sys

import pandas as pd

df = pd.read_csv(sys.argv[1], thousands=",")
df = df[df["Metric Value"] != 0].copy()
df["Simple Kernel"] = df["Kernel Name"].str.extract(r"([A-Za-z0-9_]+?_(?:nn|kernel|nt|tn))").iloc[:, 0]
df["Simple Metric"] = df["Metric Name"].str.extract(r"_(fadd|fmul|ffma)_").iloc[:, 0]
grouped = df.groupby(["Simple Kernel", "Simple Metric"], as_index=False)["Metric Value"].sum()
print(grouped.to_csv(index=False), end="")
