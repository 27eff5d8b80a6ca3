// What the scalar kernels of matrix tiles share: copies of rows into shared memory, and products of
// two tiles, by registers.
#include "tile/activation.cuh"
#include "tile/ring.cuh"

// Whether copies run in the background, which takes numbers of 32 bits. Elsewhere they are done
// when the function returns.
constexpr bool BACKGROUND = ARCHITECTURE >= 800 && STORAGE == STORAGE_F32;

__device__ __forceinline__ void copy4(float *to, const Storage *from) {
    if constexpr (BACKGROUND) copy_async<16>(to, from);
    else load4(from, *reinterpret_cast<float4 *>(to));
}

// Copies COUNT numbers of each of ROWS rows, STRIDE apart, to rows PITCH apart. Rows from `rows` on
// and numbers from `count` on are left out where CHECKED; both limits are whole fours of numbers.
template <int ROWS, int COUNT, int STRIDE, int PITCH, int THREADS_, bool CHECKED>
__device__ __forceinline__ void copy_rows(float *to, const Storage *from, int rows, int count) {
    static_assert(COUNT % 4 == 0 && PITCH % 4 == 0, "16 bytes at a time");
    constexpr int FOURS = COUNT / 4, PIECES = ROWS * FOURS;
    if constexpr (THREADS_ % FOURS == 0) {
        // All addresses are constants away from the first.
        constexpr int STEP = THREADS_ / FOURS;
        const int row = threadIdx.x / FOURS, number = threadIdx.x % FOURS * 4;
        float *const first = to + row * PITCH + number;
        const Storage *const source = from + (u64)row * STRIDE + number;
#pragma unroll
        for (int i = 0; i < (ROWS + STEP - 1) / STEP; ++i)
            if ((ROWS % STEP == 0 || row + i * STEP < ROWS) && (!CHECKED || (row + i * STEP < rows && number < count)))
                copy4(first + i * STEP * PITCH, source + (u64)i * STEP * STRIDE);
    } else {
#pragma unroll 4
        for (int piece = threadIdx.x; piece < PIECES; piece += THREADS_) {
            const int row = piece / FOURS, number = piece % FOURS * 4;
            if (!CHECKED || (row < rows && number < count)) copy4(to + row * PITCH + number, from + (u64)row * STRIDE + number);
        }
    }
}

// acc[i][j] += sum over TERMS of a[i][term] * b[j][term]: both factors lie as rows of terms, the
// thread's rows A_STEP and B_STEP floats apart.
template <int TERMS, int ROWS, int COLUMNS, int A_STEP, int B_STEP>
__device__ __forceinline__ void multiply_rows(const float *a, const float *b, float (&acc)[ROWS][COLUMNS]) {
#pragma unroll
    for (int term = 0; term < TERMS; term += 4) {
        float rows[4][ROWS], columns[4][COLUMNS];
#pragma unroll
        for (int j = 0; j < COLUMNS; ++j) {
            const float4 v = *reinterpret_cast<const float4 *>(b + j * B_STEP + term);
            columns[0][j] = v.x, columns[1][j] = v.y, columns[2][j] = v.z, columns[3][j] = v.w;
        }
#pragma unroll
        for (int i = 0; i < ROWS; ++i) {
            const float4 v = *reinterpret_cast<const float4 *>(a + i * A_STEP + term);
            rows[0][i] = v.x, rows[1][i] = v.y, rows[2][i] = v.z, rows[3][i] = v.w;
        }
#pragma unroll
        for (int t = 0; t < 4; ++t)
#pragma unroll
            for (int i = 0; i < ROWS; ++i)
#pragma unroll
                for (int j = 0; j < COLUMNS; ++j) acc[i][j] = fmaf(rows[t][i], columns[t][j], acc[i][j]);
    }
}

// acc[i][j] += sum over TERMS of a[i][term] * b[term][j]: `a` lies as rows of terms, `b` as rows of
// columns, of which a thread has fours, B_FOURS floats apart.
template <int TERMS, int ROWS, int COLUMNS, int A_STEP, int B_PITCH, int B_FOURS>
__device__ __forceinline__ void multiply_columns(const float *a, const float *b, float (&acc)[ROWS][COLUMNS]) {
#pragma unroll
    for (int term = 0; term < TERMS; term += 4) {
        float rows[4][ROWS];
#pragma unroll
        for (int i = 0; i < ROWS; ++i) {
            const float4 v = *reinterpret_cast<const float4 *>(a + i * A_STEP + term);
            rows[0][i] = v.x, rows[1][i] = v.y, rows[2][i] = v.z, rows[3][i] = v.w;
        }
#pragma unroll
        for (int t = 0; t < 4; ++t) {
            float columns[COLUMNS];
#pragma unroll
            for (int j = 0; j < COLUMNS; j += 4) {
                const float4 v = *reinterpret_cast<const float4 *>(b + (term + t) * B_PITCH + j / 4 * B_FOURS);
                columns[j] = v.x, columns[j + 1] = v.y, columns[j + 2] = v.z, columns[j + 3] = v.w;
            }
#pragma unroll
            for (int i = 0; i < ROWS; ++i)
#pragma unroll
                for (int j = 0; j < COLUMNS; ++j) acc[i][j] = fmaf(rows[t][i], columns[j], acc[i][j]);
        }
    }
}

// sums += the product of a row and a column. Back and forth, so that of two multiply-adds in a row
// one factor is the same: the register file reads two numbers a cycle, from different banks, and
// the third comes from the cache of operands.
template <int ROWS, int COLUMNS>
__device__ __forceinline__ void multiply(const float (&a)[ROWS], const float (&b)[COLUMNS], float (&sums)[ROWS][COLUMNS]) {
#pragma unroll
    for (int i = 0; i < ROWS; ++i)
#pragma unroll
        for (int c = 0; c < COLUMNS; ++c) {
            const int j = i % 2 == 0 ? c : COLUMNS - 1 - c;
            sums[i][j] = fmaf(a[i], b[j], sums[i][j]);
        }
}
