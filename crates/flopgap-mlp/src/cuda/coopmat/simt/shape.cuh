// What the chains by samples add to `layout.cuh`.
#include "coopmat/simt/layout.cuh"

// The 16 bytes that 4 threads read of rows with an odd multiple of 8 floats lie in different banks,
// and so do those that 8 threads read of rows with an odd multiple of 4.
__device__ constexpr int samples_pitch(int numbers) { return numbers % 16 == 0 ? numbers + 8 : numbers; }

template <int STEP>
using Shape = Layout<STEP>;
