"""Times the square sigmoid network in PyTorch, beside `cargo run --release -p flopgap-mlp --example time`.

    python3 pytorch_mlp.py [N D M]...

Microseconds, for eager launches and for a CUDA graph, forward (without autograd) and forward with backward. Medians of event times; a
graph holds five networks and its time is divided by five. TF32 is off, PyTorch's default for products."""

import sys

import torch

REPETITIONS = 5


def median_us(run, launches, warm_up):
    for _ in range(warm_up):
        run()
    torch.cuda.synchronize()
    pairs = []
    for _ in range(launches):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        run()
        end.record()
        pairs.append((start, end))
    torch.cuda.synchronize()
    times = sorted(start.elapsed_time(end) * 1e3 for start, end in pairs)
    return times[len(times) // 2]


def graph_us(run):
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            run()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(REPETITIONS):
            run()
    return median_us(graph.replay, 50, 5) / REPETITIONS


def network(layers, width, samples):
    weights = [torch.randn(width, width, device="cuda", requires_grad=True) for _ in range(layers)]
    x = torch.randn(width, samples, device="cuda")

    def forward():
        h = x
        for weight in weights:
            h = torch.sigmoid(weight @ h)
        return h

    def both():
        for weight in weights:
            weight.grad = None
        forward().sum().backward()

    return forward, both


def main():
    sizes = [int(text) for text in sys.argv[1:]] or [2, 128, 16, 10, 1024, 128, 32, 2048, 256]
    torch.backends.cuda.matmul.allow_tf32 = False
    print(f"PyTorch {torch.__version__}, {torch.cuda.get_device_name()}")
    print(f"{'network':<22} {'eager':>10} {'graph':>10}   forward; {'eager':>10} {'graph':>10}   both, us")
    for n, d, m in zip(*[iter(sizes)] * 3):
        torch.manual_seed(0)
        forward, both = network(n, d, m)
        with torch.no_grad():
            eager, graph = median_us(forward, 100, 10), graph_us(forward)
        both_eager, both_graph = median_us(both, 30, 10), graph_us(both)
        name = f"N={n} D={d} M={m}"
        print(f"{name:<22} {eager:>10.2f} {graph:>10.2f}            {both_eager:>10.2f} {both_graph:>10.2f}", flush=True)


if __name__ == "__main__":
    main()
