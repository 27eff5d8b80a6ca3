"""What a count costs the steps after it: python3 count_overhead.py [--rounds 8]

Needs a GPU, PyTorch and the flopgap wheel. Each round is two fresh processes: one measures a launch and a training step, counts the step, and
measures them again; the other does the same without the count. Prints medians over the rounds in microseconds, and the ratio after / before of
each round. The second process is the control: its ratio is what the machine does by itself. The last lines are what counts of the large step
take, in seconds: the first of a process, a later one, and a later one within `with Counter()`."""
import argparse
import json
import statistics
import subprocess
import sys
import time


def measured(counts):
    import torch
    from torch import nn

    torch.manual_seed(0)
    model = nn.TransformerEncoderLayer(1024, 16, 4096, batch_first=True, dropout=0.0).cuda().bfloat16()
    x = torch.randn(8, 512, 1024, device="cuda", dtype=torch.bfloat16)
    small = nn.Sequential(*[part for _ in range(10) for part in (nn.Linear(256, 256), nn.Sigmoid())]).cuda()
    y = torch.randn(64, 256, device="cuda")
    tiny = torch.zeros(32, device="cuda")

    def large_step():
        model.zero_grad(set_to_none=True)
        model(x).float().square().mean().backward()

    def small_step():
        small.zero_grad(set_to_none=True)
        small(y).sum().backward()

    def microseconds(function, times, blocks=9):
        function()
        found = []
        for _ in range(blocks):
            torch.cuda.synchronize()
            begin = time.perf_counter()
            for _ in range(times):
                function()
            torch.cuda.synchronize()
            found.append((time.perf_counter() - begin) / times * 1e6)
        return statistics.median(found)

    def all_of_them():
        return [microseconds(lambda: tiny.add_(1), 2000), microseconds(small_step, 50), microseconds(large_step, 20)]

    all_of_them()
    found = {"before": all_of_them(), "seconds": {}}
    if counts:
        import flopgap

        def timed(what, count):
            begin = time.perf_counter()
            count()
            found["seconds"][what] = time.perf_counter() - begin

        timed("first", lambda: flopgap.Counter(theory=False).count(large_step))
        found["after"] = all_of_them()
        timed("later", lambda: flopgap.Counter(theory=False).count(large_step))
        with flopgap.Counter(theory=False) as counter:
            counter.count(large_step)
            timed("within", lambda: counter.count(large_step))
    else:
        found["after"] = all_of_them()
    return found


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--child", choices=("count", "control"))
    options = parser.parse_args()
    if options.child:
        print(json.dumps(measured(options.child == "count")))
        return
    found = {"count": [], "control": []}
    for _ in range(options.rounds):
        for kind, rows in found.items():
            done = subprocess.run([sys.executable, __file__, "--child", kind], capture_output=True, text=True, check=True)
            rows.append(json.loads(done.stdout.splitlines()[-1]))
    print(f"{'':<8} {'':<8} {'before':>9} {'after':>9}  after / before")
    for kind, rows in found.items():
        for index, what in enumerate(("launch", "small", "large")):
            before, after = ([row[when][index] for row in rows] for when in ("before", "after"))
            ratios = sorted(b / a for a, b in zip(before, after))
            print(
                f"{kind:<8} {what:<8} {statistics.median(before):>9.2f} {statistics.median(after):>9.2f}"
                f"  {statistics.median(ratios):.3f} ({ratios[0]:.3f} to {ratios[-1]:.3f})"
            )
    for what in ("first", "later", "within"):
        print(f"{what:<8} {statistics.median(row['seconds'][what] for row in found['count']):.3f} s")


if __name__ == "__main__":
    main()
