// What the kernels of whole passes for sm_90a share: weights and biases in shared memory, and what
// becomes of a layer's sums.
#include "tile/fragment.cuh"
#include "tile/ring.cuh"
#include "tile/wgmma.cuh"

// All weights in shared memory: for each layer its chunks, with rows of zeros up to a multiple of
// 16.
__device__ constexpr int rows_in_chunk(int layer) { return steps_of(width(layer + 1)) * 16; }
__device__ constexpr int chunk_bytes(int layer) { return rows_in_chunk(layer) * ROW_BYTES; }
__device__ constexpr int weights_before(int layer) {
    return layer == 0 ? 0 : weights_before(layer - 1) + chunks_of(width(layer - 1)) * chunk_bytes(layer - 1);
}

template <int THREADS, int LAYER = 0>
__device__ __forceinline__ void place_weights(const Storage *parameters, char *shared) {
    constexpr int K = width(LAYER), N = width(LAYER + 1);
    place_matrix<THREADS, rows_in_chunk(LAYER), chunks_of(K), 8>(shared + weights_before(LAYER), parameters + weights_at(LAYER), N,
                                                                 K, K);
    if constexpr (LAYER + 1 < LAYERS) place_weights<THREADS, LAYER + 1>(parameters, shared);
}

// Biases, one layer after the other: where those of a layer begin, as on the tape.
constexpr int ALL_BIASES = tape_at(LAYERS);

template <int LAYER = 0>
__device__ __forceinline__ void place_biases(const Storage *parameters, Storage *biases) {
    for (int i = threadIdx.x; i < width(LAYER + 1); i += blockDim.x) biases[tape_at(LAYER) + i] = parameters[biases_at(LAYER) + i];
    if constexpr (LAYER + 1 < LAYERS) place_biases<LAYER + 1>(parameters, biases);
}

// Where results go. Without a tape, nothing is kept.
struct Results {
    const Storage *biases;
    Storage *y, *tape;
};

// Bias, activation: the sums of a part of a layer become words, which are at once a first operand
// of the next product. Outputs and what the tape keeps go to memory.
template <int LAYER, int PART>
__device__ __forceinline__ void finish(const float (&d)[columns_of(width(LAYER + 1), PART) / 2], u32 *words, const Results &results,
                                       Rows rows) {
    constexpr int N = width(LAYER + 1), COLUMNS = columns_of(N, PART), COLUMN = column_of(N, PART), ACTIVATION = activation_of(LAYER);
    constexpr bool KEEPS_SUMS = !slope_from_output<ACTIVATION>();
    const Storage *biases = results.biases + tape_at(LAYER) + COLUMN + 2 * rows.quarter;
    Storage *outputs = LAYER + 1 == LAYERS ? results.y : nullptr, *kept = nullptr;
    if constexpr (keeps(LAYER))
        if (results.tape) kept = layer_of(results.tape, LAYER, rows.batch);
#pragma unroll
    for (int first = 0; first < COLUMNS; first += 32) {
        u32 sums[8];
#pragma unroll
        for (int c = first; c < first + 32 && c < COLUMNS; c += 8) {
            const u32 bias = *reinterpret_cast<const u32 *>(biases + c);
            const float low = widen_low(bias), high = widen_high(bias);
            const float z0 = d[c / 2] + low, z1 = d[c / 2 + 1] + high, z2 = d[c / 2 + 2] + low, z3 = d[c / 2 + 3] + high;
            words[c / 4] = activate2<ACTIVATION>(z0, z1);
            words[c / 4 + 1] = activate2<ACTIVATION>(z2, z3);
            if constexpr (KEEPS_SUMS) sums[(c - first) / 4] = narrow2(z0, z1), sums[(c - first) / 4 + 1] = narrow2(z2, z3);
        }
        if (outputs) store_some<COLUMNS>(words + first / 4, outputs, N, COLUMN, first, rows);
        if (kept) store_some<COLUMNS>(KEEPS_SUMS ? sums : words + first / 4, kept, N, COLUMN, first, rows);
    }
}
