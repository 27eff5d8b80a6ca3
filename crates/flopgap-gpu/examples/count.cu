// Kernels whose counts are known: each thread executes `steps` instructions of one kind, whatever
// the compiler unrolls.

extern "C" __global__ void count_ffma(float *x, float a, float b, int steps) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    float v = x[i];
    for (int s = 0; s < steps; ++s) v = fmaf(v, a, b);
    x[i] = v;
}

extern "C" __global__ void count_fadd(float *x, float a, float b, int steps) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    float v = x[i];
    for (int s = 0; s < steps; ++s) v = __fadd_rn(v, b);
    x[i] = v;
}

extern "C" __global__ void count_fmul(float *x, float a, float b, int steps) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    float v = x[i];
    for (int s = 0; s < steps; ++s) v = __fmul_rn(v, a);
    x[i] = v;
}
