// The gradients by the parameters: for each layer, the product of its deltas and of what it took, summed over the samples. A block has a tile of a
// layer's weights and a range of the samples; a thread has up to 16 x 8 sums in registers. Rows of both factors are samples, so they lie by the inner
// sum as they are. The sums of a range go to a copy of the parameters of their own, which a second kernel adds, or are added atomically (ATOMIC).
//
// `tiles.cuh` comes before it, and the plan: THREADS, BLOCKS, SLAB samples at a time, STAGES; for each layer tile_rows(l) x tile_columns(l) sums a
// thread, warps_down(l) x warps_across(l) warps that share a tile. The warps that are left take samples in turn.

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
    // Samples of a slab that a warp takes, and those of an unrolled loop.
    static constexpr int SHARE = SLAB / PARTS, GROUP = SHARE < 8 ? SHARE : 8;
    static_assert(SHARE % 2 == 0 && SHARE % GROUP == 0 && ROWS % 4 == 0 && COLUMNS % 4 == 0, "whole shares");
};

struct Call {
    const Storage *x, *tape, *deltas;
    float *sums;
    u32 batch, begin, end;
    float *shared;
};

// A slab of samples of both factors. Samples beyond the end count as zeros.
template <int COUNT, int STRIDE>
__device__ __forceinline__ void copy_samples(float *to, const Storage *from, int samples, int count) {
    if (samples == SLAB) {
        copy_rows<SLAB, COUNT, STRIDE, COUNT, THREADS, STRIDE % COUNT != 0>(to, from, SLAB, count);
        return;
    }
#pragma unroll 1
    for (int i = threadIdx.x; i < SLAB * (COUNT / 4); i += THREADS) {
        const int sample = i / (COUNT / 4), number = i % (COUNT / 4) * 4;
        if (sample >= samples) *reinterpret_cast<float4 *>(to + i * 4) = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        else if (number < count) copy4(to + i * 4, from + (u64)sample * STRIDE + number);
    }
}

template <int LAYER>
__device__ __forceinline__ void fill(const Call &call, int stage, u32 sample, int first_row, int first_column) {
    using T = Tile<LAYER>;
    if (sample < call.end) {
        const int samples = call.end - sample < SLAB ? (int)(call.end - sample) : SLAB;
        float *const to = call.shared + stage * SLAB * (T::HEIGHT + T::WIDTH);
        const Storage *const deltas = call.deltas + (u64)widths_before<LAYER>() * call.batch + (u64)sample * T::N + first_row;
        const Storage *const below = LAYER == 0 ? call.x : call.tape + (u64)widths_before<LAYER == 0 ? 0 : LAYER - 1>() * call.batch;
        copy_samples<T::HEIGHT, T::N>(to, deltas, samples, T::N - first_row);
        copy_samples<T::WIDTH, T::K>(to + SLAB * T::HEIGHT, below + (u64)sample * T::K + first_column, samples, T::K - first_column);
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

__device__ __forceinline__ void add(float *to, float value) {
#if ATOMIC
    atomicAdd(to, value);
#else
    *to = value;
#endif
}

// COUNT numbers, in fours that are STRIDE apart.
template <int COUNT, int STRIDE>
__device__ __forceinline__ void read_fours(float (&to)[COUNT], const float *from) {
#pragma unroll
    for (int i = 0; i < COUNT; i += 4) {
        const float4 v = *reinterpret_cast<const float4 *>(from + i / 4 * STRIDE);
        to[i] = v.x, to[i + 1] = v.y, to[i + 2] = v.z, to[i + 3] = v.w;
    }
}

template <int LAYER>
__device__ __forceinline__ void tile(const Call &call, int index) {
    using T = Tile<LAYER>;
    constexpr int STAGE = SLAB * (T::HEIGHT + T::WIDTH), GROUPS = T::SHARE / T::GROUP;
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
    float a[2][T::ROWS], b[2][T::COLUMNS];
    const float *left, *right;
    // The slab that begins at `sample`, ready for all threads; the stage before it is filled again.
    const auto begin_slab = [&](u32 sample) {
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
        left = deltas + part * T::SHARE * T::HEIGHT + row, right = values + part * T::SHARE * T::WIDTH + column;
        used = used + 1 == STAGES ? 0 : used + 1;
        filled = filled + 1 == STAGES ? 0 : filled + 1;
    };
    const auto read_both = [&](int s, int buffer) {
        read_fours<T::ROWS, ROW_FOURS>(a[buffer], left + s * T::HEIGHT);
        read_fours<T::COLUMNS, COLUMN_FOURS>(b[buffer], right + s * T::WIDTH);
    };
    begin_slab(call.begin);
    read_both(0, 0);
    int group = 0;
    u32 sample = call.begin;
#pragma unroll 1
    while (sample < call.end) {
#pragma unroll
        for (int s = 0; s < T::GROUP; ++s) {
            // The factors of the next sample are read while this one's are multiplied, also from slab to slab.
            if (s + 1 < T::GROUP) read_both(s + 1, (s + 1) % 2);
            else {
                left += T::GROUP * T::HEIGHT, right += T::GROUP * T::WIDTH;
                if (++group == GROUPS) {
                    group = 0, sample += SLAB;
                    if (sample < call.end) begin_slab(sample);
                    else left = call.shared + row, right = call.shared + column;
                }
                read_both(0, 0);
            }
            multiply(a[s % 2], b[s % 2], sums);
        }
    }
    if (first_column == 0 && threadIdx.x < T::HEIGHT && first_row + threadIdx.x < T::N)
        add(call.sums + biases_at(LAYER) + first_row + threadIdx.x, bias);
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
            // One by one: numbers that are stored as one have registers in order, whose banks are then those of the factors that go with them.
#pragma unroll
            for (int c = 0; c < 4; ++c) add(call.sums + weights_at(LAYER) + (u64)n * T::K + k + c, sums[i][j + c]);
        }
    }
}

