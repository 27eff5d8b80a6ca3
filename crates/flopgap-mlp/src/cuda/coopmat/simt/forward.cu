// Exact 32-bit matrix tiles: all layers of a tile of SAMPLES samples in one kernel. Every thread
// keeps a tile of the sums in registers (16 samples x 8 outputs where the layer is wide enough).
// Samples and weights lie in shared memory as rows, as they do in global memory, so that copies are
// of 16 bytes and so are all reads, along the inner sum. Inputs arrive a slab of numbers at a time
// through a ring, and so do the weights, or they are all there (RESIDENT).
#include "coopmat/simt/shape.cuh"

constexpr int WEIGHTS_PITCH = SLAB + 4, INPUTS_PITCH = samples_pitch(SLAB);

// Resident weights of the layers before this one, in floats.
template <int LAYER>
__device__ constexpr int weights_before() {
    if constexpr (LAYER == 0) return 0;
    else return weights_before<LAYER - 1>() + Shape<LAYER - 1>::PASSES * Shape<LAYER - 1>::SLABS * Shape<LAYER - 1>::WIDTH * WEIGHTS_PITCH;
}
constexpr int STAGE_INPUTS = SAMPLES * INPUTS_PITCH;
constexpr int STAGE = STAGE_INPUTS + (RESIDENT ? 0 : widest_pass<0>() * WEIGHTS_PITCH);
constexpr int RESIDENT_AT = STAGES * STAGE;
constexpr int BIASES_AT = RESIDENT_AT + (RESIDENT ? weights_before<LAYERS>() : 0);
static_assert(BIASES_AT + tape_at(LAYERS) == VALUES_AT, "the host's sum");

struct Call {
    const Storage *parameters, *x;
    Storage *y, *tape;
    u32 batch;
    float *shared;
};

// The weights of a slab of a layer.
template <int LAYER>
__device__ __forceinline__ void copy_weights(const Call &call, float *to, int slab) {
    using S = Shape<LAYER>;
    const int k = slab % S::SLABS * SLAB, column = slab / S::SLABS * S::WIDTH;
    const Storage *from = call.parameters + weights_at(LAYER) + (u64)column * S::K + k;
    copy_rows<S::WIDTH, SLAB, S::K, WEIGHTS_PITCH, THREADS, S::N % S::WIDTH != 0 || S::K % SLAB != 0>(to, from, S::N - column, S::K - k);
}

// The inputs of a slab of the first layer, for a tile.
__device__ __forceinline__ void copy_inputs(const Call &call, float *to, int slab, u32 tile) {
    const int k = slab % Shape<0>::SLABS * SLAB;
    const u64 first = (u64)tile * SAMPLES, left = call.batch - first;
    const Storage *from = call.x + first * INPUTS + k;
    if (left >= SAMPLES && INPUTS % SLAB == 0) copy_rows<SAMPLES, SLAB, INPUTS, INPUTS_PITCH, THREADS, false>(to, from, 0, 0);
    else copy_rows<SAMPLES, SLAB, INPUTS, INPUTS_PITCH, THREADS, true>(to, from, left < SAMPLES ? (int)left : SAMPLES, INPUTS - k);
}

// Slabs that go through the ring.
constexpr int STREAMED = RESIDENT ? slabs_before<1>() : slabs_before<LAYERS>();

__device__ __forceinline__ void fill(const Call &call, Slabs &ring) {
    if ((u64)ring.tile * SAMPLES < call.batch) {
        float *const to = call.shared + ring.to_fill * STAGE;
        if (ring.slab < slabs_before<1>()) copy_inputs(call, to, ring.slab, ring.tile);
        if (!RESIDENT)
            with_step_of(ring.slab, [&](auto layer, int slab) { copy_weights<layer>(call, to + STAGE_INPUTS, slab); });
    }
    ring.next(STREAMED);
}

// The next stage, ready for all threads; the one used last is filled again.
__device__ __forceinline__ const float *next_stage(const Call &call, Slabs &ring) {
    ring.wait();
    fill(call, ring);
    const float *const stage = call.shared + ring.to_use * STAGE;
    ring.used();
    return stage;
}

// A thread's numbers of a layer to rows in global memory.
template <int LAYER>
__device__ __forceinline__ void put(Storage *to, u64 sample, u32 batch, int column, const float (&numbers)[Shape<LAYER>::ROWS][Shape<LAYER>::COLUMNS]) {
    using S = Shape<LAYER>;
    to += sample * S::N + column;
#pragma unroll
    for (int i = 0; i < S::ROWS; ++i)
        if (sample + i * LANES_DOWN < batch) {
#pragma unroll
            for (int j = 0; j < S::COLUMNS; ++j)
                if (S::N % S::WIDTH == 0 || column + j * LANES_ACROSS < S::N) to[i * LANES_DOWN * S::N + j * LANES_ACROSS] = narrow(numbers[i][j]);
        }
}

