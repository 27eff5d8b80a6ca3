// Blocks of a cluster hand on hidden layers: every block's slice goes into the shared memory of all, where barriers count the bytes that have come, so that
// nobody waits for more than it takes. With one block to a cluster the block's own barrier does.
#include "tile/padded.cuh"

// Barriers for the hidden layers, each used once, in units of 16 bytes.
constexpr int ARRIVALS = round_up(LAYERS - 1, 2) / 2;

// Before anything else: SAMPLES samples of every hidden layer are to come, and the others may know that this block has begun.
__device__ __forceinline__ void begin_cluster(u64 *arrivals) {
#if ARCHITECTURE >= 900
    if constexpr (CLUSTER > 1) {
        if (threadIdx.x == 0) {
#pragma unroll
            for (int layer = 0; layer + 1 < LAYERS; ++layer)
                asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared_address(arrivals + layer)) : "memory");
            asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
        }
        // Not needed by this thread alone, but racecheck warns without it; the kernel before is still running.
        __syncthreads();
        if (threadIdx.x == 0) {
#pragma unroll
            for (int layer = 0; layer + 1 < LAYERS; ++layer) {
                const u32 at = shared_address(arrivals + layer), bytes = SAMPLES * width(layer + 1) * (int)sizeof(Storage);
                asm volatile("{\n.reg .b64 state;\nmbarrier.arrive.expect_tx.shared::cta.b64 state, [%0], %1;\n}" ::"r"(at), "r"(bytes) : "memory");
            }
        }
        asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
    }
#endif
}

// The next kernel may get its places while this one runs: called when the first weights are under way (with large clusters, those of the second layer, too),
// before which it would only be in their way. The backward pass, which follows where there is a tape, may not where clusters are large: they have most
// multiprocessors, and all of its blocks would go to the few that are free.
__device__ __forceinline__ void let_next_begin(const void *tape) {
    if (CLUSTER <= 4 || !tape) let_next_kernel_begin();
}

// Before the first `send`: another block's shared memory is there once it has begun.
__device__ __forceinline__ void wait_for_cluster() {
#if ARCHITECTURE >= 900
    if constexpr (CLUSTER > 1) asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
#endif
}

// Two or four words of the hidden layer after LAYER, to the same place in every block.
template <int LAYER, class Words>
__device__ __forceinline__ void send(Words *to, Words v, u64 *arrivals) {
    static_assert(sizeof(Words) == 8 || sizeof(Words) == 16, "two or four words");
#if ARCHITECTURE >= 900
    if constexpr (CLUSTER > 1) {
#pragma unroll
        for (int block = 0; block < CLUSTER; ++block) {
            u32 remote, arrival;
            asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(remote) : "r"(shared_address(to)), "r"(block));
            asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(arrival) : "r"(shared_address(arrivals + LAYER)), "r"(block));
            if constexpr (sizeof(Words) == 16)
                asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [%0], {%1, %2, %3, %4}, [%5];" ::"r"(remote), "r"(v.x),
                             "r"(v.y), "r"(v.z), "r"(v.w), "r"(arrival)
                             : "memory");
            else
                asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v2.b32 [%0], {%1, %2}, [%3];" ::"r"(remote), "r"(v.x), "r"(v.y),
                             "r"(arrival)
                             : "memory");
        }
        return;
    }
#endif
    *to = v;
}

// All of the hidden layer after LAYER has come, and all threads of the block are done with its sums. They stand at the barrier while the others' words are
// still on their way.
template <int LAYER>
__device__ __forceinline__ void wait_sent(u64 *arrivals) {
#if ARCHITECTURE >= 900
    if constexpr (CLUSTER > 1) {
        __syncthreads();
        asm volatile("{\n.reg .pred done;\nAGAIN:\nmbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 done, [%0], 0;\n@!done bra AGAIN;\n}" ::"r"(
                         shared_address(arrivals + LAYER))
                     : "memory");
        return;
    }
#endif
    __syncthreads();
}
