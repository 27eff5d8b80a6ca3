// The gradients of a layer's parameters in registers, shared among warps; what blocks found, and
// its sum.
#include "tile/mma.cuh"
#include "tile/reduce.cuh"
#include "tile/padded.cuh"

// A shape says how: of INPUTS x OUTPUTS weights a block has a tile of TILE_IN x TILE_OUT, ALONG_IN
// x ALONG_OUT warps with N x M each, and ALONG_SAMPLES times so many that take other samples. For
// the biases a warp sums every so-manieth 16 rows: those that share rows with it have the others.
template <class S>
__device__ constexpr int biases_of() {
    return (S::M / 16 + S::ALONG_IN - 1) / S::ALONG_IN;
}

// Runs `use(row, column, left, right)` for every two sums side by side.
template <int MT, int NT, class Use>
__device__ __forceinline__ void for_every_pair(const Sums32 (&sums)[MT][NT], int row0, int column0, Use use) {
#pragma unroll
    for (int i = 0; i < MT; ++i)
#pragma unroll
        for (int half = 0; half < 2; ++half)
#pragma unroll
            for (int j = 0; j < NT; ++j) use(row0 + 16 * i + 8 * half, column0 + 8 * j, sums[i][j].low(half), sums[i][j].high(half));
}

// Adds the product of what is loaded, whose left operand has the gradients before the activation by
// columns, to the sums.
template <class S>
__device__ __forceinline__ void add_gradients(Sums32 (&acc)[S::M / 16][S::N / 8], Sums32 (&bias)[biases_of<S>()],
                                              const Fragments<S::M / 16, S::N / 8> &fragments, int in_warp, bool with_bias) {
    fragments.template add_product<false>(acc, 0);
    // The sum of a row of gradients is its product with ones.
    if (with_bias) {
#pragma unroll
        for (int i = 0; i < S::M / 16; ++i)
            if (i % S::ALONG_IN == in_warp) multiply(bias[i / S::ALONG_IN], fragments.a[i], ONES, ONES);
    }
}

// Writes the sums of a tile whose first output and input are `out0` and `in0`, through shared
// memory from its beginning: the layer's weights to `sums`, then its biases. All warps must have
// left shared memory.
template <class S>
__device__ __forceinline__ void flush(const Sums32 (&acc)[S::M / 16][S::N / 8], const Sums32 (&bias)[biases_of<S>()], int in_warp, int out_warp, int turn,
                                      int out0, int in0, float *sums) {
    constexpr int MT = S::M / 16, NT = S::N / 8;
    float *found = (float *)shared;
    const int lane = threadIdx.x & 31, g = lane >> 2, t = lane & 3;
    // Biases: [turn][output], then in order.
    if (in0 == 0) {
        if (t == 0)
#pragma unroll
            for (int i = 0; i < MT; ++i)
#pragma unroll
                for (int half = 0; half < 2; ++half)
                    if (i % S::ALONG_IN == in_warp)
                        found[turn * S::TILE_OUT + out_warp * S::M + 16 * i + 8 * half + g] = bias[i / S::ALONG_IN].low(half);
        __syncthreads();
        for (int i = threadIdx.x; i < S::TILE_OUT && out0 + i < S::OUTPUTS; i += THREADS) {
            float sum = 0;
            for (int other = 0; other < S::ALONG_SAMPLES; ++other) sum += found[other * S::TILE_OUT + i];
            give<ATOMIC>(sums + S::INPUTS * S::OUTPUTS + out0 + i, sum);
        }
        __syncthreads();
    }
    // Weights: the warps that took samples in turn, one after the other.
    const int row0 = out_warp * S::M + g, column0 = in_warp * S::N + 2 * t;
    const auto put = [&](int row, int column, float low, float high) {
        if ((S::OUTPUTS % S::TILE_OUT != 0 && out0 + row >= S::OUTPUTS) || (S::INPUTS % S::TILE_IN != 0 && in0 + column >= S::INPUTS)) return;
        give<ATOMIC>(sums + (u64)(out0 + row) * S::INPUTS + in0 + column, make_float2(low, high));
    };
    if constexpr (S::ALONG_SAMPLES == 1) {
        for_every_pair<MT, NT>(acc, row0, column0, put);
    } else {
        constexpr int PITCH = S::TILE_IN + 8;
        for (int now = 0; now < S::ALONG_SAMPLES; ++now) {
            if (turn == now)
                for_every_pair<MT, NT>(acc, row0, column0, [&](int row, int column, float low, float high) {
                    float2 *at = (float2 *)(found + row * PITCH + column);
                    const float2 before = now == 0 ? make_float2(0, 0) : *at;
                    *at = make_float2(before.x + low, before.y + high);
                });
            __syncthreads();
        }
        for (int i = threadIdx.x; i < S::TILE_OUT * (S::TILE_IN / 2); i += THREADS) {
            const int row = i / (S::TILE_IN / 2), column = i % (S::TILE_IN / 2) * 2;
            put(row, column, found[row * PITCH + column], found[row * PITCH + column + 1]);
        }
    }
}

// Adds up what the ranges found.
extern "C" __global__ void __launch_bounds__(1024) coopmat_mlp_backward_mma_sum(const float *found, float *gradients, u32 most_ranges) {
    const int index = ((int)blockIdx.x * 32 + (threadIdx.x & 31)) * 4;
    int layer = 0;
    while (layer + 1 < LAYERS && index >= weights_at(layer + 1)) ++layer;
    const float *from = found + sums_at(layer) + (index - weights_at(layer));
    reduce<32, 32, 4>((float4 *)(gradients + index), index < PARAMETERS,
                      in_turns<32>(threadIdx.x >> 5, min((u32)ranges_of(layer), most_ranges)),
                      [&](u32 range) { return *(const float4 *)(from + range * stride_of(layer)); });
}
