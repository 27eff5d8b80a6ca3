// Loads and stores that CUDA C has no words for.
#include "tile/ptx/convert.cuh"

// Where a variable lies in shared memory: what instructions of that memory take.
__device__ __forceinline__ u32 shared_address(const void *p) { return (u32)__cvta_generic_to_shared(p); }

__device__ __forceinline__ u32 load_shared(u32 address) {
    u32 word;
    asm volatile("ld.shared.u32 %0, [%1];" : "=r"(word) : "r"(address) : "memory");
    return word;
}

__device__ __forceinline__ void store_shared(u32 address, u32 word) {
    asm volatile("st.shared.u32 [%0], %1;" ::"r"(address), "r"(word) : "memory");
}

__device__ __forceinline__ void store_shared(u32 address, uint4 words) {
    asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(words.x), "r"(words.y),
                 "r"(words.z), "r"(words.w)
                 : "memory");
}

// 16 bytes that nobody writes meanwhile and that are read once: they need not displace what is read
// again.
__device__ __forceinline__ uint4 load_once(const uint4 *from) {
    uint4 words;
    asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(words.x), "=r"(words.y), "=r"(words.z), "=r"(words.w)
                 : "l"(from));
    return words;
}

// The line of this address on its way to the second-level cache.
__device__ __forceinline__ void prefetch_to_l2(const void *from) {
    asm volatile("prefetch.global.L2 [%0];" ::"l"(from));
}

// threadIdx.x, read where it is used: addresses that follow from it are not kept in registers
// meanwhile.
__device__ __forceinline__ int own_thread() {
    int thread;
    asm volatile("mov.u32 %0, %%tid.x;" : "=r"(thread));
    return thread;
}
