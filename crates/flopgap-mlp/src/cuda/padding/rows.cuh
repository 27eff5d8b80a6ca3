// Rows of a caller, and wider ones of which they are every EVERY-th. The host gives the kernel's
// THREADS of a block (COPY_THREADS).
#include "tile/number.cuh"

// Zeros, where there is nothing to copy.
template <int NARROW, int WIDE, int EVERY = 1>
__device__ void pad_rows(const Storage *from, Storage *to, u32 rows) {
    const u64 count = (u64)rows * WIDE;
    for (u64 i = (u64)blockIdx.x * COPY_THREADS + threadIdx.x; i < count; i += (u64)gridDim.x * COPY_THREADS) {
        const u64 row = i / WIDE;
        const u32 column = (u32)(i % WIDE);
        to[row * EVERY * WIDE + column] = from && column < NARROW ? from[row * NARROW + column] : narrow(0.0f);
    }
}

template <int NARROW, int WIDE, int EVERY = 1>
__device__ void cut_rows(const Storage *from, Storage *to, u32 rows) {
    const u64 count = (u64)rows * NARROW;
    for (u64 i = (u64)blockIdx.x * COPY_THREADS + threadIdx.x; i < count; i += (u64)gridDim.x * COPY_THREADS) {
        const u64 row = i / NARROW;
        to[i] = from[row * EVERY * WIDE + (u32)(i % NARROW)];
    }
}
