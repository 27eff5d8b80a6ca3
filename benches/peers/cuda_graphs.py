"""Median times of PyTorch calls on a GPU, launched one by one and in CUDA graphs, for the scripts beside this one."""

import torch


def median(times):
    times = sorted(times)
    return times[len(times) // 2]


def between_events(run, launches=50, warm_up=10):
    """Microseconds that events around a call say."""
    for _ in range(warm_up):
        run()
    torch.cuda.synchronize()
    pairs = [[torch.cuda.Event(enable_timing=True) for _ in range(2)] for _ in range(launches)]
    for start, end in pairs:
        start.record()
        run()
        end.record()
    torch.cuda.synchronize()
    return median(start.elapsed_time(end) * 1e3 for start, end in pairs)


_SIDE = []


def side_stream():
    """The stream of all captures: autograd runs a backward pass where its forward pass ran, so both must be on one."""
    if not _SIDE:
        _SIDE.append(torch.cuda.Stream())
    return _SIDE[0]


def captured(run, calls, launches=25):
    """Microseconds of a graph of so many calls."""
    side = side_stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            run()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=side):
        for _ in range(calls):
            run()
    return between_events(graph.replay, launches, 5)
