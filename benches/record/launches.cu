// Launches empty kernels and prints the microseconds that a launch took.
//
//   launches KERNELS [THREADS [NODES]]
//
// With NODES, a graph of so many kernels is replayed until all have run.

#include <cuda_runtime.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

__global__ void empty() {}

static void check(cudaError_t error) {
    if (error != cudaSuccess) {
        fprintf(stderr, "%s\n", cudaGetErrorString(error));
        exit(1);
    }
}

static void one_by_one(long kernels) {
    cudaStream_t stream;
    check(cudaStreamCreate(&stream));
    for (long i = 0; i < kernels; i++) {
        empty<<<1, 32, 0, stream>>>();
        // The queue of a GPU is long: without this, launches wait for the GPU and not for the host.
        if (i % 1000 == 999) check(cudaStreamSynchronize(stream));
    }
    check(cudaStreamSynchronize(stream));
}

static void in_graphs(long kernels, long nodes) {
    cudaStream_t stream;
    cudaGraph_t graph;
    cudaGraphExec_t replay;
    check(cudaStreamCreate(&stream));
    check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    for (long i = 0; i < nodes; i++) empty<<<1, 32, 0, stream>>>();
    check(cudaStreamEndCapture(stream, &graph));
    check(cudaGraphInstantiate(&replay, graph, 0));
    for (long i = 0; i < kernels; i += nodes) {
        check(cudaGraphLaunch(replay, stream));
        check(cudaStreamSynchronize(stream));
    }
}

int main(int count, char** arguments) {
    long kernels = count > 1 ? atol(arguments[1]) : 100000;
    long threads = count > 2 ? atol(arguments[2]) : 1;
    long nodes = count > 3 ? atol(arguments[3]) : 0;
    check(cudaFree(nullptr));
    empty<<<1, 32>>>();
    check(cudaDeviceSynchronize());
    auto begin = std::chrono::steady_clock::now();
    std::vector<std::thread> all;
    for (long i = 0; i < threads; i++) {
        all.emplace_back([=] { nodes ? in_graphs(kernels / threads, nodes) : one_by_one(kernels / threads); });
    }
    for (auto& thread : all) thread.join();
    double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    printf("%.3f us a kernel\n", seconds * 1e6 / (kernels / threads * threads));
    return 0;
}
