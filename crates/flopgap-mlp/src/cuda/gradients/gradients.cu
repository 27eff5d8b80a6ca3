// The gradients by the parameters: for each layer, the product of its deltas and of what it took,
// summed over the samples. A block has a tile of a layer's weights and a range of the samples; a
// thread has up to 16 x 8 sums in registers. Rows of both factors are samples, so they lie by the
// inner sum as they are. The sums of a range go to a copy of the parameters of their own, which a
// second kernel adds, or are added atomically (ATOMIC).
//
// The plan: THREADS, BLOCKS, SLAB samples at a time, STAGES; for each layer tile_rows(l) x
// tile_columns(l) sums a thread, warps_down(l) x warps_across(l) warps that share a tile. The warps
// that are left take samples in turn. ALIKE: all layers have the same tile, and share its code,
// which reads their widths at run time; otherwise every layer has its own. PAIRS: rows are those of
// `tangent.cu`, of which every second one has a delta that biases see.
#include "tile/reduce.cuh"
#include "tile/scalar.cuh"

constexpr int WARPS = THREADS / 32;
// A warp is 4 x 8 threads; each has fours of rows and of columns.
constexpr int ROW_FOURS = 16, COLUMN_FOURS = 32;

template <int ROWS_, int COLUMNS_, int DOWN_, int ACROSS_>
struct Block {
    static constexpr int ROWS = ROWS_, COLUMNS = COLUMNS_, DOWN = DOWN_, ACROSS = ACROSS_, PARTS = WARPS / (DOWN * ACROSS);
    static constexpr int HEIGHT = DOWN * 4 * ROWS, WIDTH = ACROSS * 8 * COLUMNS;
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

#if ALIKE
// The same where the width of a row is known at run time.
template <int COUNT>
__device__ __forceinline__ void copy_samples(float *to, const Storage *from, int stride, int samples, int count) {
#pragma unroll 1
    for (int i = threadIdx.x; i < SLAB * (COUNT / 4); i += THREADS) {
        const int sample = i / (COUNT / 4), number = i % (COUNT / 4) * 4;
        if (sample >= samples) *reinterpret_cast<float4 *>(to + i * 4) = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        else if (number < count) copy4(to + i * 4, from + (u64)sample * stride + number);
    }
}

// The tile of any layer.
struct Tile : Block<tile_rows(0), tile_columns(0), warps_down(0), warps_across(0)> {
    int layer, K, N, weights_begin;
    // Widths of the layers before it, and of those before the one below.
    u64 before, before_below;

