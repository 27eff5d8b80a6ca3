// Exact 32-bit matrix tiles: all layers of a tile of SAMPLES samples in one kernel, after the
// weights were arranged.
#include "coopmat/simt/terms/ring.cuh"

constexpr int BIASES_AT = AFTER_RING;
static_assert(BIASES_AT + tape_at(LAYERS) == VALUES_AT, "the host's sum");

struct Call {
    Storage *y, *tape;
};

template <int LAYER>
__device__ __forceinline__ void layer(Pass &pass, HeldSlabs &ring, const Call &call, u64 first) {
    using S = Shape<LAYER>;
    constexpr bool LAST = LAYER + 1 == LAYERS;
    float *const values = pass.shared + values_at(LAYER);
    const float *const biases = pass.shared + BIASES_AT + tape_at(LAYER);
    if (RESIDENT && LAYER > 0) __syncthreads();
#pragma unroll 1
    for (int number = 0; number < S::PASSES; ++number) {
        float sums[S::ROWS][S::COLUMNS] = {};
        product<LAYER>(pass, ring, number, sums);
        // The results take the place of the values below, when all threads have read those.
        if (LAYER > 0 && !LAST && VALUES_OF_EVEN == 0) __syncthreads();
        const int output = number * S::WIDTH + S::first_output();
        finish<LAYER>(sums, biases, output, call.y, call.tape, pass.batch,
                      [&](Storage *to) { put<LAYER>(to, first, pass.batch, output, sums); });
        if (!LAST)
#pragma unroll
            for (int j = 0; j < S::COLUMNS; ++j)
                if (S::N % S::WIDTH == 0 || output + j * LANES_ACROSS < S::N) {
                    float *const column = values + (output + j * LANES_ACROSS) * PITCH + S::first_row();
                    write_column<S>(column, sums, j);
                }
    }
    if constexpr (!LAST) layer<LAYER + 1>(pass, ring, call, first);
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
    coopmat_simt_mlp_forward_terms(const Storage *parameters, const Storage *x, Storage *y, Storage *tape, u32 batch) {
    extern __shared__ __align__(16) float shared[];
    const Call call{y, tape};
    Pass pass{x, shared, batch, streamed<LAYERS>(), {}};
    copy_biases(parameters, shared + BIASES_AT);
    HeldSlabs ring;
    begin_ring(pass, ring);
    for (u32 tile = blockIdx.x; (u64)tile * SAMPLES < batch; tile += gridDim.x) layer<0>(pass, ring, call, (u64)tile * SAMPLES);
}
