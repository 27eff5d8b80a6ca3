// What becomes of sums: biases, activations, slopes, and the way to memory.
#include "tile/mma.cuh"
#include "tile/activation.cuh"

// Of two neighboring pieces of 8 columns this lane has columns 2t and 2t + 1. An exchange with the
// next lane gives it four columns of one, so that a row's 32 bytes are written together. `row`
// points to the first piece; `left` columns are left there.
__device__ __forceinline__ void store_row(Storage *row, u32 first, u32 second, int left, bool valid) {
    const int t = threadIdx.x & 3;
    const bool upper = t & 1;
    const u32 other = __shfl_xor_sync(~0u, upper ? first : second, 1);
    if (valid && left > (upper ? 8 : 0))
        *(uint2 *)(row + (upper ? 6 + 2 * t : 2 * t)) = upper ? make_uint2(other, second) : make_uint2(first, other);
}
