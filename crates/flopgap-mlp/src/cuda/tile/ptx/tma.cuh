// The copy engine (TMA): boxes of a matrix between global and shared memory, from sm_90 on.

struct __align__(128) TensorMap {
    u64 words[16];
};

// A box of the map, from this column and row on, to shared memory; zeros beyond the matrix. The
// barrier counts its bytes.
__device__ __forceinline__ void tma_load(u32 to, const TensorMap &map, int column, int row, u32 barrier) {
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes "
        "[%0], [%1, {%2, %3}], [%4];" ::"r"(to),
        "l"((u64)&map), "r"(column), "r"(row), "r"(barrier)
        : "memory");
}

// The same to the same place in every block of the cluster whose bit is set, each with its own
// barrier.
__device__ __forceinline__ void tma_multicast(u32 to, const TensorMap &map, int column, int row,
                                              u32 barrier, u16 blocks) {
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster "
        "[%0], [%1, {%2, %3}], [%4], %5;" ::"r"(to),
        "l"((u64)&map), "r"(column), "r"(row), "r"(barrier), "h"(blocks)
        : "memory");
}

// A box from shared memory to the map; what lies beyond the matrix is left out.
__device__ __forceinline__ void tma_store(const TensorMap &map, int column, int row, u32 from) {
    asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%1, %2}], [%3];" ::"l"((u64)&map),
                 "r"(column), "r"(row), "r"(from)
                 : "memory");
}

// The stores of this thread since the last commit become a group.
__device__ __forceinline__ void tma_commit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }

// Until at most PENDING groups still read shared memory.
template <int PENDING>
__device__ __forceinline__ void tma_wait_read() {
    asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(PENDING) : "memory");
}

// Bytes from shared memory to that of a block of the cluster, counted by a barrier there.
__device__ __forceinline__ void bulk_copy_to_block(u32 to, u32 from, u32 bytes, u32 barrier) {
    asm volatile(
        "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
        "r"(from), "r"(bytes), "r"(barrier)
        : "memory");
}

// What this thread wrote to shared memory becomes visible to the copy engine and the tensor cores.
__device__ __forceinline__ void fence_async() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
