// Forward where the weights do not fit in shared memory. Two blocks of a cluster each have a tile of 128 samples, 64 for each of two warpgroups, and
// go through the weights together: slabs of 64 columns of up to 256 rows come through a ring, of which each block brings one half for both, so
// that weights leave the L2 cache once for 256 samples. The tile's inputs stay in shared memory until the first layer is done; hidden layers are
// in registers. Of a first layer in several parts, each part is multiplied by its columns of the second layer's weights at once, so that only one
// part is ever there.
#include "coopmat/wgmma/wgmma.cuh"
#include "tile/ptx/cluster.cuh"
#include "tile/ptx/ldmatrix.cuh"

constexpr int GROUPS = 2;
constexpr int TILE = 64 * GROUPS;  // samples of a block
constexpr int CLUSTER = 2;
static_assert(parts_of(width(2)) == 1, "the second layer's sums are all there at once");
constexpr int THREADS = (GROUPS + 1) * 128;
constexpr int CHUNKS = chunks_of(INPUTS);
constexpr int X_BYTES = TILE * ROW_BYTES;
constexpr int SLAB_BYTES = (WIDEST_ABOVE < 256 ? WIDEST_ABOVE : 256) * ROW_BYTES;

// Shared memory: the inputs, the ring, barriers, biases.
constexpr int RING_IN_SHARED = CHUNKS * X_BYTES;
constexpr int BARRIERS_IN_SHARED = RING_IN_SHARED + SLABS * SLAB_BYTES;
constexpr int BIASES_IN_SHARED = BARRIERS_IN_SHARED + 16 * (CHUNKS + SLABS);
static_assert(BIASES_IN_SHARED + 2 * ALL_BIASES == SHARED_BYTES, "as the host counts");

struct Maps {
    TensorMap x, weights[LAYERS];
};

// Rows of weights that are copied at once: half of a slab, or what divides the halves of all slabs of a layer.
__device__ constexpr int common_divisor(int a, int b) { return b == 0 ? a : common_divisor(b, a % b); }
__device__ constexpr int box_of(int columns) {
    return columns <= 256 ? columns / CLUSTER : common_divisor(256 / CLUSTER, columns % 256 / CLUSTER);
}

__device__ __forceinline__ u32 x_full(u32 shared, int chunk) { return shared + BARRIERS_IN_SHARED + 8 * chunk; }
__device__ __forceinline__ u32 x_empty(u32 shared, int chunk) { return x_full(shared, CHUNKS + chunk); }
__device__ __forceinline__ u32 full(u32 shared, int stage) { return x_full(shared, 2 * CHUNKS + stage); }
__device__ __forceinline__ u32 empty(u32 shared, int stage) { return x_full(shared, 2 * CHUNKS + SLABS + stage); }
__device__ __forceinline__ u32 slab_at(u32 shared, int stage) { return shared + RING_IN_SHARED + stage * SLAB_BYTES; }

// ---- Copies

__device__ __forceinline__ void bring_inputs(const Maps &maps, u32 shared, int chunk, u32 tile) {
    barrier_expect(x_full(shared, chunk), X_BYTES);
    tma_load(shared + chunk * X_BYTES, maps.x, chunk * CHUNK, tile * TILE, x_full(shared, chunk));
}

__device__ constexpr int slabs_of_tile(int layer = 0) {
    return layer == LAYERS ? 0 : parts_of(width(layer + 1)) * chunks_of(width(layer)) + slabs_of_tile(layer + 1);
}
// From this slab of a tile on, a chunk of the next tile's inputs is brought after each: when the warpgroups have left the chunk's place, which they
// do when they have the slab after the chunk's own in the last part of the first layer.
constexpr int LAST_PART = (parts_of(width(1)) - 1) * (CHUNKS + 4), LEFT = LAST_PART + SLABS;
constexpr int INPUTS_FROM = LEFT + CHUNKS <= slabs_of_tile() ? LEFT : slabs_of_tile() - CHUNKS;
static_assert(INPUTS_FROM > LAST_PART, "what the warpgroups wait for is under way before they are waited for");

// Slabs of a part of a layer: these chunks of its weights. `slab` counts slabs over all tiles, `tiles` the tiles of this block so far.
template <int LAYER, int PART, int FROM, int TO, int FIRST>
__device__ __forceinline__ void bring_chunks(const Maps &maps, u32 shared, u32 rank, u32 &slab, u32 tiles, u32 next) {
    constexpr int COLUMNS = columns_of(width(LAYER + 1), PART), HALF = COLUMNS / CLUSTER, BOX = box_of(width(LAYER + 1));
    for (int chunk = FROM; chunk < TO; ++chunk, ++slab) {
        const u32 stage = slab % SLABS;
        if (slab >= SLABS) barrier_wait(empty(shared, stage), (slab / SLABS & 1) ^ 1);
        barrier_expect(full(shared, stage), COLUMNS * ROW_BYTES);
#pragma unroll
        for (int row = 0; row < HALF; row += BOX) {
            const int from = rank * HALF + row;
            tma_multicast(slab_at(shared, stage) + from * ROW_BYTES, maps.weights[LAYER], chunk * CHUNK, 256 * PART + from,
                            full(shared, stage), (1 << CLUSTER) - 1);
        }
        const int early = FIRST + chunk - FROM - INPUTS_FROM;
        if (next != ~0u && early >= 0 && early < CHUNKS) {
            barrier_wait(x_empty(shared, early), tiles & 1);
            bring_inputs(maps, shared, early, next);
        }
    }
}

