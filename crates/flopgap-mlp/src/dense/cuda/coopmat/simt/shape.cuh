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
struct Slabs : CopyRing<STAGES, BACKGROUND> {
    int slab = 0;            // the next to be copied
    u32 tile = blockIdx.x;   // of this tile

    // The next slab, of `slabs` for a tile.
    __device__ __forceinline__ void next(int slabs) {
        filled();
        if (++slab == slabs) slab = 0, tile += gridDim.x;
    }
};
