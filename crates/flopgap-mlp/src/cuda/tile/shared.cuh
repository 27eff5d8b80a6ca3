// Matrices in shared memory as TMA writes them and wgmma reads them: chunks of 64 columns one after
// the other, each with a row of 128 bytes for every row of the matrix. The 16-byte units of a row
// are permuted by the row's number modulo 8 (the swizzle of 128 bytes), so that nobody meets a bank
// conflict. A chunk begins at a multiple of 1,024 bytes. What it has beyond the last column is
// zero.
#include "tile/number.cuh"
#include "tile/ptx/ldmatrix.cuh"

constexpr int CHUNK = 64;
constexpr int ROW_BYTES = 128;

__device__ constexpr int chunks_of(int columns) { return (columns + CHUNK - 1) / CHUNK; }

// Where a unit of 8 columns lies in a chunk.
__device__ __forceinline__ int unit_at(int row, int unit) { return row * ROW_BYTES + ((unit ^ row % 8) << 4); }

// Where this lane's unit lies in 16 rows of a chunk, for matrices of 16 x 16 that a warp loads or
// stores (`load_matrices`, `store_matrices`): 8 columns of row `lane % 16`, the second 8 from lane
// 16 on.
__device__ __forceinline__ u32 lane_unit() {
    const u32 lane = threadIdx.x % 32;
    return lane % 16 * ROW_BYTES + ((lane / 16 ^ lane % 8) << 4);
}
// The same `step` times 16 columns further on, within the chunk.
__device__ __forceinline__ u32 at_step(u32 unit, int step) { return unit ^ step << 5; }

// A warp's 16 rows by 64 columns of words (`tile/fragment.cuh`) to rows of a chunk, which begin at
// `rows`.
__device__ __forceinline__ void store_rows(u32 rows, const u32 (&words)[16]) {
    const u32 at = rows + lane_unit();
#pragma unroll
    for (int step = 0; step < 4; ++step)
        store_matrices(at_step(at, step), *reinterpret_cast<const u32(*)[4]>(words + 4 * step));
}

// ROWS rows of a matrix in global memory, `columns` from its first on, and zeros beyond its rows
// and columns; by THREADS threads.
template <int THREADS, int ROWS, int CHUNKS, int UNROLL>
__device__ __forceinline__ void place_matrix(char *to, const Storage *from, int rows, int columns, int stride) {
#pragma unroll UNROLL
    for (int i = threadIdx.x; i < ROWS * CHUNKS * 8; i += THREADS) {
        const int row = i / (CHUNKS * 8), unit = i % (CHUNKS * 8);
        uint4 found = make_uint4(0, 0, 0, 0);
        if (8 * unit < columns && row < rows)
            found = __ldg(reinterpret_cast<const uint4 *>(from + row * stride + 8 * unit));
        *reinterpret_cast<uint4 *>(to + unit / 8 * (ROWS * ROW_BYTES) + unit_at(row, unit % 8)) = found;
    }
}

// An operand of ones, 16 x 8, whose product with a matrix is the sums of its rows; by 256 threads.
constexpr int ONES_BYTES = 1024;
__device__ __forceinline__ void place_ones(char *to) {
    if (threadIdx.x < ONES_BYTES / 4) reinterpret_cast<u32 *>(to)[threadIdx.x] = narrow2(1.0f, 1.0f);
}
