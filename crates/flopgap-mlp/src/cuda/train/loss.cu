// The mean squared error over the first COLUMNS outputs of every sample, and its gradient by the
// outputs. Sums come in a fixed order. The sums are of doubles and of one block, by halves: not
// what `tile/reduce.cuh` adds over blocks.

__device__ double sum_of_block(double value) {
    __shared__ double shared[THREADS];
    shared[threadIdx.x] = value;
    __syncthreads();
    for (u32 half = THREADS / 2; half > 0; half /= 2) {
        if (threadIdx.x < half) shared[threadIdx.x] += shared[threadIdx.x + half];
        __syncthreads();
    }
    return shared[0];
}

// `partial` has a number for each block; `done` is zero before and after. `factor` is 2 / (batch *
// COLUMNS), times the scale of the gradients.
extern "C" __global__ void mean_squared_error_reduce(const Storage *y, const float *targets, Storage *dy, double *partial, u32 *done,
                                                     float *loss, u32 batch, float factor) {
    const u64 elements = (u64)batch * OUTPUTS;
    float sum = 0.0f;
    for (u64 i = (u64)blockIdx.x * THREADS + threadIdx.x; i < elements; i += (u64)gridDim.x * THREADS) {
        const u64 sample = i / OUTPUTS;
        const u32 column = (u32)(i % OUTPUTS);
        float difference = 0.0f;
        if (column < COLUMNS) difference = widen(y[i]) - targets[sample * COLUMNS + column];
        dy[i] = narrow(difference * factor);
        sum = fmaf(difference, difference, sum);
    }
    const double of_block = sum_of_block(sum);
    __shared__ bool last;
    if (threadIdx.x == 0) {
        partial[blockIdx.x] = of_block;
        __threadfence();
        last = atomicAdd(done, 1u) == gridDim.x - 1;
    }
    __syncthreads();
    if (!last) return;
    __threadfence();
    double rest = 0.0;
    for (u32 block = threadIdx.x; block < gridDim.x; block += THREADS) rest += __ldcg(partial + block);
    const double whole = sum_of_block(rest);
    if (threadIdx.x == 0) {
        *loss = (float)(whole / ((double)batch * COLUMNS));
        *done = 0;
    }
}