// In the order in which they are used.
template <int LAYER = 0, int PART = 0, int FIRST = 0>
__device__ __forceinline__ void bring_weights(const Maps &maps, u32 shared, u32 rank, u32 &slab, u32 tiles, u32 next) {
    constexpr int TO = chunks_of(width(LAYER)), PARTS = parts_of(width(LAYER + 1));
    bring_chunks<LAYER, PART, 0, TO, FIRST>(maps, shared, rank, slab, tiles, next);
    if constexpr (LAYER == 0) {
        constexpr int BEGIN = 4 * PART, END = chunks_of(256 * PART + columns_of(width(1), PART)), AFTER = FIRST + TO + END - BEGIN;
        bring_chunks<1, 0, BEGIN, END, FIRST + TO>(maps, shared, rank, slab, tiles, next);
        if constexpr (PART + 1 < PARTS) bring_weights<0, PART + 1, AFTER>(maps, shared, rank, slab, tiles, next);
        else if constexpr (LAYERS > 2) bring_weights<2, 0, AFTER>(maps, shared, rank, slab, tiles, next);
    } else {
        if constexpr (PART + 1 < PARTS) bring_weights<LAYER, PART + 1, FIRST + TO>(maps, shared, rank, slab, tiles, next);
        else if constexpr (LAYER + 1 < LAYERS) bring_weights<LAYER + 1, 0, FIRST + TO>(maps, shared, rank, slab, tiles, next);
    }
}

// ---- Products

__device__ __forceinline__ void release(u32 shared, u32 slab) {
    const u32 barrier = empty(shared, slab % SLABS);
#pragma unroll
    for (int block = 0; block < CLUSTER; ++block) barrier_arrive_at(barrier, block);
}

// Words of registers by the slabs that come next, so many chunks with so many steps in all.
template <int ALL_CHUNKS, int STEPS, bool ACCUMULATE, int SUMS>
__device__ __forceinline__ void multiply(float (&sums)[SUMS], const u32 *words, u32 shared, u32 &slab, bool leads) {
#pragma unroll
    for (int chunk = 0; chunk < ALL_CHUNKS; ++chunk, ++slab) {
        barrier_wait(full(shared, slab % SLABS), slab / SLABS & 1);
        const u64 weights = operand(slab_at(shared, slab % SLABS));
        wgmma_fence();
#pragma unroll
        for (int step = 4 * chunk; step < 4 * chunk + 4 && step < STEPS; ++step)
            wgmma(sums, words[4 * step], words[4 * step + 1], words[4 * step + 2], words[4 * step + 3], weights + 2 * (step % 4),
                  ACCUMULATE || step > 0);
        wgmma_commit();
        if (chunk > 0) {
            wgmma_wait<1>();
            if (leads) release(shared, slab - 1);
        }
    }
    wgmma_wait<0>();
    if (leads) release(shared, slab - 1);
    wgmma_complete(sums);
}

// A part of the first layer, whose inputs are in shared memory, and what the second layer has of it.
template <int PART = 0>
__device__ __forceinline__ void first_layers(float (&sums)[width(2) / 2], u32 shared, u32 &slab, u32 tiles, const Results &results, Rows rows,
                                             u32 group, bool leads) {
    constexpr int COLUMNS = columns_of(width(1), PART), INNER = chunks_of(COLUMNS);
    constexpr bool LAST = PART + 1 == parts_of(width(1));
    u32 words[4 * steps_of(COLUMNS)] = {};
    {
        float d[COLUMNS / 2];
#pragma unroll
        for (int chunk = 0; chunk < CHUNKS; ++chunk, ++slab) {
            if (PART == 0) barrier_wait(x_full(shared, chunk), tiles & 1);
            barrier_wait(full(shared, slab % SLABS), slab / SLABS & 1);
            const u64 samples = operand(shared + chunk * X_BYTES + group * 64 * ROW_BYTES), weights = operand(slab_at(shared, slab % SLABS));
            wgmma_fence();
#pragma unroll
            for (int step = 0; step < steps_in(INPUTS, chunk); ++step) wgmma(d, samples + 2 * step, weights + 2 * step, chunk + step > 0);
            wgmma_commit();
            if (chunk > 0) {
                wgmma_wait<1>();
                if (leads) {
                    release(shared, slab - 1);
                    if (LAST) barrier_arrive(x_empty(shared, chunk - 1));
                }
            }
        }
        wgmma_wait<0>();
        if (leads) {
            release(shared, slab - 1);
            if (LAST) barrier_arrive(x_empty(shared, CHUNKS - 1));
        }
        wgmma_complete(d);
        finish<0, PART>(d, words, results, rows);
    }
    multiply<INNER, steps_of(COLUMNS), (PART > 0)>(sums, words, shared, slab, leads);
    if constexpr (!LAST) first_layers<PART + 1>(sums, shared, slab, tiles, results, rows, group, leads);
}

