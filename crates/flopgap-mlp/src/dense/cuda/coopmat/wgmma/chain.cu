// The gradients before every activation, from the outputs down to the inputs, for the gradients of the parameters, and the gradients by the inputs:
// all layers in one kernel, a tile of 64 samples for each of GROUPS warpgroups, in registers from layer to layer. Weights lie in shared memory as
// in the forward pass: `wgmma` takes them transposed. What comes from the forward pass is loaded before the product that it waits for.

constexpr int TILE = 64;  // samples
constexpr int THREADS = GROUPS * 128;
static_assert(weights_before(LAYERS) == SHARED_BYTES, "as the host counts");

struct Arrays {
    const Storage *y, *dy, *tape;
    Storage *dx, *deltas, *activations;
};

// Derivatives where `words` has what the tape keeps.
template <int ACTIVATION>
__device__ __forceinline__ float slope_on_tape(float a) {
    if constexpr (slope_from_output<ACTIVATION>()) return slope_at_output<ACTIVATION>(a);
    else return slope<ACTIVATION>(a);
}
template <int ACTIVATION>
__device__ __forceinline__ u32 times_slope(float low, float high, u32 kept) {
    return narrow2(low * slope_on_tape<ACTIVATION>(widen_low(kept)), high * slope_on_tape<ACTIVATION>(widen_high(kept)));
}

__device__ constexpr int group_of(int columns, int first) { return columns - first < 32 ? columns - first : 32; }

// A run of columns as they lie in memory, 32 at a time.
template <int COLUMNS>
struct Run {
    Units<32> whole[COLUMNS / 32 + 1];
    Units<COLUMNS % 32 == 0 ? 8 : COLUMNS % 32> rest;

    __device__ __forceinline__ void load(const Storage *matrix, int stride, int column, Rows rows) {
#pragma unroll
        for (int i = 0; i < COLUMNS / 32; ++i) whole[i].load(matrix, stride, column + 32 * i, rows);
        if constexpr (COLUMNS % 32 != 0) rest.load(matrix, stride, column + COLUMNS / 32 * 32, rows);
    }
    // Words of the columns from `first` on.
    __device__ __forceinline__ void words(int first, u32 *to, int quarter) const {
        if (first + 32 <= COLUMNS) whole[first / 32].words(to, quarter);
        else rest.words(to, quarter);
    }
};

template <int COLUMNS>
__device__ __forceinline__ void store_run(const u32 *words, Storage *matrix, int stride, int column, int first, Rows rows) {
    if (first + 32 <= COLUMNS) store_columns<32>(words, matrix, stride, column + first, rows);
    else if constexpr (COLUMNS % 32 != 0) store_columns<COLUMNS % 32>(words, matrix, stride, column + first, rows);
}

// A part of the columns below a layer: what `deltas`, the layer's own gradients, come to there.
template <int LAYER, int PART = 0>
__device__ __forceinline__ void below(const u32 *deltas, u32 *words, u32 shared, const Arrays &arrays, Rows rows) {
    constexpr int K = width(LAYER + 1), N = width(LAYER), COLUMNS = columns_of(N, PART);
    const u64 weights = operand_across(shared + weights_before(LAYER) + 4 * PART * chunk_bytes(LAYER), chunk_bytes(LAYER));
    const Storage *tape = arrays.tape + (u64)tape_at(LAYER - 1 < 0 ? 0 : LAYER - 1) * rows.batch;
    // Early where registers allow it.
    constexpr bool EARLY = LAYER > 0 && 4 * steps_of(K) + COLUMNS / 2 + COLUMNS / 4 <= REGISTERS;
    Run<COLUMNS> kept;
    if constexpr (EARLY) kept.load(tape, N, 256 * PART, rows);
    float d[COLUMNS / 2];
    wgmma_begin();
#pragma unroll
    for (int step = 0; step < steps_of(K); ++step)
        wgmma<1>(d, deltas[4 * step], deltas[4 * step + 1], deltas[4 * step + 2], deltas[4 * step + 3], weights + 128 * step, step > 0);
    wgmma_commit();
    wgmma_wait<0>();
    sums_are_there(d);
    if constexpr (LAYER > 0 && !EARLY) kept.load(tape, N, 256 * PART, rows);
#pragma unroll
    for (int first = 0; first < COLUMNS; first += 32) {
        u32 slopes[8], activations[8];
        if constexpr (LAYER > 0) kept.words(first, slopes, rows.quarter);
        u32 *out = words + first / 4;
#pragma unroll
        for (int i = 0; i < 8; ++i) {
            if (4 * i >= COLUMNS - first) continue;
            const float low = d[first / 2 + i * 2], high = d[first / 2 + i * 2 + 1];
            if constexpr (LAYER == 0) out[i] = narrow2(low, high);
            else out[i] = times_slope<HIDDEN_ACTIVATION>(low, high, slopes[i]);
            if constexpr (LAYER > 0 && !slope_from_output<HIDDEN_ACTIVATION>())
                activations[i] = narrow2(activate<HIDDEN_ACTIVATION>(widen_low(slopes[i])), activate<HIDDEN_ACTIVATION>(widen_high(slopes[i])));
        }
        if constexpr (LAYER == 0) {
            store_run<COLUMNS>(out, arrays.dx, N, 256 * PART, first, rows);
        } else {
            const u64 here = (u64)tape_at(LAYER - 1) * rows.batch;
            store_run<COLUMNS>(out, arrays.deltas + here, N, 256 * PART, first, rows);
            if constexpr (!slope_from_output<HIDDEN_ACTIVATION>())
                store_run<COLUMNS>(activations, arrays.activations + here, N, 256 * PART, first, rows);
        }
    }
    if constexpr (PART + 1 < parts_of(N)) below<LAYER, PART + 1>(deltas, LAYER == 0 ? words : words + 64, shared, arrays, rows);
}

