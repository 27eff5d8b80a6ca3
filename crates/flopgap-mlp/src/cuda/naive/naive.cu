// One thread, one sample, plain loops. Kept as simple as a first attempt: nothing here is fast. The
// loops over layers and outputs stay loops: unrolled, they spill registers at widths whose bounds
// the compiler knows.

// Where the output of a layer begins among all layers of a sample; the inputs are layer 0.
__device__ constexpr int begin(int layer) { return layer == 0 ? 0 : INPUTS + tape_at(layer - 1); }
constexpr int ALL = begin(LAYERS + 1);

__device__ float activate_after(int layer, float z) {
    return layer + 1 == LAYERS ? activate<OUTPUT_ACTIVATION>(z) : activate<HIDDEN_ACTIVATION>(z);
}

__device__ float slope_after(int layer, float z) {
    return layer + 1 == LAYERS ? slope<OUTPUT_ACTIVATION>(z) : slope<HIDDEN_ACTIVATION>(z);
}

// All layers of a sample. `sums` may be null: what came before each activation.
__device__ void all_layers(const Storage *parameters, const Storage *x, float *values, float *sums) {
    for (int i = 0; i < INPUTS; ++i) values[i] = widen(x[i]);
#pragma unroll 1
    for (int layer = 0; layer < LAYERS; ++layer) {
        const float *below = values + begin(layer);
        const Storage *weights = parameters + weights_at(layer), *biases = parameters + biases_at(layer);
#pragma unroll 1
        for (int o = 0; o < width(layer + 1); ++o) {
            float z = widen(biases[o]);
            for (int i = 0; i < width(layer); ++i) z = fmaf(widen(weights[o * width(layer) + i]), below[i], z);
            if (sums) sums[begin(layer + 1) + o] = z;
            // As every implementation stores it.
            values[begin(layer + 1) + o] = widen(narrow(activate_after(layer, z)));
        }
    }
}

extern "C" __global__ void naive_mlp_forward(const Storage *parameters, const Storage *x, Storage *y, u32 batch) {
    const u64 sample = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    if (sample >= batch) return;
    float values[ALL];
    all_layers(parameters, x + sample * INPUTS, values, nullptr);
    for (int o = 0; o < OUTPUTS; ++o) y[sample * OUTPUTS + o] = narrow(values[begin(LAYERS) + o]);
}

// Computes the layers again. `gradients` must be zero before.
extern "C" __global__ void naive_mlp_backward(const Storage *parameters, const Storage *x, const Storage *dy, Storage *dx,
                                              float *gradients, u32 batch) {
    const u64 sample = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    if (sample >= batch) return;
    float values[ALL], sums[ALL];
    all_layers(parameters, x + sample * INPUTS, values, sums);
    float delta[WIDEST], below[WIDEST];
    for (int o = 0; o < OUTPUTS; ++o) delta[o] = widen(dy[sample * OUTPUTS + o]);
#pragma unroll 1
    for (int layer = LAYERS - 1; layer >= 0; --layer) {
        const Storage *weights = parameters + weights_at(layer);
        for (int i = 0; i < width(layer); ++i) below[i] = 0.0f;
#pragma unroll 1
        for (int o = 0; o < width(layer + 1); ++o) {
            const float d = widen(narrow(delta[o] * slope_after(layer, sums[begin(layer + 1) + o])));
            atomicAdd(gradients + biases_at(layer) + o, d);
            for (int i = 0; i < width(layer); ++i) {
                atomicAdd(gradients + weights_at(layer) + o * width(layer) + i, d * values[begin(layer) + i]);
                below[i] = fmaf(d, widen(weights[o * width(layer) + i]), below[i]);
            }
        }
        for (int i = 0; i < width(layer); ++i) delta[i] = below[i];
    }
    if (dx)
        for (int i = 0; i < INPUTS; ++i) dx[sample * INPUTS + i] = narrow(delta[i]);
}
