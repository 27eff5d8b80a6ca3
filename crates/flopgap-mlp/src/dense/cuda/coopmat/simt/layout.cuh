// How the products of a chain of layers are laid over a block. The host gives the plan: THREADS, BLOCKS, SAMPLES, STAGES, SLAB, RESIDENT, and for each
// step of the chain inner(i) numbers that it takes, outer(i) that it gives, tile_rows(i) x tile_columns(i) sums a thread, and warps_across(i) warps over
// the outputs.
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
