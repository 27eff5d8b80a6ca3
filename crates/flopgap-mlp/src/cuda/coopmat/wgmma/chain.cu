// The gradients before every activation, from the outputs down to the inputs, for the gradients of
// the parameters, and the gradients by the inputs: all layers in one kernel, a tile of 64 samples
// for each of GROUPS warpgroups, in registers from layer to layer. Weights lie in shared memory as
// in the forward pass; products take them transposed. What comes from the forward pass is loaded
// before the product that it waits for.
#include "coopmat/wgmma/layers.cuh"

constexpr int TILE = 64;  // samples
constexpr int THREADS = GROUPS * 128;
static_assert(weights_before(LAYERS) == SHARED_BYTES, "as the host counts");

struct Arrays {
    const Storage *y, *dy, *tape;
    Storage *dx, *deltas, *activations;
};

// Of a part of the columns below a layer, from `column` on: its sums become the gradients before
// the activation there, in `words`, or those by the inputs.
template <int LAYER, int COLUMNS>
__device__ __forceinline__ void finish_below(const float (&d)[COLUMNS / 2], const Run<COLUMNS> &kept, u32 *words, int column, const Arrays &arrays,
                                             Rows rows) {
#pragma unroll
    for (int first = 0; first < COLUMNS; first += 32) {
        u32 slopes[8], activations[8];
        if constexpr (LAYER > 0) kept.words(first, slopes, rows.quarter);
        u32 *out = words + first / 4;
#pragma unroll
        for (int i = 0; i < 8; ++i) {
            if (4 * i >= COLUMNS - first) continue;
            const float low = d[first / 2 + i * 2], high = d[first / 2 + i * 2 + 1];
            if constexpr (LAYER == 0) out[i] = narrow2(low, high);
            else out[i] = times_slope<HIDDEN_ACTIVATION>(low, high, slopes[i]);
            if constexpr (LAYER > 0 && !slope_from_output<HIDDEN_ACTIVATION>())
                activations[i] = activate2<HIDDEN_ACTIVATION>(slopes[i]);
        }
        if constexpr (LAYER == 0) {
            store_some<COLUMNS>(out, arrays.dx, width(LAYER), column, first, rows);
        } else {
            const u64 here = (u64)tape_at(LAYER - 1) * rows.batch;
            store_some<COLUMNS>(out, arrays.deltas + here, width(LAYER), column, first, rows);
            if constexpr (!slope_from_output<HIDDEN_ACTIVATION>())
                store_some<COLUMNS>(activations, arrays.activations + here, width(LAYER), column, first, rows);
        }
    }
}

// The gradients before the activation of the outputs.
__device__ __forceinline__ void output_deltas(u32 *words, const Arrays &arrays, Rows rows) {
    const u64 last = (u64)tape_at(LAYERS - 1) * rows.batch;
    Run<OUTPUTS> gradients, kept;
    gradients.load(arrays.dy, OUTPUTS, 0, rows);
    if constexpr (OUTPUT_ACTIVATION != IDENTITY)
        kept.load(slope_from_output<OUTPUT_ACTIVATION>() ? arrays.y : arrays.tape + last, OUTPUTS, 0, rows);
#pragma unroll
    for (int first = 0; first < OUTPUTS; first += 32) {
        u32 *out = words + first / 4;
        u32 slopes[8];
        gradients.words(first, out, rows.quarter);
        if constexpr (OUTPUT_ACTIVATION != IDENTITY) {
            kept.words(first, slopes, rows.quarter);
#pragma unroll
            for (int i = 0; i < 8; ++i)
                if (4 * i < OUTPUTS - first) out[i] = times_slope<OUTPUT_ACTIVATION>(out[i], slopes[i]);
        }
        store_some<OUTPUTS>(out, arrays.deltas + last, OUTPUTS, 0, first, rows);
    }
}

// A part of the columns below a layer: what `deltas`, the layer's own gradients, come to there.
template <int LAYER, int PART = 0>
__device__ __forceinline__ void below(const u32 *deltas, u32 *words, u32 shared, const Arrays &arrays, Rows rows) {
    constexpr int K = width(LAYER + 1), N = width(LAYER), COLUMN = column_of(N, PART), COLUMNS = columns_of(N, PART);
    const Across<chunk_bytes(LAYER)> weights(shared + weights_before(LAYER) + COLUMN / CHUNK * chunk_bytes(LAYER));
    const Storage *tape = arrays.tape + (u64)tape_at(LAYER > 0 ? LAYER - 1 : 0) * rows.batch;
    // Early where registers allow it.
    constexpr bool EARLY = LAYER > 0 && 4 * steps_of(K) + COLUMNS / 2 + COLUMNS / 4 <= REGISTERS;
    Run<COLUMNS> kept;
    if constexpr (EARLY) kept.load(tape, N, COLUMN, rows);
    float d[COLUMNS / 2];
    product<steps_of(K)>(d, deltas, weights);
    if constexpr (LAYER > 0 && !EARLY) kept.load(tape, N, COLUMN, rows);
    finish_below<LAYER, COLUMNS>(d, kept, words, COLUMN, arrays, rows);
    if constexpr (PART + 1 < parts_of(N)) below<LAYER, PART + 1>(deltas, LAYER == 0 ? words : words + COLUMNS / 4, shared, arrays, rows);
}

template <int LAYER>
__device__ __forceinline__ void layers_below(const u32 *deltas, u32 shared, const Arrays &arrays, Rows rows) {
    if constexpr (LAYER > 0) {
        u32 words[words_of(width(LAYER))] = {};
        below<LAYER>(deltas, words, shared, arrays, rows);
        layers_below<LAYER - 1>(words, shared, arrays, rows);
    } else if (arrays.dx) {
        u32 words[words_of(columns_of(width(0), 0))];
        below<0>(deltas, words, shared, arrays, rows);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, 1)
    coopmat_mlp_backward_wgmma_chain(const Storage *parameters, const Storage *y, const Storage *dy, const Storage *tape, Storage *dx,
                                     Storage *deltas, Storage *activations, u32 batch) {
    extern __shared__ __align__(1024) char shared[];
    const u32 base = shared_address(shared);
    place_weights<THREADS>(parameters, shared);
    fence_async();
    __syncthreads();

    const Arrays arrays{y, dy, tape, dx, deltas, activations};
    const int warp = uniform(threadIdx.x / 32);
    const u32 tiles = (batch + TILE - 1) / TILE;
    for (u32 tile = blockIdx.x + warp / 4 * gridDim.x; tile < tiles; tile += GROUPS * gridDim.x) {
        const Rows rows = Rows::of_warp(tile * TILE + warp % 4 * 16, batch);
        u32 words[words_of(OUTPUTS)] = {};
        output_deltas(words, arrays, rows);
        layers_below<LAYERS - 1>(words, base, arrays, rows);
    }
}
