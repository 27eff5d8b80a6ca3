// What a thread of a warpgroup has of 64 rows in registers, to and from row-major matrices in
// global memory, 16 bytes at a time. Of every 8 columns it has two, in its first row and in the row
// 8 further down: a word of two numbers for each, as first operands and sums have them
// (`tile/wgmma.cuh`).

struct Rows {
    u32 first, batch;
    int quarter;  // which two of the 8 columns

    // Of a warp's 16 rows, which begin at row `first` of `batch`.
    __device__ __forceinline__ static Rows of_warp(u32 first, u32 batch) {
        const int lane = threadIdx.x % 32;
        return Rows{first + lane / 4, batch, lane % 4};
    }
};

// Four threads with four words each exchange them: then each has its own quarter of every other's.
__device__ __forceinline__ uint4 transpose(u32 w0, u32 w1, u32 w2, u32 w3, int quarter) {
    const bool odd = quarter & 1, high = quarter & 2;
    u32 a = __shfl_xor_sync(~0u, odd ? w0 : w1, 1), b = __shfl_xor_sync(~0u, odd ? w2 : w3, 1);
    if (odd) w0 = a, w2 = b;
    else w1 = a, w3 = b;
    a = __shfl_xor_sync(~0u, high ? w0 : w2, 2), b = __shfl_xor_sync(~0u, high ? w1 : w3, 2);
    if (high) w0 = a, w1 = b;
    else w2 = a, w3 = b;
    return make_uint4(w0, w1, w2, w3);
}

// ---- To memory

__device__ __forceinline__ void store_unit(Storage *matrix, int stride, int column, u32 row, u32 batch, uint4 unit) {
    if (row < batch) *reinterpret_cast<uint4 *>(matrix + (u64)row * stride + column) = unit;
}

// Up to 32 columns, from `column` on: words of the first row and of the other alternate.
template <int COLUMNS>
__device__ __forceinline__ void store_columns(const u32 *words, Storage *matrix, int stride, int column, Rows rows) {
    const int q = rows.quarter;
    const auto store = [&](int column, u32 row, uint4 unit) {
        store_unit(matrix, stride, column, row, rows.batch, unit);
    };
    if constexpr (COLUMNS == 32) {
        store(column + 8 * q, rows.first, transpose(words[0], words[2], words[4], words[6], q));
        store(column + 8 * q, rows.first + 8, transpose(words[1], words[3], words[5], words[7], q));
    } else if constexpr (COLUMNS == 16) {
        const uint4 unit = transpose(words[0], words[2], words[1], words[3], q);
        store(column + 8 * (q & 1), rows.first + 8 * (q >> 1), unit);
    } else if constexpr (COLUMNS == 8) {
        const uint4 unit = transpose(words[0], words[1], 0, 0, q);
        if (q < 2) store(column, rows.first + 8 * q, unit);
    } else {
        store_columns<16>(words, matrix, stride, column, rows);
        store_columns<8>(words + 4, matrix, stride, column + 16, rows);
    }
}

// Of COLUMNS columns, which begin at `column` of the matrix, the 32 or fewer from `first` on.
template <int COLUMNS>
__device__ __forceinline__ void store_some(const u32 *words, Storage *matrix, int stride, int column, int first, Rows rows) {
    if (first + 32 <= COLUMNS) store_columns<32>(words, matrix, stride, column + first, rows);
    else if constexpr (COLUMNS % 32 != 0) store_columns<COLUMNS % 32>(words, matrix, stride, column + first, rows);
}

// ---- From memory

// Up to 32 columns as they were loaded, 16 bytes of a row, before they become words.
template <int COLUMNS>
struct Units {
    uint4 units[COLUMNS <= 16 ? 1 : 2];

    __device__ __forceinline__ static uint4 load(const Storage *matrix, int stride, int column, u32 row, u32 batch) {
        return row < batch ? __ldg(reinterpret_cast<const uint4 *>(matrix + (u64)row * stride + column)) : make_uint4(0, 0, 0, 0);
    }
    __device__ __forceinline__ void load(const Storage *matrix, int stride, int column, Rows rows) {
        const int q = rows.quarter;
        if constexpr (COLUMNS == 32) {
            units[0] = load(matrix, stride, column + 8 * q, rows.first, rows.batch);
            units[1] = load(matrix, stride, column + 8 * q, rows.first + 8, rows.batch);
        }
        if constexpr (COLUMNS == 16 || COLUMNS == 24)
            units[0] = load(matrix, stride, column + 8 * (q & 1), rows.first + 8 * (q >> 1), rows.batch);
        if constexpr (COLUMNS == 8 || COLUMNS == 24)
            units[COLUMNS / 16] = load(matrix, stride, column + COLUMNS / 16 * 16, q < 2 ? rows.first + 8 * q : ~0u, rows.batch);
    }
    __device__ __forceinline__ static uint4 turn(uint4 unit, int quarter) { return transpose(unit.x, unit.y, unit.z, unit.w, quarter); }
    __device__ __forceinline__ void words(u32 *to, int quarter) const {
        const uint4 a = turn(units[0], quarter);
        if constexpr (COLUMNS == 32) {
            const uint4 b = turn(units[1], quarter);
            to[0] = a.x, to[2] = a.y, to[4] = a.z, to[6] = a.w, to[1] = b.x, to[3] = b.y, to[5] = b.z, to[7] = b.w;
        }
        if constexpr (COLUMNS == 16 || COLUMNS == 24) to[0] = a.x, to[2] = a.y, to[1] = a.z, to[3] = a.w;
        if constexpr (COLUMNS == 8) to[0] = a.x, to[1] = a.y;
        if constexpr (COLUMNS == 24) {
            const uint4 b = turn(units[1], quarter);
            to[4] = b.x, to[5] = b.y;
        }
    }
};

// Any number of columns.
template <int COLUMNS>
struct Run {
    Units<32> whole[COLUMNS / 32 + 1];
    Units<COLUMNS % 32 == 0 ? 8 : COLUMNS % 32> rest;

    __device__ __forceinline__ void load(const Storage *matrix, int stride, int column, Rows rows) {
#pragma unroll
        for (int i = 0; i < COLUMNS / 32; ++i) whole[i].load(matrix, stride, column + 32 * i, rows);
        if constexpr (COLUMNS % 32 != 0) rest.load(matrix, stride, column + COLUMNS / 32 * 32, rows);
    }
    // Words of the 32 columns or fewer from `first` on.
    __device__ __forceinline__ void words(int first, u32 *to, int quarter) const {
        if (first + 32 <= COLUMNS) whole[first / 32].words(to, quarter);
        else rest.words(to, quarter);
    }
};