// Layer after layer, range after range: what the blocks of a range read, they find in the cache.
template <int LAYER>
__device__ __forceinline__ void tile_of(Call &call, u32 block, u32 ranges, u32 each) {
    constexpr u32 TILES = Tile<LAYER>::TILES;
    if constexpr (LAYER + 1 < LAYERS) {
        if (block >= TILES * ranges) {
            tile_of<LAYER + 1>(call, block - TILES * ranges, ranges, each);
            return;
        }
    }
    const u32 range = block / TILES;
    call.begin = range * each, call.end = call.batch - call.begin < each ? call.batch : call.begin + each;
    if (!ATOMIC) call.sums += (u64)range * PARAMETERS;
    tile<LAYER>(call, block % TILES);
}

// Blocks: the tiles of all layers for each range of `each` samples.
extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
    scalar_mlp_gradients(const Storage *x, const Storage *tape, const Storage *deltas, float *sums, u32 batch, u32 ranges, u32 each) {
    extern __shared__ __align__(16) float shared[];
    Call call{x, tape, deltas, sums, batch, 0, 0, shared};
    tile_of<0>(call, blockIdx.x, ranges, each);
}

// gradients = the sum over the ranges, in a fixed order: a thread adds every 32nd, then the 32 are added.
constexpr int SUM_LANES = 8, SUM_PARTS = 32;

extern "C" __global__ void __launch_bounds__(SUM_LANES *SUM_PARTS) scalar_mlp_gradients_sum(const float *sums, float *gradients, u32 ranges) {
    __shared__ float4 parts[SUM_PARTS][SUM_LANES];
    const int lane = threadIdx.x % SUM_LANES, part = threadIdx.x / SUM_LANES;
    const u32 at = (blockIdx.x * SUM_LANES + lane) * 4;
    float4 sum = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    if (at < PARAMETERS) {
#pragma unroll 8
        for (u32 range = part; range < ranges; range += SUM_PARTS) {
            const float4 v = *reinterpret_cast<const float4 *>(sums + (u64)range * PARAMETERS + at);
            sum.x += v.x, sum.y += v.y, sum.z += v.z, sum.w += v.w;
        }
    }
    parts[part][lane] = sum;
    __syncthreads();
    if (part == 0 && at < PARAMETERS) {
#pragma unroll 8
        for (int p = 1; p < SUM_PARTS; ++p) {
            const float4 v = parts[p][lane];
            sum.x += v.x, sum.y += v.y, sum.z += v.z, sum.w += v.w;
        }
        *reinterpret_cast<float4 *>(gradients + at) = sum;
    }
}
