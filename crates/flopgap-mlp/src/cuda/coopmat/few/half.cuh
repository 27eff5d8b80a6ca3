// A block's product of M x N numbers in 16 bits on tensor cores. A warp has WARP_M x WARP_N of
// them; the warps that are left share the inner dimension. The left operand lies by rows ([m][k],
// LEFT_ALONG) or by columns ([k][m]), the right one as weights do ([n][k], RIGHT_ALONG) or by rows
// ([k][n]).
#include "tile/padded.cuh"

template <int M_, int N_, int WARP_M, int WARP_N, bool LEFT_ALONG, bool RIGHT_ALONG>
struct Product {
    static constexpr int M = M_, N = N_, DOWN = M / WARP_M, ACROSS = N / WARP_N, GROUPS = WARPS / (DOWN * ACROSS);
    static constexpr int SLAB = GROUPS > 2 ? 32 * GROUPS : 64, SHARE = SLAB / GROUPS, MT = WARP_M / 16, NT = WARP_N / 8;
    static constexpr int LEFT_ROWS = LEFT_ALONG ? M : SLAB, LEFT_COLUMNS = LEFT_ALONG ? SLAB : M, LEFT_PITCH = LEFT_COLUMNS + 8;
    static constexpr int RIGHT_ROWS = RIGHT_ALONG ? N : SLAB, RIGHT_COLUMNS = RIGHT_ALONG ? SLAB : N, RIGHT_PITCH = RIGHT_COLUMNS + 8;
    static constexpr int RIGHT_AT = LEFT_ROWS * LEFT_PITCH * 2, STAGE = RIGHT_AT + RIGHT_ROWS * RIGHT_PITCH * 2;
    // What warps that share the inner dimension have found: [group][m][n], and the sums of the left
    // operand's columns, [group][m].
    static constexpr int PARTIAL_PITCH = N + 8, BIAS_PARTS = GROUPS, BIASES_AT = GROUPS * M * PARTIAL_PITCH;
    static_assert(GROUPS * DOWN * ACROSS == WARPS && MT > 0 && NT % 2 == 0, "the warps cover the product");

    Sums32 sums[MT][NT], biases[MT];

    static __device__ __forceinline__ int warp_row() { return (int)(threadIdx.x / 32) % DOWN * WARP_M; }
    static __device__ __forceinline__ int across() { return (int)(threadIdx.x / 32) / DOWN % ACROSS; }
    static __device__ __forceinline__ int group() { return (int)(threadIdx.x / 32) / (DOWN * ACROSS); }

    __device__ __forceinline__ void clear() { ::clear(biases), ::clear(sums); }

    // Adds the product of a slab; if asked also the sums of the left operand's columns, as their
    // product with ones.
    __device__ __forceinline__ void add(u32 stage, bool with_biases) {
        const int k0 = group() * SHARE, row = warp_row(), column = across() * WARP_N;
        const u32 left = stage + (LEFT_ALONG ? row * LEFT_PITCH + k0 : k0 * LEFT_PITCH + row) * 2 + lane_offset<LEFT_ALONG>(LEFT_PITCH * 2);
        const u32 right = stage + RIGHT_AT + (RIGHT_ALONG ? column * RIGHT_PITCH + k0 : k0 * RIGHT_PITCH + column) * 2 + lane_offset<!RIGHT_ALONG>(RIGHT_PITCH * 2);
        in_steps<MT, NT, SHARE / 16>(
            [&](auto &fragments, int k) {
                fragments.template load<!LEFT_ALONG, !RIGHT_ALONG, LEFT_PITCH, RIGHT_PITCH, false>(
                    left + k * (LEFT_ALONG ? 32 : 32 * LEFT_PITCH), right + k * (RIGHT_ALONG ? 32 : 32 * RIGHT_PITCH), 0);
            },
            [&](const auto &fragments) {
                fragments.template add_product<false>(sums, 0);
                if (!LEFT_ALONG && with_biases) {
#pragma unroll
                    for (int i = 0; i < MT; ++i)
                        if (i % ACROSS == across()) multiply(biases[i], fragments.a[i], ONES, ONES);
                }
            });
    }

    __device__ __forceinline__ void put(float *partial) const {
        const int lane = threadIdx.x & 31, g = lane >> 2, t = lane & 3;
        float *mine = partial + (group() * M + warp_row() + g) * PARTIAL_PITCH + across() * WARP_N + 2 * t;
#pragma unroll
        for (int i = 0; i < MT; ++i)
#pragma unroll
            for (int half = 0; half < 2; ++half)
#pragma unroll
                for (int j = 0; j < NT; ++j)
                    *(float2 *)(mine + (16 * i + 8 * half) * PARTIAL_PITCH + 8 * j) = make_float2(sums[i][j].low(half), sums[i][j].high(half));
    }

    __device__ __forceinline__ void put_biases(float *partial) const {
        const int lane = threadIdx.x & 31, g = lane >> 2;
#pragma unroll
        for (int i = 0; i < MT; ++i)
            if (i % ACROSS == across() && (lane & 3) == 0)
#pragma unroll
                for (int half = 0; half < 2; ++half) partial[BIASES_AT + group() * M + warp_row() + 16 * i + 8 * half + g] = biases[i].low(half);
    }
};
