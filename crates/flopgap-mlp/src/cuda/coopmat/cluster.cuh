// Blocks of a cluster hand on hidden layers: every block's slice goes into the shared memory of
// all, where barriers count the bytes that have come, so that nobody waits for more than it takes.
// With one block to a cluster, as before sm_90, the block's own barrier does.
#include "tile/padded.cuh"
#include "tile/ptx/barrier.cuh"
#include "tile/ptx/cluster.cuh"

// Barriers for the hidden layers, each used once, in units of 16 bytes.
constexpr int ARRIVALS = round_up(LAYERS - 1, 2) / 2;

// Before anything else: SAMPLES samples of every hidden layer are to come, and the others may know
// that this block has begun.
__device__ __forceinline__ void begin_cluster(u64 *arrivals) {
    if constexpr (CLUSTER > 1) {
        if (threadIdx.x == 0) {
#pragma unroll
            for (int layer = 0; layer + 1 < LAYERS; ++layer) barrier_init(shared_address(arrivals + layer), 1);
            fence_barrier_init();
        }
        // Not needed by this thread alone, but racecheck warns without it; the kernel before is
        // still running.
        __syncthreads();
        if (threadIdx.x == 0) {
#pragma unroll
            for (int layer = 0; layer + 1 < LAYERS; ++layer)
                barrier_expect(shared_address(arrivals + layer), SAMPLES * width(layer + 1) * (int)sizeof(Storage));
        }
        cluster_arrive_relaxed();
    }
}

// The next kernel may get its places while this one runs: called when the first weights are under
// way (with large clusters, those of the second layer, too), before which it would only be in their
// way. The backward pass, which follows where there is a tape, may not where clusters are large:
// they have most multiprocessors, and all of its blocks would go to the few that are free.
__device__ __forceinline__ void let_next_begin(const void *tape) {
    if (CLUSTER <= 4 || !tape) let_next_kernel_begin();
}

// Before the first `send`: another block's shared memory is there once it has begun.
__device__ __forceinline__ void wait_for_cluster() {
    if constexpr (CLUSTER > 1) cluster_wait();
}

// Two or four words of the hidden layer after LAYER, to the same place in every block.
template <int LAYER, class Words>
__device__ __forceinline__ void send(Words *to, Words v, u64 *arrivals) {
    if constexpr (CLUSTER > 1) {
#pragma unroll
        for (int block = 0; block < CLUSTER; ++block) {
            const u32 there = in_block(shared_address(to), block);
            store_to_block(there, v, in_block(shared_address(arrivals + LAYER), block));
        }
    } else *to = v;
}

// All of the hidden layer after LAYER has come, and all threads of the block are done with its
// sums. They stand at the barrier while the others' words are still on their way.
template <int LAYER>
__device__ __forceinline__ void wait_sent(u64 *arrivals) {
    __syncthreads();
    if constexpr (CLUSTER > 1) barrier_wait_cluster(shared_address(arrivals + LAYER), 0);
}
