// The gradients of the weights and biases: for each layer, the gradients before its activation,
// transposed, by its inputs, summed over samples. A block sums a tile of a layer's weights over a
// share of the batch; the shares are added afterwards in a fixed order, or at once by atomics.
//
// TILE_M outputs by TILE_N inputs a block, WARPS_M by WARPS_N warps (16 bit), STEP samples a stage,
// STAGES, ATOMIC.
#include "tile/ptx/ldmatrix.cuh"
#include "tile/reduce.cuh"
#include "coopvec/weights.cuh"

// What a block works on.
struct Work {
    const Storage *deltas, *inputs;
    float *weights, *biases;
    int outputs, width_in, m, n;
};

// The layer and the tile that `index` stands for.
__device__ __forceinline__ Work work_of(int index, const Storage *x, const Storage *hidden, const Storage *dy, const Storage *deltas,
                                        float *gradients, u32 batch) {
    Work work;
#pragma unroll
    for (int layer = 0; layer < LAYERS; ++layer) {
        const int across = (width(layer) + TILE_N - 1) / TILE_N, tiles = across * ((width(layer + 1) + TILE_M - 1) / TILE_M);
        if (index >= 0 && index < tiles) {
            work.deltas = layer == LAYERS - 1 && OUTPUT_ACTIVATION == IDENTITY ? dy : layer_of(deltas, layer, batch);
            work.inputs = layer == 0 ? x : layer_of(hidden, layer - 1, batch);
            work.weights = gradients + weights_at(layer);
            work.biases = gradients + biases_at(layer);
            work.outputs = width(layer + 1), work.width_in = width(layer);
            work.m = index / across * TILE_M, work.n = index % across * TILE_N;
        }
        index -= tiles;
    }
    return work;
}

// Where 16 bytes of a sample's row of WIDTH elements lie: shuffled, so that the same place of eight
// samples is in different banks.
template <int WIDTH>
__device__ __forceinline__ int place(int sample, int chunk) {
#if STORAGE == STORAGE_F32
    return sample * WIDTH + chunk * UNIT;
#else
    return sample * WIDTH + (chunk ^ sample % 8) * UNIT;
#endif
}

template <int WIDTH>
__device__ __forceinline__ void load(Storage *to, const Storage *from, int width, int begin, u32 sample, u32 end) {
    for (int unit = threadIdx.x; unit < STEP * (WIDTH / UNIT); unit += THREADS) {
        const int row = unit / (WIDTH / UNIT), chunk = unit % (WIDTH / UNIT), column = begin + chunk * UNIT;
        const bool there = sample + row < end && column < width;
        copy_async_or_zero(shared_address(to + place<WIDTH>(row, chunk)), there ? from + (u64)(sample + row) * width + column : from, there);
    }
}

#if STORAGE == STORAGE_F32

// A thread's share of the tile: TILE_M / 16 by TILE_N / 16, in fours.
struct Tile {
    float sums[TILE_M / 16][TILE_N / 16], biases[TILE_M / 16];

    __device__ __forceinline__ Tile() : sums{}, biases{} {}

    __device__ __forceinline__ void add(const Storage *deltas, const Storage *inputs, bool) {
        const int tx = threadIdx.x % 16, ty = threadIdx.x / 16;
#pragma unroll 4
        for (int s = 0; s < STEP; ++s) {
            float d[TILE_M / 16], a[TILE_N / 16];
#pragma unroll
            for (int i = 0; i < TILE_M / 64; ++i) *(float4 *)(d + 4 * i) = *(const float4 *)(deltas + s * TILE_M + 64 * i + 4 * ty);
#pragma unroll
            for (int j = 0; j < TILE_N / 64; ++j) *(float4 *)(a + 4 * j) = *(const float4 *)(inputs + s * TILE_N + 64 * j + 4 * tx);
#pragma unroll
            for (int i = 0; i < TILE_M / 16; ++i) {
                biases[i] += d[i];
#pragma unroll
                for (int j = 0; j < TILE_N / 16; ++j) sums[i][j] = fmaf(d[i], a[j], sums[i][j]);
            }
        }
    }

    __device__ __forceinline__ void finish(const Work &work) {
        const int tx = threadIdx.x % 16, ty = threadIdx.x / 16;
#pragma unroll
        for (int i = 0; i < TILE_M / 16; ++i) {
            const int m = work.m + i / 4 * 64 + 4 * ty + i % 4;
            if (m >= work.outputs) continue;
            if (tx == 0 && work.n == 0) give<ATOMIC>(work.biases + m, biases[i]);
#pragma unroll
            for (int j = 0; j < TILE_N / 16; ++j) {
                const int n = work.n + j / 4 * 64 + 4 * tx + j % 4;
                if (n < work.width_in) give<ATOMIC>(work.weights + (u64)m * work.width_in + n, sums[i][j]);
            }
        }
    }
};

#else

