// Matrix tiles with padded rows in the shared memory of a block of WARPS warps, and how these share
// products of them.
#include "tile/ring.cuh"
#include "tile/mma.cuh"
#include "tile/epilogue.cuh"

constexpr int THREADS = WARPS * 32;

extern __shared__ __align__(16) unsigned char shared[];

__device__ constexpr int round_up(int n, int to) { return (n + to - 1) / to * to; }

// Elements from one row of a tile to the next: an odd number of 16-byte chunks, so that eight rows
// lie in different banks.
__device__ constexpr int pitch(int columns) { return round_up(columns, 16) + 8; }

// Copies `rows` rows of `columns` numbers, the first at `from`, `stride` numbers apart, into a tile
// `PITCH` wide whose columns are `PADDED`: zeros beyond `columns`, and in rows from `there` on.
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

// The same where ROWS and STRIDE are known. A whole tile takes an instruction for every copy: the
// addresses differ by constants.
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

// How many of the warps lie side by side along the columns of a product, the rest along its rows:
// so that least is read from shared memory.
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

// What a warp computes of a product of ROWS rows and COLUMNS columns, CHUNK_COLUMNS of which are
// summed at a time.
template <int ROWS, int COLUMNS, int CHUNK_COLUMNS_ = round_up(COLUMNS, 16)>
struct WarpShare {
    static constexpr int CHUNK_COLUMNS = CHUNK_COLUMNS_, ALONG = warps_along_columns(ROWS, CHUNK_COLUMNS);
    static constexpr int MT = ROWS / (WARPS / ALONG) / 16, NT = round_up(CHUNK_COLUMNS, 16 * ALONG) / ALONG / 8;
    static constexpr bool GUARDED = CHUNK_COLUMNS % (16 * ALONG) != 0 || COLUMNS % CHUNK_COLUMNS != 0;
    using Array = Sums[MT][NT];

    static __device__ __forceinline__ int row() { return (int)(threadIdx.x / 32) / ALONG * (16 * MT); }
    static __device__ __forceinline__ int column() { return (int)(threadIdx.x / 32) % ALONG * (8 * NT); }

    // The sums begin with the biases of the columns from `first_column` on.
    static __device__ __forceinline__ void begin_with(Array &sums, const Storage *biases, int first_column) {
#pragma unroll
        for (int j = 0; j < NT; ++j) {
            const int column = first_column + 8 * j + 2 * (threadIdx.x & 3);
            const u32 pair = !GUARDED || column < COLUMNS ? *(const u32 *)(biases + column) : 0;
#pragma unroll
            for (int i = 0; i < MT; ++i)
#pragma unroll
                for (int half = 0; half < 2; ++half) sums[i][j].set(half, widen_low(pair), widen_high(pair));
        }
    }

    // `write(row, column, one, two, half)` for every row of this lane and every two pieces of 8
    // columns below `end`, of which `column` is the first.
    template <class Write>
    static __device__ __forceinline__ void for_every_row(const Array &sums, int first_column, int end, Write write) {
        const int g = (threadIdx.x & 31) >> 2;
#pragma unroll
        for (int i = 0; i < MT; ++i)
#pragma unroll
            for (int half = 0; half < 2; ++half)
#pragma unroll
                for (int j = 0; j < NT; j += 2)
                    if (!GUARDED || first_column + 8 * j < end)
                        write(row() + 16 * i + 8 * half + g, first_column + 8 * j, sums[i][j], sums[i][j + 1], half);
    }
};