template <int LAYER>
__device__ __forceinline__ void layer(const Call &call, Slabs &ring, u32 tile) {
    using S = Shape<LAYER>;
    constexpr bool LAST = LAYER + 1 == LAYERS;
    constexpr int BELOW_PITCH = LAYER == 0 ? INPUTS_PITCH : samples_pitch(S::K), PITCH = samples_pitch(S::N);
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    // The thread's samples are LANES_DOWN apart, its outputs LANES_ACROSS.
    const int row = warp % S::DOWN * LANES_DOWN * S::ROWS + lane / LANES_ACROSS;
    const int column = warp / S::DOWN * LANES_ACROSS * S::COLUMNS + lane % LANES_ACROSS;
    const float *const below = call.shared + values_at(LAYER - 1);
    float *const values = call.shared + values_at(LAYER);
    const float *const biases = call.shared + BIASES_AT + tape_at(LAYER);
    const u64 first = (u64)tile * SAMPLES;
    if (RESIDENT && LAYER > 0) __syncthreads();
#pragma unroll 1
    for (int pass = 0; pass < S::PASSES; ++pass) {
        float sums[S::ROWS][S::COLUMNS] = {};
#pragma unroll 1
        for (int slab = 0; slab < S::SLABS; ++slab) {
            const float *stage = nullptr;
            if (!RESIDENT || LAYER == 0) stage = next_stage(call, ring);
            const float *const samples = LAYER == 0 ? stage : below + slab * SLAB;
            const float *const weights =
                RESIDENT ? call.shared + RESIDENT_AT + weights_before<LAYER>() + (pass * S::SLABS + slab) * S::WIDTH * WEIGHTS_PITCH
                         : stage + STAGE_INPUTS;
#pragma unroll 1
            for (int k = 0; k < SLAB; k += 8)
                if (S::K % SLAB == 0 || slab * SLAB + k < S::K)
                    multiply_rows<8, S::ROWS, S::COLUMNS, LANES_DOWN * BELOW_PITCH, LANES_ACROSS * WEIGHTS_PITCH>(
                        samples + row * BELOW_PITCH + k, weights + column * WEIGHTS_PITCH + k, sums);
        }
        // The results take the place of the values below, when all threads have read those.
        if (LAYER > 0 && !LAST && VALUES_OF_EVEN == 0) __syncthreads();
        const int n = pass * S::WIDTH + column;
        finish<LAYER>(sums, biases, n, call.y, call.tape, call.batch,
                      [&](Storage *to) { put<LAYER>(to, first + row, call.batch, n, sums); });
        if (!LAST) {
#pragma unroll
            for (int j = 0; j < S::COLUMNS; ++j)
                if (S::N % S::WIDTH == 0 || n + j * LANES_ACROSS < S::N) {
#pragma unroll
                    for (int i = 0; i < S::ROWS; ++i) values[(row + i * LANES_DOWN) * PITCH + n + j * LANES_ACROSS] = sums[i][j];
                }
        }
    }
    if constexpr (!LAST) layer<LAYER + 1>(call, ring, tile);
}

// The weights of this layer and of those after it.
template <int LAYER = 0>
__device__ __forceinline__ void copy_all_weights(const Call &call) {
    using S = Shape<LAYER>;
#pragma unroll 1
    for (int slab = 0; slab < S::PASSES * S::SLABS; ++slab)
        copy_weights<LAYER>(call, call.shared + RESIDENT_AT + weights_before<LAYER>() + slab * S::WIDTH * WEIGHTS_PITCH, slab);
    if constexpr (LAYER + 1 < LAYERS) copy_all_weights<LAYER + 1>(call);
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
    coopmat_simt_mlp_forward(const Storage *parameters, const Storage *x, Storage *y, Storage *tape, u32 batch) {
    extern __shared__ __align__(16) float shared[];
    const Call call{parameters, x, y, tape, batch, shared};
    copy_biases(parameters, shared + BIASES_AT);
    if (RESIDENT) copy_all_weights(call);
    Slabs ring;
#pragma unroll 1
    for (int stage = 0; stage + 1 < STAGES; ++stage) fill(call, ring);
    for (u32 tile = blockIdx.x; (u64)tile * SAMPLES < batch; tile += gridDim.x) layer<0>(call, ring, tile);
}
