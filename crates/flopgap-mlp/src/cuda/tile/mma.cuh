// Fragments: what the lanes of a warp hold of a product on `mma.sync`, and of its operands.
#include "tile/number.cuh"
#include "tile/ptx/ldmatrix.cuh"
#include "tile/ptx/mma.cuh"

// Sums of 16 rows and 8 columns: rows g and g + 8, columns 2t and 2t + 1 of lane 4g + t.
struct Sums32 {
    float value[4];
    __device__ __forceinline__ void set(int row, float low, float high) { value[2 * row] = low, value[2 * row + 1] = high; }
    __device__ __forceinline__ float low(int row) const { return value[2 * row]; }
    __device__ __forceinline__ float high(int row) const { return value[2 * row + 1]; }
};

__device__ __forceinline__ void multiply(Sums32 &c, const u32 (&a)[4], u32 b0, u32 b1) {
    mma_k16(c.value[0], c.value[1], c.value[2], c.value[3], a[0], a[1], a[2], a[3], b0, b1);
}

#if ACCUMULATE_F16
// The same sums in half precision, two to a register.
struct Sums16 {
    u32 pair[2];
    __device__ __forceinline__ void set(int row, float low, float high) { pair[row] = narrow2(low, high); }
    __device__ __forceinline__ float low(int row) const { return widen_low(pair[row]); }
    __device__ __forceinline__ float high(int row) const { return widen_high(pair[row]); }
};

__device__ __forceinline__ void multiply(Sums16 &c, const u32 (&a)[4], u32 b0, u32 b1) {
    mma_k16(c.pair[0], c.pair[1], a[0], a[1], a[2], a[3], b0, b1);
}
typedef Sums16 Sums;
#else
typedef Sums32 Sums;
#endif

template <class S, int COUNT>
__device__ __forceinline__ void clear(S (&sums)[COUNT]) {
#pragma unroll
    for (int i = 0; i < COUNT; ++i) sums[i].set(0, 0, 0), sums[i].set(1, 0, 0);
}
template <class S, int MT, int NT>
__device__ __forceinline__ void clear(S (&sums)[MT][NT]) {
#pragma unroll
    for (int i = 0; i < MT; ++i) clear(sums[i]);
}

template <bool TRANSPOSED>
__device__ __forceinline__ void load_fragment(u32 (&words)[4], u32 address) {
    if constexpr (TRANSPOSED) load_transposed(words, address);
    else load_matrices(words, address);
}

// What this lane adds to the address of a tile to load 16 x 16 of it. `ROWS_FIRST`: the second
// eight lanes take the next eight rows, as the left operand by rows and the right operand by
// columns are loaded; otherwise they take the next eight columns.
template <bool ROWS_FIRST>
__device__ __forceinline__ u32 lane_offset(int pitch_bytes) {
    const int lane = threadIdx.x & 31;
    return ROWS_FIRST ? (lane & 15) * pitch_bytes + (lane >> 4) * 16 : ((lane & 7) + (lane >> 4) * 8) * pitch_bytes + (lane >> 3 & 1) * 16;
}

// What a warp multiplies in one step of 16 along the inner dimension: 16 MT rows and 8 NT columns.
// The left operand lies by rows ([m][k]), transposed by columns ([k][m]); the right operand as
// weights do ([n][k]), transposed by rows ([k][n]). The addresses include `lane_offset`. `GUARDED`:
// only the first `pieces` times 16 columns are there.
template <int MT, int NT>
struct Fragments {
    u32 a[MT][4], b[NT / 2][4];

    template <bool LEFT_TRANSPOSED, bool RIGHT_TRANSPOSED, int LEFT_PITCH, int RIGHT_PITCH, bool GUARDED>
    __device__ __forceinline__ void load(u32 left, u32 right, int pieces) {
#pragma unroll
        for (int i = 0; i < MT; ++i) load_fragment<LEFT_TRANSPOSED>(a[i], left + (LEFT_TRANSPOSED ? i * 32 : i * 16 * LEFT_PITCH * 2));
#pragma unroll
        for (int j = 0; j < NT / 2; ++j)
            if (!GUARDED || j < pieces) load_fragment<RIGHT_TRANSPOSED>(b[j], right + (RIGHT_TRANSPOSED ? j * 32 : j * 16 * RIGHT_PITCH * 2));
    }

    template <bool GUARDED, class S>
    __device__ __forceinline__ void add_product(S (&sums)[MT][NT], int pieces) const {
#pragma unroll
        for (int j = 0; j < NT / 2; ++j)
            if (!GUARDED || j < pieces)
#pragma unroll
                for (int i = 0; i < MT; ++i) {
                    multiply(sums[i][2 * j], a[i], b[j][0], b[j][1]);
                    multiply(sums[i][2 * j + 1], a[i], b[j][2], b[j][3]);
                }
    }
};

// STEPS steps along the inner dimension; the operands of the next are loaded while one's are
// multiplied: `load(fragments, k)`, then `add(fragments)`.
template <int MT, int NT, int STEPS, int UNROLL = STEPS, class Load, class Add>
__device__ __forceinline__ void in_steps(Load load, Add add) {
    Fragments<MT, NT> fragments[2];
    load(fragments[0], 0);
#pragma unroll UNROLL
    for (int k = 0; k < STEPS; ++k) {
        if (k + 1 < STEPS) load(fragments[(k + 1) & 1], k + 1);
        add(fragments[k & 1]);
    }
}
