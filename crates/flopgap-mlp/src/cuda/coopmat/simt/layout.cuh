// How the products of a chain of layers are laid over a block. The host gives the plan: THREADS,
// BLOCKS, SAMPLES, STAGES, SLAB, RESIDENT, and for each step of the chain inner(i) numbers that it
// takes, outer(i) that it gives, tile_rows(i) x tile_columns(i) sums a thread, and warps_across(i)
// warps over the outputs.
#include "tile/scalar.cuh"

constexpr int WARPS = THREADS / 32;
// A warp is 4 samples by 8 outputs of threads.
constexpr int LANES_DOWN = 4, LANES_ACROSS = 8;

template <int STEP>
struct Layout {
    static constexpr int K = inner(STEP), N = outer(STEP);
    static constexpr int ROWS = tile_rows(STEP), COLUMNS = tile_columns(STEP);
    static constexpr int ACROSS = warps_across(STEP), DOWN = WARPS / ACROSS;
    // Outputs of a pass.
    static constexpr int WIDTH = ACROSS * LANES_ACROSS * COLUMNS, PASSES = (N + WIDTH - 1) / WIDTH;
    static constexpr int SLABS = (K + SLAB - 1) / SLAB;
    static_assert(DOWN * LANES_DOWN * ROWS == SAMPLES, "the warps cover the samples");
};

// Slabs of the steps before this one, by which they are counted within a tile of samples.
template <int STEP>
__device__ constexpr int slabs_before() {
    if constexpr (STEP == 0) return 0;
    else return slabs_before<STEP - 1>() + Layout<STEP - 1>::PASSES * Layout<STEP - 1>::SLABS;
}

// The widest pass of this step and those after it.
template <int STEP>
__device__ constexpr int widest_pass() {
    if constexpr (STEP == LAYERS) return 0;
    else {
        constexpr int rest = widest_pass<STEP + 1>(), own = Layout<STEP>::WIDTH;
        return own > rest ? own : rest;
    }
}

// f(step, slab of the step) for a slab of the chain.
template <int STEP = 0, class F>
__device__ __forceinline__ void with_step_of(int slab, F f) {
    if constexpr (STEP + 1 < LAYERS)
        if (slab >= slabs_before<STEP + 1>()) return with_step_of<STEP + 1>(slab, f);
    f(Known<STEP>(), slab - slabs_before<STEP>());
}

// Where the values that step `i` gives begin, in shared memory.
__device__ constexpr int values_at(int i) { return VALUES_AT + (i % 2 == 0 ? VALUES_OF_EVEN : 0); }

// The ring of slabs. Filling goes ahead of using, over all tiles of the block.
struct Slabs : CopyRing<STAGES, BACKGROUND> {
    int slab = 0;           // the next to be copied
    u32 tile = blockIdx.x;  // of this tile

    // The slab is under way; a tile has so many.
    __device__ __forceinline__ void next(int slabs) {
        filled();
        if (++slab == slabs) slab = 0, tile += gridDim.x;
    }
};

// All biases, where those of a layer begin `tape_at(layer)` after the first.
__device__ __forceinline__ void copy_biases(const Storage *parameters, float *to) {
#pragma unroll
    for (int layer = 0; layer < LAYERS; ++layer)
        for (int i = threadIdx.x; i < width(layer + 1); i += THREADS)
            to[tape_at(layer) + i] = widen(parameters[biases_at(layer) + i]);
}

// The sums of a pass, the first at `output` and the others LANES_ACROSS apart, become outputs.
// These and what the tape keeps go to memory: `put(to)` stores the sums in rows.
template <int LAYER, class Put>
__device__ __forceinline__ void finish(float (&sums)[Layout<LAYER>::ROWS][Layout<LAYER>::COLUMNS], const float *biases, int output, Storage *y,
                                       Storage *tape, u32 batch, Put put) {
    using S = Layout<LAYER>;
    constexpr int ACTIVATION = activation_of(LAYER);
    constexpr bool LAST = LAYER + 1 == LAYERS, FROM_SUMS = !slope_from_output<ACTIVATION>();
#pragma unroll
    for (int j = 0; j < S::COLUMNS; ++j) {
        const float bias = biases[S::N % S::WIDTH == 0 || output + j * LANES_ACROSS < S::N ? output + j * LANES_ACROSS : 0];
#pragma unroll
        for (int i = 0; i < S::ROWS; ++i) sums[i][j] += bias;
    }
    Storage *const kept = layer_of<LAYER>(tape, batch);
    if (FROM_SUMS && tape) put(kept);
#pragma unroll
    for (int j = 0; j < S::COLUMNS; ++j)
#pragma unroll
        for (int i = 0; i < S::ROWS; ++i) sums[i][j] = stored(activate<ACTIVATION>(sums[i][j]));
    if (!LAST && !FROM_SUMS && tape) put(kept);
    if (LAST) put(y);
}
