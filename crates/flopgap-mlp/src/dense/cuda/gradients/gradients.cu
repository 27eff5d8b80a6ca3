// The gradients by the parameters: for each layer, the product of its deltas and of what it took, summed over the samples. A block has a tile of a
// layer's weights and a range of the samples; a thread has up to 8 x 8 sums in registers. The sums of a range go to a copy of the parameters of
// their own, which a second kernel adds, or are added atomically (ATOMIC).
//
// `tiles.cuh` comes before it, and the plan: THREADS, SLAB samples at a time, STAGES; for each layer tile_rows(l) x tile_columns(l) sums a thread,
// warps_down(l) x warps_across(l) warps that share a tile. The warps that are left take samples in turn.

constexpr int WARPS = THREADS / 32;
// A warp is 4 x 8 threads; each has fours of rows and of columns.
constexpr int ROW_FOURS = 16, COLUMN_FOURS = 32;

template <int LAYER>
struct Tile {
    static constexpr int K = width(LAYER), N = width(LAYER + 1);
    static constexpr int ROWS = tile_rows(LAYER), COLUMNS = tile_columns(LAYER);
    static constexpr int DOWN = warps_down(LAYER), ACROSS = warps_across(LAYER), PARTS = WARPS / (DOWN * ACROSS);
    static constexpr int HEIGHT = DOWN * 4 * ROWS, WIDTH = ACROSS * 8 * COLUMNS;
    static constexpr int TILES_ACROSS = (K + WIDTH - 1) / WIDTH, TILES = (N + HEIGHT - 1) / HEIGHT * TILES_ACROSS;
    static_assert(SLAB % PARTS == 0 && ROWS % 4 == 0 && COLUMNS % 4 == 0, "whole shares");
};

struct Call {
    const Storage *x, *tape, *deltas;
    float *sums;
    u32 batch, begin, end;
    float *shared;
};

// A slab of samples of both factors. Samples beyond the end count as zeros.
template <int COUNT, int STRIDE, bool CHECKED>
__device__ __forceinline__ void copy_samples(float *to, const Storage *from, int samples, int count) {
    copy_rows<SLAB, COUNT, STRIDE, COUNT, THREADS, CHECKED>(to, from, samples, count);
    for (int i = samples * COUNT + threadIdx.x; i < SLAB * COUNT; i += THREADS) to[i] = 0.0f;
}

template <int LAYER>
__device__ __forceinline__ void fill(const Call &call, int stage, u32 sample, int first_row, int first_column) {
    using T = Tile<LAYER>;
    if (sample < call.end) {
        const int samples = call.end - sample < SLAB ? (int)(call.end - sample) : SLAB;
        float *const to = call.shared + stage * SLAB * (T::HEIGHT + T::WIDTH);
        const Storage *const deltas = call.deltas + (u64)widths_before<LAYER>() * call.batch + (u64)sample * T::N + first_row;
        const Storage *const below = LAYER == 0 ? call.x : call.tape + (u64)widths_before<LAYER == 0 ? 0 : LAYER - 1>() * call.batch;
        copy_samples<T::HEIGHT, T::N, true>(to, deltas, samples, T::N - first_row);
        copy_samples<T::WIDTH, T::K, true>(to + SLAB * T::HEIGHT, below + (u64)sample * T::K + first_column, samples, T::K - first_column);
    }
    end_of_group();
}

// What a layer took, where the tape keeps the sums before the activation below.
template <int LAYER>
__device__ __forceinline__ float below(float kept) {
    if constexpr (LAYER > 0)
        if constexpr (!slope_from_output<activation_of<LAYER - 1>()>()) return stored(activate<activation_of<LAYER - 1>()>(kept));
    return kept;
}

template <int LAYER>
__device__ __forceinline__ void add(float *to, float value) {
#if ATOMIC
    atomicAdd(to, value);
#else
    *to = value;
#endif
}

