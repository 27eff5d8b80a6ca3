"""GPU time of the kernels in a torch.profiler trace, with the json module: python3 kineto_json.py FILE"""

import gzip
import json
import sys

path = sys.argv[1]
with gzip.open(path, "rt", encoding="utf-8") if path.endswith(".gz") else open(path, encoding="utf-8") as file:
    events = json.load(file)["traceEvents"]
durations = [round(event["dur"] * 1000) for event in events if event.get("cat") == "kernel"]
print(f"{len(durations)} kernels, {sum(durations)} ns")
