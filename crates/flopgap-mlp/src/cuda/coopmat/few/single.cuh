// A block's product of M x N numbers in 32 bits by scalar multiply-adds, as `half.cuh` has it
// in 16. A thread has WARP_M / 4 x WARP_N / 8 of its warp's.
#include "tile/padded.cuh"

template <int M_, int N_, int WARP_M, int WARP_N, bool LEFT_ALONG, bool RIGHT_ALONG>
struct Product {
    static constexpr int M = M_, N = N_, DOWN = M / WARP_M, ACROSS = N / WARP_N, GROUPS = WARPS / (DOWN * ACROSS);
    static constexpr int SLAB = GROUPS > 4 ? 8 * GROUPS : 32, SHARE = SLAB / GROUPS, ROWS = WARP_M / 4, COLUMNS = WARP_N / 8;
    // Rows that lie along the inner dimension are an odd multiple of 16 bytes apart: what a warp
    // reads at once lies in different banks.
    static constexpr int LEFT_ROWS = LEFT_ALONG ? M : SLAB, LEFT_COLUMNS = LEFT_ALONG ? SLAB : M, LEFT_PITCH = LEFT_ALONG ? SLAB + 4 : M;
    static constexpr int RIGHT_ROWS = RIGHT_ALONG ? N : SLAB, RIGHT_COLUMNS = RIGHT_ALONG ? SLAB : N, RIGHT_PITCH = RIGHT_ALONG ? SLAB + 4 : N;
    static constexpr int RIGHT_AT = LEFT_ROWS * LEFT_PITCH * 4, STAGE = RIGHT_AT + RIGHT_ROWS * RIGHT_PITCH * 4;
    static constexpr int PARTIAL_PITCH = N + 8, BIAS_PARTS = WARPS, BIASES_AT = GROUPS * M * PARTIAL_PITCH;
    static_assert(GROUPS * DOWN * ACROSS == WARPS && SHARE % 4 == 0 && ROWS % 4 == 0 && COLUMNS % 4 == 0 && M % 32 == 0, "the warps cover the product");

    float sums[ROWS][COLUMNS], biases[M / 32];

    static __device__ __forceinline__ int warp_row() { return (int)(threadIdx.x / 32) % DOWN * WARP_M; }
    static __device__ __forceinline__ int warp_column() { return (int)(threadIdx.x / 32) / DOWN % ACROSS * WARP_N; }
    static __device__ __forceinline__ int group() { return (int)(threadIdx.x / 32) / (DOWN * ACROSS); }
    // A thread's rows and columns: along the inner dimension every so-manieth, across it in fours.
    static __device__ __forceinline__ int row(int i) {
        const int lane = (threadIdx.x & 31) >> 3;
        return warp_row() + (LEFT_ALONG ? lane + 4 * i : 4 * lane + 16 * (i / 4) + i % 4);
    }
    static __device__ __forceinline__ int column(int j) {
        const int lane = threadIdx.x & 7;
        return warp_column() + (RIGHT_ALONG ? lane + 8 * j : 4 * lane + 32 * (j / 4) + j % 4);
    }

    __device__ __forceinline__ void clear() {
#pragma unroll
        for (int i = 0; i < ROWS; ++i)
#pragma unroll
            for (int j = 0; j < COLUMNS; ++j) sums[i][j] = 0.0f;
#pragma unroll
        for (int i = 0; i < M / 32; ++i) biases[i] = 0.0f;
    }

    // Four terms of COUNT rows, ALONG the inner dimension or across it.
    template <int COUNT, bool ALONG, int PITCH, int STEP>
    static __device__ __forceinline__ void load(float (&to)[4][COUNT], const float *from) {
        if constexpr (ALONG) {
#pragma unroll
            for (int i = 0; i < COUNT; ++i) {
                const float4 v = *(const float4 *)(from + i * STEP * PITCH);
                to[0][i] = v.x, to[1][i] = v.y, to[2][i] = v.z, to[3][i] = v.w;
            }
        } else {
#pragma unroll
            for (int k = 0; k < 4; ++k)
#pragma unroll
                for (int i = 0; i < COUNT; i += 4) {
                    const float4 v = *(const float4 *)(from + k * PITCH + i * STEP);
                    to[k][i] = v.x, to[k][i + 1] = v.y, to[k][i + 2] = v.z, to[k][i + 3] = v.w;
                }
        }
    }

    // Adds the product of a slab; if asked also the sums of the left operand's columns, a warp
    // every so-manieth row.
    __device__ __forceinline__ void add(u32 stage, bool with_biases) {
        const float *tile = (const float *)(shared + (stage - shared_address(shared)));
        const float *left = tile + (LEFT_ALONG ? row(0) * LEFT_PITCH + group() * SHARE : group() * SHARE * LEFT_PITCH + row(0));
        const float *right = tile + RIGHT_AT / 4 + (RIGHT_ALONG ? column(0) * RIGHT_PITCH + group() * SHARE : group() * SHARE * RIGHT_PITCH + column(0));
#pragma unroll 2
        for (int k = 0; k < SHARE; k += 4) {
            float a[4][ROWS], b[4][COLUMNS];
            load<ROWS, LEFT_ALONG, LEFT_PITCH, 4>(a, left + (LEFT_ALONG ? k : k * LEFT_PITCH));
            load<COLUMNS, RIGHT_ALONG, RIGHT_PITCH, 8>(b, right + (RIGHT_ALONG ? k : k * RIGHT_PITCH));
#pragma unroll
            for (int t = 0; t < 4; ++t)
#pragma unroll
                for (int i = 0; i < ROWS; ++i)
#pragma unroll
                    for (int j = 0; j < COLUMNS; ++j) sums[i][j] = fmaf(a[t][i], b[t][j], sums[i][j]);
        }
        if (!LEFT_ALONG && with_biases) {
#pragma unroll
            for (int k = 0; k < SLAB; k += WARPS)
#pragma unroll
                for (int i = 0; i < M / 32; ++i) biases[i] += tile[(k + threadIdx.x / 32) * LEFT_PITCH + 32 * i + (threadIdx.x & 31)];
        }
    }

    __device__ __forceinline__ void put(float *partial) const {
#pragma unroll
        for (int i = 0; i < ROWS; ++i) {
            float *mine = partial + (group() * M + row(i)) * PARTIAL_PITCH;
#pragma unroll
            for (int j = 0; j < COLUMNS; ++j) {
                if constexpr (RIGHT_ALONG) mine[column(j)] = sums[i][j];
                else if (j % 4 == 0) *(float4 *)(mine + column(j)) = make_float4(sums[i][j], sums[i][j + 1], sums[i][j + 2], sums[i][j + 3]);
            }
        }
    }

    __device__ __forceinline__ void put_biases(float *partial) const {
#pragma unroll
        for (int i = 0; i < M / 32; ++i) partial[BIASES_AT + threadIdx.x / 32 * M + 32 * i + (threadIdx.x & 31)] = biases[i];
    }
};