template <int LAYER>
__device__ __forceinline__ void tile(const Call &call, int index) {
    using T = Tile<LAYER>;
    constexpr int STAGE = SLAB * (T::HEIGHT + T::WIDTH), SHARE = SLAB / T::PARTS;
    constexpr bool KEPT_SUMS = LAYER > 0 && !slope_from_output<HIDDEN_ACTIVATION>();
    const int first_row = index / T::TILES_ACROSS * T::HEIGHT, first_column = index % T::TILES_ACROSS * T::WIDTH;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, part = warp / (T::DOWN * T::ACROSS), within = warp % (T::DOWN * T::ACROSS);
    const int row = within % T::DOWN * 4 * T::ROWS + lane / 8 * 4, column = within / T::DOWN * 8 * T::COLUMNS + lane % 8 * 4;
    float sums[T::ROWS][T::COLUMNS], bias = 0.0f;
#pragma unroll
    for (int i = 0; i < T::ROWS; ++i)
#pragma unroll
        for (int j = 0; j < T::COLUMNS; ++j) sums[i][j] = 0.0f;
#pragma unroll 1
    for (int stage = 0; stage + 1 < STAGES; ++stage) fill<LAYER>(call, stage, call.begin + stage * SLAB, first_row, first_column);
    int used = 0, filled = STAGES - 1;
#pragma unroll 1
    for (u32 sample = call.begin; sample < call.end; sample += SLAB) {
        wait_for_groups<STAGES - 2>();
        __syncthreads();
        fill<LAYER>(call, filled, sample + (STAGES - 1) * SLAB, first_row, first_column);
        float *const deltas = call.shared + used * STAGE, *const values = deltas + SLAB * T::HEIGHT;
        if (KEPT_SUMS) {
#pragma unroll 1
            for (int i = threadIdx.x; i < SLAB * T::WIDTH; i += THREADS) values[i] = below<LAYER>(values[i]);
            __syncthreads();
        }
        if (first_column == 0 && threadIdx.x < T::HEIGHT) {
#pragma unroll 8
            for (int s = 0; s < SLAB; ++s) bias += deltas[s * T::HEIGHT + threadIdx.x];
        }
#pragma unroll 4
        for (int s = 0; s < SHARE; ++s) {
            const float *const a = deltas + (part * SHARE + s) * T::HEIGHT + row, *const b = values + (part * SHARE + s) * T::WIDTH + column;
            float rows[T::ROWS], columns[T::COLUMNS];
#pragma unroll
            for (int i = 0; i < T::ROWS; i += 4) {
                const float4 v = *reinterpret_cast<const float4 *>(a + i / 4 * ROW_FOURS);
                rows[i] = v.x, rows[i + 1] = v.y, rows[i + 2] = v.z, rows[i + 3] = v.w;
            }
#pragma unroll
            for (int j = 0; j < T::COLUMNS; j += 4) {
                const float4 v = *reinterpret_cast<const float4 *>(b + j / 4 * COLUMN_FOURS);
                columns[j] = v.x, columns[j + 1] = v.y, columns[j + 2] = v.z, columns[j + 3] = v.w;
            }
            // Back and forth, so that of two multiply-adds in a row one factor is the same: it comes from the cache of operands, and the other two
            // from the two banks of the registers.
#pragma unroll
            for (int j = 0; j < T::COLUMNS; ++j)
#pragma unroll
                for (int c = 0; c < T::ROWS; ++c) {
                    const int i = j % 2 == 0 ? c : T::ROWS - 1 - c;
                    sums[i][j] = fmaf(rows[i], columns[j], sums[i][j]);
                }
        }
        used = used + 1 == STAGES ? 0 : used + 1;
        filled = filled + 1 == STAGES ? 0 : filled + 1;
    }
    if (first_column == 0 && threadIdx.x < T::HEIGHT && first_row + threadIdx.x < T::N)
        add<LAYER>(call.sums + biases_at(LAYER) + first_row + threadIdx.x, bias);
    // The parts of a block are added in their order.
    if constexpr (T::PARTS > 1) {
        constexpr int NUMBERS = T::ROWS * T::COLUMNS, SHARING = 32 * T::DOWN * T::ACROSS;
        static_assert(NUMBERS * SHARING <= EXCHANGE, "the host's bound");
        const int thread = within * 32 + lane;
        wait_for_groups<0>();
#pragma unroll 1
        for (int p = 1; p < T::PARTS; ++p) {
            __syncthreads();
            if (part == p) {
#pragma unroll
                for (int f = 0; f < NUMBERS; ++f) call.shared[f * SHARING + thread] = sums[f / T::COLUMNS][f % T::COLUMNS];
            }
            __syncthreads();
            if (part == 0) {
#pragma unroll
                for (int f = 0; f < NUMBERS; ++f) sums[f / T::COLUMNS][f % T::COLUMNS] += call.shared[f * SHARING + thread];
            }
        }
        if (part > 0) return;
    }
#pragma unroll
    for (int i = 0; i < T::ROWS; ++i) {
        const int n = first_row + row + i / 4 * ROW_FOURS + i % 4;
        if (n >= T::N) continue;
#pragma unroll
        for (int j = 0; j < T::COLUMNS; j += 4) {
            const int k = first_column + column + j / 4 * COLUMN_FOURS;
            if (k >= T::K) continue;
            float *const to = call.sums + weights_at(LAYER) + (u64)n * T::K + k;
#if ATOMIC
            for (int c = 0; c < 4; ++c) atomicAdd(to + c, sums[i][j + c]);
#else
            *reinterpret_cast<float4 *>(to) = make_float4(sums[i][j], sums[i][j + 1], sums[i][j + 2], sums[i][j + 3]);
#endif
        }
    }
}

