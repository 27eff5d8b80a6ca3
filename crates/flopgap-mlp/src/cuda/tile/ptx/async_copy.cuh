// Copies from global to shared memory in the background (cp.async). Before sm_80 there are none:
// data goes through registers at once, and there is nothing to wait for.
#include "tile/ptx/memory.cuh"

template <int BYTES>
__device__ __forceinline__ void copy_async(void *to, const void *from) {
    static_assert(BYTES == 4 || BYTES == 8 || BYTES == 16, "what there are copies of");
#if ARCHITECTURE >= 800
    if constexpr (BYTES == 16)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_address(to)), "l"(from) : "memory");
    else
        asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(shared_address(to)), "l"(from), "n"(BYTES)
                     : "memory");
#else
    if constexpr (BYTES == 16) *(uint4 *)to = *(const uint4 *)from;
    if constexpr (BYTES == 8) *(uint2 *)to = *(const uint2 *)from;
    if constexpr (BYTES == 4) *(u32 *)to = *(const u32 *)from;
#endif
}

// 16 bytes, or zeros where there is nothing to copy; `from` must be an address all the same.
__device__ __forceinline__ void copy_async_or_zero(u32 to, const void *from, bool valid) {
#if ARCHITECTURE >= 800
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(valid ? 16 : 0)
                 : "memory");
#else
    const uint4 value = valid ? *(const uint4 *)from : make_uint4(0, 0, 0, 0);
    store_shared(to, value);
#endif
}

// The copies of this thread since the last commit become a group.
__device__ __forceinline__ void commit_copies() {
#if ARCHITECTURE >= 800
    asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

// Until at most PENDING groups of this thread are under way.
template <int PENDING>
__device__ __forceinline__ void wait_copies() {
#if ARCHITECTURE >= 800
    asm volatile("cp.async.wait_group %0;" ::"n"(PENDING) : "memory");
#endif
}
