"""FLOPs of aten::mm in a torch.profiler trace, with the json module: python3 kineto_json.py FILE"""
import json
import sys

with open(sys.argv[1], encoding="utf-8") as file:
    events = json.load(file)["traceEvents"]
flops = 0
for event in events:
    if event.get("name") == "aten::mm" and event.get("cat") == "cpu_op":
        (m, k), (_, n) = event["args"]["Input Dims"][:2]
        flops += 2 * m * k * n
print(flops)