template <int LAYER>
__device__ __forceinline__ void tile_of(const Call &call, int index) {
    if constexpr (LAYER + 1 < LAYERS) {
        if (index >= Tile<LAYER>::TILES) {
            tile_of<LAYER + 1>(call, index - Tile<LAYER>::TILES);
            return;
        }
    }
    tile<LAYER>(call, index);
}

// Blocks: TILES tiles of all layers for each range of `each` samples.
extern "C" __global__ void __launch_bounds__(THREADS)
    scalar_mlp_gradients(const Storage *x, const Storage *tape, const Storage *deltas, float *sums, u32 batch, u32 each) {
    extern __shared__ __align__(16) float shared[];
    const u32 range = blockIdx.x / TILES, begin = range * each;
    const u32 end = batch - begin < each ? batch : begin + each;
    const Call call{x, tape, deltas, ATOMIC ? sums : sums + (u64)range * PARAMETERS, batch, begin, end, shared};
    tile_of<0>(call, blockIdx.x % TILES);
}

// gradients = the sum over the ranges, in a fixed order: a thread adds every eighth, then the eight are added.
extern "C" __global__ void __launch_bounds__(256) scalar_mlp_gradients_sum(const float *sums, float *gradients, u32 ranges) {
    __shared__ float4 parts[8][32];
    const int lane = threadIdx.x % 32, part = threadIdx.x / 32;
    const u32 at = (blockIdx.x * 32 + lane) * 4;
    float4 sum = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    if (at < PARAMETERS) {
#pragma unroll 4
        for (u32 range = part; range < ranges; range += 8) {
            const float4 v = *reinterpret_cast<const float4 *>(sums + (u64)range * PARAMETERS + at);
            sum.x += v.x, sum.y += v.y, sum.z += v.z, sum.w += v.w;
        }
    }
    parts[part][lane] = sum;
    __syncthreads();
    if (part == 0 && at < PARAMETERS) {
#pragma unroll
        for (int p = 1; p < 8; ++p) {
            const float4 v = parts[p][lane];
            sum.x += v.x, sum.y += v.y, sum.z += v.z, sum.w += v.w;
        }
        *reinterpret_cast<float4 *>(gradients + at) = sum;
    }
}
