// AdamW: moments and parameters in 32 bits, what a network or an encoding reads rounded from them.

// What lies on the device between steps, so that a graph of a step can be launched again and again.
struct State {
    double power1, power2;  // beta^t
    u64 steps, skipped;
    double learning_rate;
    u32 not_finite, done;
};

// Notes a gradient that is not finite.
extern "C" __global__ void adamw_finite_reduce(const float *gradients, State *state, u32 count) {
    bool finite = true;
    for (u32 i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x)
        finite = finite && fabsf(gradients[i]) <= 3.402823466e38f;
    if (!finite) atomicOr(&state->not_finite, 1u);
}

// `master` are the parameters in 32 bits; null where `parameters` are.
extern "C" __global__ void adamw_step(Storage *parameters, float *master, const float *gradients, float *first, float *second,
                                      State *state, double beta1, double beta2, double decay, float beta1_rounded, float rest1,
                                      float beta2_rounded, float rest2, float epsilon, float scale, u32 count) {
    __shared__ float shared_rate, shared_root, shared_kept;
    __shared__ bool shared_skip;
    if (threadIdx.x == 0) {
        // No block changes these before all have read them.
        const double learning_rate = state->learning_rate;
        shared_skip = state->not_finite != 0;
        shared_rate = (float)(learning_rate / (1.0 - state->power1 * beta1));
        shared_root = (float)(1.0 / sqrt(1.0 - state->power2 * beta2));
        shared_kept = (float)(1.0 - learning_rate * decay);
    }
    __syncthreads();
    const u32 i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count && !shared_skip) {
        const float gradient = gradients[i] * scale;
        const float m = fmaf(beta1_rounded, first[i], rest1 * gradient);
        const float v = fmaf(beta2_rounded, second[i], rest2 * gradient * gradient);
        first[i] = m;
        second[i] = v;
        const float before = master ? master[i] : widen(parameters[i]);
        const float after = before * shared_kept - shared_rate * (m / fmaf(sqrtf(v), shared_root, epsilon));
        if (master) master[i] = after;
        parameters[i] = narrow(after);
    }
    // The last block to come here counts the step.
    if (threadIdx.x == 0) {
        __threadfence();
        if (atomicAdd(&state->done, 1u) == gridDim.x - 1) {
            if (shared_skip) {
                state->skipped += 1;
            } else {
                state->power1 *= beta1;
                state->power2 *= beta2;
                state->steps += 1;
            }
            state->not_finite = 0;
            state->done = 0;
        }
    }
}
