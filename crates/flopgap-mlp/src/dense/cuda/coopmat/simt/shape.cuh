// How the products of a chain of layers are laid over a block. The host gives the plan: THREADS, BLOCKS, SAMPLES, STAGES, SLAB, RESIDENT, and for each
// step of the chain tile_rows(i) x tile_columns(i) sums a thread and warps_across(i) warps over the outputs; before this file, inner(i) and
// outer(i): how many numbers a step takes and gives.

constexpr int WARPS = THREADS / 32;
// A warp is 4 samples by 8 outputs of threads: the 16 bytes that 4 threads read of rows with an odd multiple of 8 floats lie in different
// banks, and so do those that 8 threads read of rows with an odd multiple of 4.
constexpr int LANES_DOWN = 4, LANES_ACROSS = 8;
__device__ constexpr int samples_pitch(int numbers) { return numbers % 16 == 0 ? numbers + 8 : numbers; }

template <int STEP>
struct Shape {
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
    else return slabs_before<STEP - 1>() + Shape<STEP - 1>::PASSES * Shape<STEP - 1>::SLABS;
}

// Where the values that step `i` gives begin, in shared memory.
__device__ constexpr int values_at(int i) { return VALUES_AT + (i % 2 == 0 ? VALUES_OF_EVEN : 0); }

// Where the ring of slabs stands. Filling goes ahead of using, over all tiles of the block.
struct Ring {
    int filled, used;    // stages
    int slab;            // the next to be copied
    u32 tile;            // of this tile
};

__device__ __forceinline__ int following(int stage) { return stage + 1 == STAGES ? 0 : stage + 1; }

// The widest pass of this step and those after it.
template <int STEP>
__device__ constexpr int widest_pass() {
    if constexpr (STEP == LAYERS) return 0;
    else {
        constexpr int rest = widest_pass<STEP + 1>(), own = Shape<STEP>::WIDTH;
        return own > rest ? own : rest;
    }
}
