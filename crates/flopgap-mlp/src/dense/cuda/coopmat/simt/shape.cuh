// What the chains by samples add to `layout.cuh`.
#include "coopmat/simt/layout.cuh"

// The 16 bytes that 4 threads read of rows with an odd multiple of 8 floats lie in different banks, and so do those that 8 threads read of rows with
// an odd multiple of 4.
__device__ constexpr int samples_pitch(int numbers) { return numbers % 16 == 0 ? numbers + 8 : numbers; }

template <int STEP>
using Shape = Layout<STEP>;

// Where the values that step `i` gives begin, in shared memory.
__device__ constexpr int values_at(int i) { return VALUES_AT + (i % 2 == 0 ? VALUES_OF_EVEN : 0); }

// Where the ring of slabs stands. Filling goes ahead of using, over all tiles of the block.
struct Ring {
    int filled, used;    // stages
    int slab;            // the next to be copied
    u32 tile;            // of this tile
};

__device__ __forceinline__ int following(int stage) { return stage + 1 == STAGES ? 0 : stage + 1; }
