// What is queued around the kernels of a network whose arrays are not those of the caller: rows of
// other widths, parameters and gradients at other places, gradients that are added.

#include "padding/rows.cuh"

extern "C" __global__ void mlp_copy_padded_inputs(const Storage *from, Storage *to, u32 rows) {
    pad_rows<OWN_INPUTS, INPUTS>(from, to, rows);
}

extern "C" __global__ void mlp_copy_padded_outputs(const Storage *from, Storage *to, u32 rows) {
    pad_rows<OWN_OUTPUTS, OUTPUTS>(from, to, rows);
}

extern "C" __global__ void mlp_copy_cut_inputs(const Storage *from, Storage *to, u32 rows) {
    cut_rows<OWN_INPUTS, INPUTS>(from, to, rows);
}

extern "C" __global__ void mlp_copy_cut_outputs(const Storage *from, Storage *to, u32 rows) {
    cut_rows<OWN_OUTPUTS, OUTPUTS>(from, to, rows);
}

// The parameters of the padded network that the caller's network has; the others stay zero.
extern "C" __global__ void mlp_copy_parameters(const Storage *from, Storage *to, const u32 *places) {
    const u32 i = blockIdx.x * COPY_THREADS + threadIdx.x;
    if (i < OWN_PARAMETERS) to[places[i]] = from[i];
}

// `places` is null where both networks have the same parameters.
extern "C" __global__ void flat_mlp_gradients_add(const float *from, float *to, const u32 *places) {
    const u32 i = blockIdx.x * COPY_THREADS + threadIdx.x;
    if (i >= OWN_PARAMETERS) return;
    const float gradient = from[places ? places[i] : i];
    to[i] = ADD_GRADIENTS ? to[i] + gradient : gradient;
}
