"""A torch.profiler trace of any size: python3 kineto_repeat.py TRACE TIMES OUTPUT

The events of TRACE (.json, also .gz), so many times with later times and their own correlation ids, written as
`export_chrome_trace` writes them."""

import gzip
import json
import sys

source, times, target = sys.argv[1], int(sys.argv[2]), sys.argv[3]
with gzip.open(source, "rt") if source.endswith(".gz") else open(source) as file:
    trace = json.load(file)
events = trace.pop("traceEvents")
starts = [event["ts"] for event in events if event.get("ph") == "X"]
length = max(event["ts"] + event.get("dur", 0) for event in events if event.get("ph") == "X") - min(starts)
with open(target, "w") as file:
    file.write(json.dumps(trace)[:-1] + ',\n  "traceEvents": [')
    for round_ in range(times):
        lines = []
        for event in events:
            event = dict(event)
            event["ts"] = round(event["ts"] + round_ * (length + 100), 3)
            if "id" in event:
                event["id"] += round_ * 100000
            arguments = event.get("args")
            if arguments and "correlation" in arguments:
                event["args"] = arguments | {"correlation": arguments["correlation"] + round_ * 100000}
            lines.append(json.dumps(event, indent=2))
        file.write((",\n  " if round_ else "\n  ") + ",\n  ".join(lines))
    file.write("\n  ]\n}\n")
