// A shader: every thread computes the color of a pixel by a network of its coordinates.

extern "C" __global__ __launch_bounds__(MLP_THREADS) void shade(const Storage *parameters, float *colors,
                                                                unsigned width, unsigned pixels) {
    extern __shared__ uint4 memory[];
    // All threads of the block: weights go to shared memory once.
    Mlp mlp(memory, parameters);
    for (unsigned first = blockIdx.x * MLP_THREADS; first < pixels; first += gridDim.x * MLP_THREADS) {
        const unsigned pixel = first + threadIdx.x;
        const float x[MLP_INPUTS] = {(float)(pixel % width) / width, (float)(pixel / width) / width};
        float y[MLP_OUTPUTS];
        // All threads of a warp, also those without a pixel.
        mlp(x, y);
        if (pixel < pixels)
            for (int i = 0; i < MLP_OUTPUTS; ++i) colors[MLP_OUTPUTS * pixel + i] = y[i];
    }
}
