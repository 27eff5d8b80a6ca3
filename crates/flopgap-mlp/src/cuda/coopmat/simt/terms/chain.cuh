// A chain of products for a tile of SAMPLES samples: what a layer gives is what the next one takes.
// Every thread keeps a tile of the sums in registers. Both factors lie in shared memory by the
// inner sum: [term][sample] and [term][output]. So a thread reads fours of samples and fours of
// outputs of one term, which lie in registers of alternating banks; along the inner sum, both
// factors of a term come from the same bank, and a third of the multiply-adds wait for it.
//
// Weights are arranged so beforehand (`transpose.cu`) and arrive a slab of SLAB terms at a time
// through a ring of STAGES stages, or are all there (RESIDENT); so do the inputs, which are turned
// on their way, through registers. The host gives what `layout.cuh` needs and where the VALUES lie.
#include "coopmat/simt/layout.cuh"

// Floats between the rows of two terms: the fours that 8 threads store of 8 terms lie in different
// banks.
constexpr int PITCH = SAMPLES + 4;
// Terms of an unrolled loop.
constexpr int GROUP = 8;
static_assert(SLAB % GROUP == 0 && SAMPLES % 4 == 0, "whole groups");

template <int LAYER>
struct Shape : Layout<LAYER> {
    using Layout<LAYER>::ROWS, Layout<LAYER>::COLUMNS, Layout<LAYER>::DOWN;
    // Neighbors that a thread reads at once.
    static constexpr int DOWN_AT_ONCE = ROWS < 4 ? ROWS : 4, ACROSS_AT_ONCE = COLUMNS < 4 ? COLUMNS : 4;

    static __device__ __forceinline__ int lane() { return threadIdx.x % 32; }
    static __device__ __forceinline__ int warp() { return threadIdx.x / 32; }
    // The thread's first sample, and the others after it.
    static __device__ __forceinline__ int first_row() { return warp() % DOWN * LANES_DOWN * ROWS + lane() / LANES_ACROSS * DOWN_AT_ONCE; }
    static __device__ constexpr int row(int i) { return i / DOWN_AT_ONCE * LANES_DOWN * DOWN_AT_ONCE + i % DOWN_AT_ONCE; }
    // Where its first weight of a term lies, and the others after it.
    static __device__ __forceinline__ int first_weight() { return warp() / DOWN * LANES_ACROSS * COLUMNS + lane() % LANES_ACROSS * ACROSS_AT_ONCE; }
    // Its first output in a pass; the others are LANES_ACROSS apart. So 8 threads store whole
    // sectors.
    static __device__ __forceinline__ int first_output() { return warp() / DOWN * LANES_ACROSS * COLUMNS + lane() % LANES_ACROSS; }
    // The output of a pass whose weights lie at `place`.
    static __device__ __forceinline__ int output_at(int place) {
        const int within = place % (LANES_ACROSS * COLUMNS), vector = within / ACROSS_AT_ONCE;
        return place - within + (vector / LANES_ACROSS * ACROSS_AT_ONCE + within % ACROSS_AT_ONCE) * LANES_ACROSS + vector % LANES_ACROSS;
    }
};

// Arranged weights of the layers before this one.
template <int LAYER>
__device__ constexpr int arranged_before() {
    if constexpr (LAYER == 0) return 0;
    else return arranged_before<LAYER - 1>() + Shape<LAYER - 1>::PASSES * Shape<LAYER - 1>::SLABS * SLAB * Shape<LAYER - 1>::WIDTH;
}
