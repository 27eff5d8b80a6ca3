"""Times the square sigmoid network in PyTorch, beside `cargo run --release -p flopgap-square --example time`.

    python3 pytorch_mlp.py [N D M]...

Microseconds, for eager launches and for a CUDA graph, forward (without autograd) and forward with backward. Medians of event times; a
graph holds five networks and its time is divided by five. TF32 is off, PyTorch's default for products."""

import sys

import torch

from cuda_graphs import between_events, captured

REPETITIONS = 5


def graph_us(run):
    return captured(run, REPETITIONS, launches=50) / REPETITIONS


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
            eager, graph = between_events(forward, 100), graph_us(forward)
        both_eager, both_graph = between_events(both, 30), graph_us(both)
        name = f"N={n} D={d} M={m}"
        print(f"{name:<22} {eager:>10.2f} {graph:>10.2f}            {both_eager:>10.2f} {both_graph:>10.2f}", flush=True)


if __name__ == "__main__":
    main()
