// Matrix tiles in shared memory, and how warps share products of them.
#include "tile/ring.cuh"
#include "tile/mma.cuh"
#include "tile/epilogue.cuh"

constexpr int THREADS = WARPS * 32;

extern __shared__ __align__(16) unsigned char shared[];

__device__ constexpr int round_up(int n, int to) { return (n + to - 1) / to * to; }

// Elements from one row of a tile to the next: an odd number of 16-byte chunks, so that eight rows lie in different banks.
__device__ constexpr int pitch(int columns) { return round_up(columns, 16) + 8; }

// Copies `rows` rows of `columns` numbers, the first at `from`, `stride` numbers apart, into a tile `PITCH` wide whose columns are `PADDED`: zeros
// beyond `columns`, and in rows from `there` on.
template <int PADDED, int PITCH>
__device__ __forceinline__ void copy_part(u32 to, const Storage *from, int stride, int rows, int there, int columns) {
    constexpr int CHUNKS = PADDED / 8;
#pragma unroll 1
    for (int i = threadIdx.x; i < rows * CHUNKS; i += THREADS) {
        const int row = i / CHUNKS, column = i % CHUNKS * 8;
        const bool valid = row < there && column < columns;
        copy_async_or_zero(to + (row * PITCH + column) * 2, valid ? from + (u64)row * stride + column : from, valid);
    }
}

// The same where ROWS and STRIDE are known. A whole tile takes an instruction for every copy: the addresses differ by constants.
template <int ROWS, int PADDED, int PITCH, int STRIDE>
__device__ __forceinline__ void copy_tile(u32 to, const Storage *from, int there, int columns) {
    constexpr int CHUNKS = PADDED / 8, AT_ONCE = THREADS / CHUNKS;
    if constexpr (THREADS % CHUNKS == 0 && ROWS % AT_ONCE == 0) {
        if (there >= ROWS && columns >= PADDED) {
            const int row = threadIdx.x / CHUNKS, column = threadIdx.x % CHUNKS * 8;
            const Storage *source = from + row * STRIDE + column;
            const u32 target = to + (row * PITCH + column) * 2;
#pragma unroll
            for (int i = 0; i < ROWS; i += AT_ONCE) copy_async_or_zero(target + i * PITCH * 2, source + i * STRIDE, true);
            return;
        }
    }
    copy_part<PADDED, PITCH>(to, from, STRIDE, ROWS, there, columns);
}

// How many of the warps lie side by side along the columns of a product, the rest along its rows: so that least is read from shared memory.
__device__ constexpr int warps_along_columns(int rows, int columns) {
    int best = 0, least = 0;
    for (int along = 1; along <= WARPS; along *= 2) {
        if (rows % (16 * (WARPS / along)) != 0) continue;
        const int m = rows / (WARPS / along), n = round_up(columns, 16 * along) / along;
        const int cost = n * along * (m + n) * 1024 / (m * n);
        if (m * n <= 32 * 128 && (best == 0 || cost < least)) best = along, least = cost;
    }
    return best;
}
