// Blocks of a cluster, from sm_90 on: their barrier, and each other's shared memory.

// All threads of all blocks of the cluster, wherever their warps are.
__device__ __forceinline__ void cluster_sync() {
    asm volatile("barrier.cluster.arrive.release;\nbarrier.cluster.wait.acquire;" ::: "memory");
}

// The same for whole warps.
__device__ __forceinline__ void cluster_sync_warps() {
    asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
}

// Its two halves for whole warps. What was written before the arrival is not made visible.
__device__ __forceinline__ void cluster_arrive_relaxed() {
    asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
}
__device__ __forceinline__ void cluster_wait() {
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}

// The same shared memory in a block of the cluster.
__device__ __forceinline__ u32 in_block(u32 address, u32 block) {
    u32 there;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(address), "r"(block));
    return there;
}

__device__ __forceinline__ float load_from_block(u32 there) {
    float value;
    asm volatile("ld.shared::cluster.f32 %0, [%1];" : "=f"(value) : "r"(there) : "memory");
    return value;
}

// Arrives at the barrier in a block. Only reads came before, which have ended: nothing must be made
// visible, and a release to the cluster would wait for all stores.
__device__ __forceinline__ void barrier_arrive_at(u32 barrier, u32 block) {
    asm volatile(
        "{\n.reg .b32 there;\nmapa.shared::cluster.u32 there, %0, %1;\n"
        "mbarrier.arrive.shared::cluster.b64 _, [there];\n}" ::"r"(barrier), "r"(block)
        : "memory");
}

// The same in every block.
template <int CLUSTER>
__device__ __forceinline__ void leave_in_cluster(u32 barrier) {
#pragma unroll
    for (int block = 0; block < CLUSTER; ++block) barrier_arrive_at(barrier, block);
}

// Until the phase of this parity has completed, with what blocks of the cluster wrote for it.
__device__ __forceinline__ void barrier_wait_cluster(u32 barrier, u32 parity) {
    asm volatile(
        "{\n.reg .pred done;\nAGAIN:\n"
        "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 done, [%0], %1;\n@!done bra AGAIN;\n}" ::"r"(barrier),
        "r"(parity)
        : "memory");
}

// Words to the shared memory of a block, counted by a barrier there.
__device__ __forceinline__ void store_to_block(u32 there, uint4 v, u32 barrier) {
    asm volatile(
        "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [%0], {%1, %2, %3, %4}, [%5];" ::"r"(there),
        "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w), "r"(barrier)
        : "memory");
}
__device__ __forceinline__ void store_to_block(u32 there, uint2 v, u32 barrier) {
    asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v2.b32 [%0], {%1, %2}, [%3];" ::"r"(there),
                 "r"(v.x), "r"(v.y), "r"(barrier)
                 : "memory");
}
