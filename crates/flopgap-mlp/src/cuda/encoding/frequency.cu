// Sines and cosines of positions, and gradients by positions.
#include "tile/encoding.cuh"

constexpr int PAIRS = ENCODING_WIDTH / 2;

// A thread for each pair of a sine and a cosine: a row after the other, without gaps.
extern "C" __global__ __launch_bounds__(THREADS) void frequency_encoding_elementwise(const float *positions, Storage *x, u32 batch) {
    const u64 pair = (u64)blockIdx.x * THREADS + threadIdx.x;
    if (pair >= (u64)batch * PAIRS) return;
    float sine, cosine;
    sincospif(half_turns(positions[pair / OCTAVES], (int)(pair % OCTAVES)), &sine, &cosine);
    store2(x + 2 * pair, sine, cosine);
}

// A thread for each number of a position.
extern "C" __global__ __launch_bounds__(THREADS) void frequency_encoding_elementwise_backward(const float *positions, const Storage *dx,
                                                                                              float *gradients, u32 batch) {
    const u64 number = (u64)blockIdx.x * THREADS + threadIdx.x;
    if (number >= (u64)batch * ENCODING_DIMENSIONS) return;
    const float place = positions[number];
    float sum = 0.0f;
#pragma unroll 4
    for (int octave = 0; octave < OCTAVES; ++octave) {
        float sine, cosine, by_sine, by_cosine;
        sincospif(half_turns(place, octave), &sine, &cosine);
        load2(dx + 2 * (number * OCTAVES + octave), by_sine, by_cosine);
        sum += half_turns(3.14159265358979f, octave) * (by_sine * cosine - by_cosine * sine);
    }
    gradients[number] = sum;
}