    __device__ __forceinline__ explicit Tile(int layer)
        : layer(layer), K(width(layer)), N(width(layer + 1)), weights_begin(weights_at(layer)), before(tape_at(layer)),
          before_below(layer == 0 ? 0 : tape_at(layer - 1)) {}
    __device__ __forceinline__ int tiles_across() const { return (K + WIDTH - 1) / WIDTH; }
    __device__ __forceinline__ int tiles() const { return (N + HEIGHT - 1) / HEIGHT * tiles_across(); }
    __device__ __forceinline__ bool first() const { return layer == 0; }
    __device__ __forceinline__ int weights() const { return weights_begin; }
    __device__ __forceinline__ int biases() const { return weights_begin + N * K; }
    __device__ __forceinline__ void copy_deltas(float *to, const Storage *from, int samples, int row) const {
        copy_samples<HEIGHT>(to, from + row, N, samples, N - row);
    }
    __device__ __forceinline__ void copy_below(float *to, const Storage *from, int samples, int column) const {
        copy_samples<WIDTH>(to, from + column, K, samples, K - column);
    }
};
#else
// The tile of a layer.
template <int LAYER>
struct Tile : Block<tile_rows(LAYER), tile_columns(LAYER), warps_down(LAYER), warps_across(LAYER)> {
    using Own = Block<tile_rows(LAYER), tile_columns(LAYER), warps_down(LAYER), warps_across(LAYER)>;
    static constexpr int K = width(LAYER), N = width(LAYER + 1);
    static constexpr int TILES_ACROSS = (K + Own::WIDTH - 1) / Own::WIDTH, TILES = (N + Own::HEIGHT - 1) / Own::HEIGHT * TILES_ACROSS;
    static constexpr u64 before = tape_at(LAYER), before_below = tape_at(LAYER == 0 ? 0 : LAYER - 1);
    static __device__ constexpr int tiles_across() { return TILES_ACROSS; }
    static __device__ constexpr bool first() { return LAYER == 0; }
    static __device__ constexpr int weights() { return weights_at(LAYER); }
    static __device__ constexpr int biases() { return biases_at(LAYER); }
    static __device__ __forceinline__ void copy_deltas(float *to, const Storage *from, int samples, int row) {
        copy_samples<Own::HEIGHT, N>(to, from + row, samples, N - row);
    }
    static __device__ __forceinline__ void copy_below(float *to, const Storage *from, int samples, int column) {
        copy_samples<Own::WIDTH, K>(to, from + column, samples, K - column);
    }
};
#endif

template <class T>
__device__ __forceinline__ void fill(const Call &call, T own, int stage, u32 sample, int first_row, int first_column) {
    if (sample < call.end) {
        const int samples = call.end - sample < SLAB ? (int)(call.end - sample) : SLAB;
        float *const to = call.shared + stage * SLAB * (T::HEIGHT + T::WIDTH);
        const Storage *const deltas = call.deltas + own.before * call.batch + (u64)sample * own.N;
        const Storage *const below = own.first() ? call.x : call.tape + own.before_below * call.batch;
        own.copy_deltas(to, deltas, samples, first_row);
        own.copy_below(to + SLAB * T::HEIGHT, below + (u64)sample * own.K, samples, first_column);
    }
}

// What a layer took, where the tape keeps the sums before the activation below.
__device__ __forceinline__ float below(float kept) {
    if constexpr (!slope_from_output<HIDDEN_ACTIVATION>()) return stored(activate<HIDDEN_ACTIVATION>(kept));
    return kept;
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

template <class T>
__device__ __forceinline__ void tile(const Call &call, T own, int index) {
    constexpr int STAGE = SLAB * (T::HEIGHT + T::WIDTH), GROUPS = T::SHARE / T::GROUP;
    const bool kept_sums = !PAIRS && !slope_from_output<HIDDEN_ACTIVATION>() && !own.first();
    const int first_row = index / own.tiles_across() * T::HEIGHT, first_column = index % own.tiles_across() * T::WIDTH;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, part = warp / (T::DOWN * T::ACROSS), within = warp % (T::DOWN * T::ACROSS);
    const int row = within % T::DOWN * 4 * T::ROWS + lane / 8 * 4, column = within / T::DOWN * 8 * T::COLUMNS + lane % 8 * 4;
    float sums[T::ROWS][T::COLUMNS], bias = 0.0f;
#pragma unroll
    for (int i = 0; i < T::ROWS; ++i)
#pragma unroll
        for (int j = 0; j < T::COLUMNS; ++j) sums[i][j] = 0.0f;
    CopyRing<STAGES, BACKGROUND> ring;
#pragma unroll 1
    for (int stage = 0; stage + 1 < STAGES; ++stage) {
        fill(call, own, stage, call.begin + stage * SLAB, first_row, first_column);
        ring.filled();
    }
    float a[2][T::ROWS], b[2][T::COLUMNS];
    const float *left, *right;
    // The slab that begins at `sample`, ready for all threads; the stage before it is filled again.
    const auto begin_slab = [&](u32 sample) {
        ring.wait();
        fill(call, own, ring.to_fill, sample + (STAGES - 1) * SLAB, first_row, first_column);
        ring.filled();
        float *const deltas = call.shared + ring.to_use * STAGE, *const values = deltas + SLAB * T::HEIGHT;
        if (kept_sums) {
#pragma unroll 1
            for (int i = threadIdx.x; i < SLAB * T::WIDTH; i += THREADS) values[i] = below(values[i]);
            __syncthreads();
        }
        if (first_column == 0 && threadIdx.x < T::HEIGHT) {
#pragma unroll 8
            for (int s = 0; s < SLAB; s += PAIRS ? 2 : 1) bias += deltas[s * T::HEIGHT + threadIdx.x];
        }
        left = deltas + part * T::SHARE * T::HEIGHT + row, right = values + part * T::SHARE * T::WIDTH + column;
        ring.used();
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
            // The factors of the next sample are read while this one's are multiplied, also from
            // slab to slab.
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
    if (first_column == 0 && threadIdx.x < T::HEIGHT && first_row + threadIdx.x < own.N)
        give<ATOMIC>(call.sums + own.biases() + first_row + threadIdx.x, bias);
    // The parts of a block are added in their order.
    if constexpr (T::PARTS > 1) {
        constexpr int NUMBERS = T::ROWS * T::COLUMNS, SHARING = 32 * T::DOWN * T::ACROSS;
        static_assert(NUMBERS * SHARING <= EXCHANGE, "the host's bound");
        const int thread = within * 32 + lane;
        if (BACKGROUND) wait_copies<0>();
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
        if (n >= own.N) continue;
#pragma unroll
        for (int j = 0; j < T::COLUMNS; j += 4) {
            const int k = first_column + column + j / 4 * COLUMN_FOURS;
            if (k >= own.K) continue;
            // One by one: numbers that are stored as one have registers in order, whose banks are
            // then those of the factors that go with them.
#pragma unroll
            for (int c = 0; c < 4; ++c) give<ATOMIC>(call.sums + own.weights() + (u64)n * own.K + k + c, sums[i][j + c]);
        }
    }
}

// The samples of a range, and where their sums go.
__device__ __forceinline__ void take_range(Call &call, u32 range, u32 each) {
    call.begin = range * each, call.end = call.batch - call.begin < each ? call.batch : call.begin + each;
    if (!ATOMIC) call.sums += (u64)range * PARAMETERS;
}

// Layer after layer, range after range: what the blocks of a range read, they find in the cache.
#if ALIKE
__device__ __forceinline__ void tile_of(Call &call, u32 block, u32 ranges, u32 each) {
    int layer = 0;
#pragma unroll 1
    for (u32 tiles; layer + 1 < LAYERS && block >= (tiles = Tile(layer).tiles() * ranges); ++layer) block -= tiles;
    const Tile own(layer);
    take_range(call, block / own.tiles(), each);
    tile(call, own, block % own.tiles());
}
#else
template <int LAYER = 0>
__device__ __forceinline__ void tile_of(Call &call, u32 block, u32 ranges, u32 each) {
    constexpr u32 TILES = Tile<LAYER>::TILES;
    if constexpr (LAYER + 1 < LAYERS) {
        if (block >= TILES * ranges) {
            tile_of<LAYER + 1>(call, block - TILES * ranges, ranges, each);
            return;
        }
    }
    take_range(call, block / TILES, each);
    tile(call, Tile<LAYER>(), block % TILES);
}
#endif

// Blocks: the tiles of all layers for each range of `each` samples.
extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
    scalar_mlp_gradients(const Storage *x, const Storage *tape, const Storage *deltas, float *sums, u32 batch, u32 ranges, u32 each) {
    extern __shared__ __align__(16) float shared[];
    Call call{x, tape, deltas, sums, batch, 0, 0, shared};
    tile_of(call, blockIdx.x, ranges, each);
}

// gradients = the sum over the ranges.
extern "C" __global__ void __launch_bounds__(256) scalar_mlp_gradients_sum(const float *sums, float *gradients, u32 ranges) {
    reduce_gradients<8, 32, 8>(sums, gradients, ranges);
}
