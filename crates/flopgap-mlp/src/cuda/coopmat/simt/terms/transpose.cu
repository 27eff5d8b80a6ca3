// The weights of all layers as `chain.cuh` wants them: layer by layer, pass by pass, slab by slab,
// [term][place]; zeros where there is none.
#include "coopmat/simt/terms/chain.cuh"

__device__ __align__(16) float arranged[arranged_before<LAYERS>()];

template <int LAYER>
__device__ __forceinline__ float arranged_weight(const Storage *parameters, int index) {
    if constexpr (LAYER + 1 < LAYERS)
        if (index >= arranged_before<LAYER + 1>()) return arranged_weight<LAYER + 1>(parameters, index);
    using S = Shape<LAYER>;
    const int own = index - arranged_before<LAYER>(), slab = own / (SLAB * S::WIDTH), within = own % (SLAB * S::WIDTH);
    const int k = slab % S::SLABS * SLAB + within / S::WIDTH, n = slab / S::SLABS * S::WIDTH + S::output_at(within % S::WIDTH);
    if (k >= S::K || n >= S::N) return 0.0f;
    // On the way back, the terms are the rows.
    return widen(BACKWARD ? parameters[weights_at(LAYERS - 1 - LAYER) + k * S::N + n] : parameters[weights_at(LAYER) + n * S::K + k]);
}

extern "C" __global__ void __launch_bounds__(256) coopmat_simt_mlp_transpose(const Storage *parameters) {
    const int index = blockIdx.x * 256 + threadIdx.x;
    if (index < arranged_before<LAYERS>()) arranged[index] = arranged_weight<0>(parameters, index);
}