// A layer above the second: its inputs are in registers.
template <int LAYER, int PART = 0>
__device__ __forceinline__ void layer(const u32 *inputs, u32 *outputs, u32 shared, u32 &slab, const Results &results, Rows rows, bool leads) {
    float d[columns_of(width(LAYER + 1), PART) / 2];
    multiply<chunks_of(width(LAYER)), steps_of(width(LAYER)), false>(d, inputs, shared, slab, leads);
    finish<LAYER, PART>(d, outputs + 64 * PART, results, rows);
    if constexpr (PART + 1 < parts_of(width(LAYER + 1))) layer<LAYER, PART + 1>(inputs, outputs, shared, slab, results, rows, leads);
}

template <int LAYER>
__device__ __forceinline__ void layers_from(const u32 *inputs, u32 shared, u32 &slab, const Results &results, Rows rows, bool leads) {
    if constexpr (LAYER < LAYERS) {
        u32 outputs[4 * steps_of(width(LAYER + 1))] = {};
        layer<LAYER>(inputs, outputs, shared, slab, results, rows, leads);
        layers_from<LAYER + 1>(outputs, shared, slab, results, rows, leads);
    }
}

extern "C" __global__ void __cluster_dims__(CLUSTER, 1, 1) __launch_bounds__(THREADS, 1)
    coopmat_mlp_forward_wgmma_stream(const __grid_constant__ Maps maps, const Storage *parameters, Storage *y, Storage *tape, u32 batch) {
    extern __shared__ __align__(1024) char shared[];
    const u32 base = shared_address(shared), rank = blockIdx.x % CLUSTER;
    const int warp = uniform(threadIdx.x / 32), lane = threadIdx.x % 32;
    // Tiles are dealt to clusters, so that the blocks of one go through as many.
    const u32 rounds = ((batch + TILE - 1) / TILE + CLUSTER - 1) / CLUSTER;
    if (threadIdx.x == 0) {
        for (int chunk = 0; chunk < CHUNKS; ++chunk) {
            barrier_init(x_full(base, chunk), 1);
            barrier_init(x_empty(base, chunk), 4 * GROUPS);
        }
        for (int stage = 0; stage < SLABS; ++stage) {
            barrier_init(full(base, stage), 1);
            barrier_init(empty(base, stage), 4 * GROUPS * CLUSTER);
        }
        fence_barrier_init();
    }
    Storage *biases = reinterpret_cast<Storage *>(shared + BIASES_IN_SHARED);
    wait_and_let_next_begin();
    place_biases(parameters, biases);
    __syncthreads();
    cluster_sync();

    if (warp >= GROUPS * 4) {
        give_registers<REGISTERS_TO_COPY>();
        if (threadIdx.x == GROUPS * 128) {
            u32 slab = 0, tiles = 0;
            for (int chunk = 0; chunk < CHUNKS; ++chunk) bring_inputs(maps, base, chunk, blockIdx.x);
            for (u32 tile = blockIdx.x; tile / CLUSTER < rounds; tile += gridDim.x, ++tiles) {
                const u32 next = tile + gridDim.x;
                bring_weights(maps, base, rank, slab, tiles, next / CLUSTER < rounds ? next : ~0u);
            }
        }
    } else {
        take_registers<REGISTERS_TO_COMPUTE>();
        const Results results{biases, y, tape};
        const u32 group = warp / 4;
        u32 slab = 0, tiles = 0;
        for (u32 tile = blockIdx.x; tile / CLUSTER < rounds; tile += gridDim.x, ++tiles) {
            const Rows rows{tile * TILE + warp * 16 + lane / 4, batch, lane % 4};
            float sums[width(2) / 2];
            first_layers(sums, base, slab, tiles, results, rows, group, lane == 0);
            u32 outputs[4 * steps_of(width(2))] = {};
            finish<1, 0>(sums, outputs, results, rows);
            layers_from<2>(outputs, base, slab, results, rows, lane == 0);
        }
    }
    // Nobody leaves while the other block may still write into its shared memory.
    cluster_sync();
}
