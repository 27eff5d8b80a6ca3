// The operands of a block's product, slab by slab along the inner dimension: all slabs that fit are
// on their way at once.
#include "tile/padded.cuh"

// ---- What an operand's numbers are made of: nothing to make, a copy in the background; or of one
// or two matrices that lie alike.

struct Copied {
    static constexpr bool MADE = false, TWO = false;
    static __device__ __forceinline__ uint4 make(uint4 first, uint4) { return first; }
};

// Gradients before an activation, of the gradients after it and of what the slope follows from.
template <int ACTIVATION>
struct Deltas {
    static constexpr bool MADE = true, TWO = true;
    static __device__ __forceinline__ uint4 make(uint4 first, uint4 second) {
        Numbers d(first);
        const Numbers v(second);
#pragma unroll
        for (int i = 0; i < UNIT; ++i) d.value[i] *= slope_at_kept<ACTIVATION>(v.value[i]);
        return d.stored();
    }
};

// Outputs of an activation, where the tape has the sums before it.
template <int ACTIVATION>
struct Activated {
    static constexpr bool MADE = true, TWO = false;
    static __device__ __forceinline__ uint4 make(uint4 first, uint4) {
        Numbers a(first);
#pragma unroll
        for (int i = 0; i < UNIT; ++i) a.value[i] = activate<ACTIVATION>(a.value[i]);
        return a.stored();
    }
};

// Rows of `stride` numbers; beyond `rows` and `columns` there are zeros. `second` lies as `first`
// does.
struct Matrix {
    const Storage *first, *second;
    int stride, rows, columns;
};

// Brings `count` slabs into shared memory, `STAGE` bytes apart, from the one whose first row and
// column are given; the next begins `ROW_STEP` rows and `COLUMN_STEP` columns further.
template <class From, int ROWS, int COLUMNS, int PITCH, int STAGE, int ROW_STEP, int COLUMN_STEP>
__device__ __forceinline__ void fetch(u32 to, const Matrix &matrix, int row0, int column0, int count) {
    constexpr int PER_ROW = COLUMNS / UNIT, ALL = ROWS * PER_ROW, AT_ONCE = 4;
    static_assert(COLUMNS % UNIT == 0, "rows of 16 bytes");
    const auto place = [&](int index, u32 &target, u64 &at) {
        const int slab = index / ALL, row = index % ALL / PER_ROW, column = index % PER_ROW * UNIT;
        const int r = row0 + slab * ROW_STEP + row, c = column0 + slab * COLUMN_STEP + column;
        target = to + slab * STAGE + (row * PITCH + column) * (int)sizeof(Storage);
        const bool there = r < matrix.rows && c < matrix.columns;
        at = there ? (u64)r * matrix.stride + c : 0;
        return there;
    };
    if constexpr (!From::MADE) {
#pragma unroll 4
        for (int index = threadIdx.x; index < count * ALL; index += THREADS) {
            u32 target;
            u64 at;
            const bool there = place(index, target, at);
            copy_async_or_zero(target, matrix.first + at, there);
        }
    } else {
        // Several loads are under way before the first is used.
        for (int begin = threadIdx.x; begin < count * ALL; begin += AT_ONCE * THREADS) {
            uint4 first[AT_ONCE], second[AT_ONCE];
            u32 target[AT_ONCE];
            bool there[AT_ONCE];
#pragma unroll
            for (int i = 0; i < AT_ONCE; ++i) {
                u64 at;
                there[i] = place(begin + i * THREADS, target[i], at) && begin + i * THREADS < count * ALL;
                first[i] = second[i] = make_uint4(0, 0, 0, 0);
                if (there[i]) {
                    first[i] = *(const uint4 *)(matrix.first + at);
                    if (From::TWO) second[i] = *(const uint4 *)(matrix.second + at);
                }
            }
#pragma unroll
            for (int i = 0; i < AT_ONCE; ++i) {
                const uint4 made = there[i] ? From::make(first[i], second[i]) : make_uint4(0, 0, 0, 0);
                if (begin + i * THREADS < count * ALL)
                    store_shared(target[i], made);
            }
        }
    }
}