template <int LAYER>
__device__ __forceinline__ void layers_below(const u32 *deltas, u32 shared, const Arrays &arrays, Rows rows) {
    if constexpr (LAYER > 0) {
        u32 words[4 * steps_of(width(LAYER))] = {};
        below<LAYER>(deltas, words, shared, arrays, rows);
        layers_below<LAYER - 1>(words, shared, arrays, rows);
    } else if (arrays.dx) {
        u32 words[4 * steps_of(columns_of(width(0), 0))];
        below<0>(deltas, words, shared, arrays, rows);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, 1)
    coopmat_mlp_backward_wgmma_chain(const Storage *parameters, const Storage *y, const Storage *dy, const Storage *tape, Storage *dx,
                                     Storage *deltas, Storage *activations, u32 batch) {
    extern __shared__ __align__(1024) char shared[];
    const u32 base = shared_address(shared);
    place_weights<THREADS>(parameters, shared);
    written_for_async();
    __syncthreads();

    constexpr bool AT_OUTPUT = slope_from_output<OUTPUT_ACTIVATION>();
    const Arrays arrays{y, dy, tape, dx, deltas, activations};
    const int warp = uniform(threadIdx.x / 32), lane = threadIdx.x % 32;
    const u64 last = (u64)tape_at(LAYERS - 1) * batch;
    const u32 tiles = (batch + TILE - 1) / TILE;
    for (u32 tile = blockIdx.x + warp / 4 * gridDim.x; tile < tiles; tile += GROUPS * gridDim.x) {
        const Rows rows{tile * TILE + warp % 4 * 16 + lane / 4, batch, lane % 4};
        u32 words[4 * steps_of(OUTPUTS)] = {};
        Run<OUTPUTS> gradients, kept;
        gradients.load(dy, OUTPUTS, 0, rows);
        if constexpr (OUTPUT_ACTIVATION != IDENTITY) kept.load(AT_OUTPUT ? y : tape + last, OUTPUTS, 0, rows);
#pragma unroll
        for (int first = 0; first < OUTPUTS; first += 32) {
            u32 *out = words + first / 4;
            u32 slopes[8];
            gradients.words(first, out, rows.quarter);
            if constexpr (OUTPUT_ACTIVATION != IDENTITY) {
                kept.words(first, slopes, rows.quarter);
#pragma unroll
                for (int i = 0; i < 8; ++i)
                    if (4 * i < OUTPUTS - first) out[i] = times_slope<OUTPUT_ACTIVATION>(widen_low(out[i]), widen_high(out[i]), slopes[i]);
            }
            store_run<OUTPUTS>(out, deltas + last, OUTPUTS, 0, first, rows);
        }
        layers_below<LAYERS - 1>(words, base, arrays, rows);
    }
}