// A warp's share of the tile, in tiles of 16 by 8.
struct Tile {
    static constexpr int M = TILE_M / WARPS_M / 16, N = TILE_N / WARPS_N / 8;
    Sum sums[M][2][N], biases[M][2];

    __device__ __forceinline__ Tile() : sums{}, biases{} {}

    __device__ __forceinline__ void add(const Storage *deltas, const Storage *inputs, bool with_biases) {
        const int warp = threadIdx.x / 32, m = warp / WARPS_N * (16 * M), n = warp % WARPS_N * (8 * N);
        const int matrix = lane() / 8, row = lane() % 8;
#pragma unroll
        for (int s = 0; s < STEP; s += 16) {
            u32 d[M][4], a[N / 2][4];
#pragma unroll
            for (int i = 0; i < M; ++i)
                load_transposed(d[i], shared_address(deltas + place<TILE_M>(s + matrix / 2 * 8 + row, m / 8 + 2 * i + matrix % 2)));
#pragma unroll
            for (int j = 0; j < N / 2; ++j)
                load_transposed(a[j], shared_address(inputs + place<TILE_N>(s + matrix % 2 * 8 + row, n / 8 + 2 * j + matrix / 2)));
#pragma unroll
            for (int i = 0; i < M; ++i) {
#pragma unroll
                for (int j = 0; j < N; ++j)
                    multiply_add(sums[i][0][j], sums[i][1][j], d[i][0], d[i][1], d[i][2], d[i][3], a[j / 2][j % 2 * 2], a[j / 2][j % 2 * 2 + 1]);
                if (with_biases) multiply_add(biases[i][0], biases[i][1], d[i][0], d[i][1], d[i][2], d[i][3], ONES, ONES);
            }
        }
    }

    __device__ __forceinline__ void finish(const Work &work) {
        const int warp = threadIdx.x / 32;
#pragma unroll
        for (int i = 0; i < M; ++i)
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                const int m = work.m + warp / WARPS_N * (16 * M) + 16 * i + 8 * half + group();
                if (m >= work.outputs) continue;
                if (work.n == 0 && warp % WARPS_N == 0 && quarter() == 0) give<ATOMIC>(work.biases + m, low(biases[i][half]));
#pragma unroll
                for (int j = 0; j < N; ++j) {
                    const int n = work.n + warp % WARPS_N * (8 * N) + 8 * j + 2 * quarter();
                    float *to = work.weights + (u64)m * work.width_in + n;
                    if (n >= work.width_in) continue;
                    give<ATOMIC>(to, make_float2(low(sums[i][half][j]), high(sums[i][half][j])));
                }
            }
    }
};

#endif

// Block (tile, share): samples [share * length, (share + 1) * length). `gradients` is one array for
// each share, or with atomics one for all.
extern "C" __global__ __launch_bounds__(THREADS, BLOCKS) void coopvec_mlp_backward_gradients(const Storage *x, const Storage *hidden,
                                                                                            const Storage *dy, const Storage *deltas,
                                                                                            float *gradients, u32 batch, u32 length) {
    extern __shared__ uint4 shared[];
    Storage *stages = (Storage *)shared;
    constexpr int STAGE = STEP * (TILE_M + TILE_N);
    wait_and_let_next_begin();
    const Work work = work_of(blockIdx.x, x, hidden, dy, deltas, gradients + (ATOMIC ? 0 : (u64)blockIdx.y * PARAMETERS), batch);
    const u32 begin = blockIdx.y * length, end = min(begin + length, batch);
    const int steps = (int)((end - begin + STEP - 1) / STEP);
    const bool with_biases = work.n == 0;
    const auto prefetch = [&](int step) {
        if (step < steps) {
            Storage *to = stages + step % STAGES * STAGE;
            load<TILE_M>(to, work.deltas, work.outputs, work.m, begin + step * STEP, end);
            load<TILE_N>(to + STEP * TILE_M, work.inputs, work.width_in, work.n, begin + step * STEP, end);
        }
        commit_copies();
    };
    for (int step = 0; step < STAGES - 1; ++step) prefetch(step);
    Tile tile;
#pragma unroll 1
    for (int step = 0; step < steps; ++step) {
        wait_copies<STAGES - 2>();
        // The stage is there for all, and the one before is free.
        __syncthreads();
        prefetch(step + STAGES - 1);
        const Storage *from = stages + step % STAGES * STAGE;
        tile.add(from, from + STEP * TILE_M, with_biases);
    }
    tile.finish(work);
}

// Adds the shares of each parameter, four to a thread.
extern "C" __global__ __launch_bounds__(256) void coopvec_mlp_backward_add(const float *partials, float *gradients, u32 shares) {
    wait_and_let_next_begin();
    const u32 at = (blockIdx.x * 32 + threadIdx.x % 32) * 4;
    reduce<32, 8, 4>((float4 *)(gradients + at), at < PARAMETERS, in_runs<8>(threadIdx.x / 32, shares),
                     [&](u32 share) { return *(const float4 *)(partials + (u64)share * PARAMETERS + at); });
}
