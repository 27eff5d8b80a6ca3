// Forward where the weights do not fit in shared memory. Two blocks of a cluster each have a tile
// of 128 samples, 64 for each of two warpgroups, and go through the weights together: slabs of 64
// columns of up to 256 rows come through a ring, of which each block brings one half for both, so
// that weights leave the L2 cache once for 256 samples. The tile's inputs stay in shared memory
// until the first layer is done, or, where they are too wide for that, come through a ring of their
// own for every part of it; hidden layers are in registers. Of a first layer in several parts, each
// part is multiplied by its columns of the second layer's weights at once, so that only one part is
// ever there.
#include "coopmat/wgmma/layers.cuh"
#include "tile/ptx/cluster.cuh"
#include "tile/ptx/ldmatrix.cuh"

constexpr int GROUPS = 2;
constexpr int TILE = 64 * GROUPS;  // samples of a block
constexpr int CLUSTER = 2;
static_assert(parts_of(width(2)) == 1, "the second layer's sums are all there at once");
constexpr int THREADS = (GROUPS + 1) * 128;
constexpr int CHUNKS = chunks_of(INPUTS), PARTS = parts_of(width(1));
constexpr bool INPUTS_STAY = INPUT_PLACES == CHUNKS;
typedef Ring<INPUT_PLACES, TILE * ROW_BYTES> Inputs;
typedef Ring<SLABS, SLAB_ROWS * ROW_BYTES> Slabs;

// Where a chunk of the inputs is for a part of the first layer: where they stay, a turn is a tile.
template <int PART>
__device__ __forceinline__ Inputs::Use inputs_for(int chunk, u32 tile) {
    if constexpr (INPUTS_STAY) return Inputs::Use(chunk, tile);
    else return Inputs::Use((tile * PARTS + PART) * CHUNKS + chunk);
}

// Shared memory: inputs, slabs, the barriers of both, biases.
constexpr int SLABS_AT = Inputs::PLACES_BYTES;
constexpr int BARRIERS_AT = SLABS_AT + Slabs::PLACES_BYTES;
constexpr int BIASES_AT = BARRIERS_AT + Inputs::BYTES + Slabs::BYTES;
static_assert(BIASES_AT + 2 * ALL_BIASES == SHARED_BYTES, "as the host counts");

struct Maps {
    TensorMap x, weights[LAYERS];
};

// Rows of weights that a block brings of a part of a layer, whole groups of 8: what lies beyond the
// layer are zeros. Those of the last of several parts are 32 at least, so that few copies bring the
// others.
__device__ constexpr int half_of(int all, int columns) {
    return all <= 256 ? (columns + 15) / 16 * 8 : (columns + 63) / 64 * 32;
}
// Rows that are copied at once: what divides the halves of all parts.
__device__ constexpr int box_of(int columns) {
    int rows = 0;
    for (int part = 0; part < parts_of(columns); ++part) rows = common_divisor(rows, half_of(columns, columns_of(columns, part)));
    return rows;
}

struct Block {
    Inputs inputs;
    Slabs slabs;
    Results results;
};

// ---- Copies

__device__ constexpr int slabs_of_tile(int layer = 0) {
    return layer == LAYERS ? 0 : parts_of(width(layer + 1)) * chunks_of(width(layer)) + slabs_of_tile(layer + 1);
}
// From this slab of a tile on, a chunk of the next tile's inputs is brought after each: when the
// warpgroups have left the chunk's place, which they do when they have the slab after the chunk's
// own in the last part of the first layer.
constexpr int LAST_PART = (PARTS - 1) * CHUNKS + column_of(width(1), PARTS - 1) / CHUNK, LEFT = LAST_PART + SLABS;
constexpr int INPUTS_FROM = LEFT + CHUNKS <= slabs_of_tile() ? LEFT : slabs_of_tile() - CHUNKS;
static_assert(!INPUTS_STAY || INPUTS_FROM > LAST_PART, "what the warpgroups wait for is under way before they are waited for");

struct Copies {
    const Maps &maps;
    const Block &block;
    u32 rank, slab, turn, tile, next;  // slabs and tiles so far, this tile and the one after it

    __device__ __forceinline__ void inputs(Inputs::Use use, int chunk, u32 tile) const {
        const u32 to = block.inputs.fill(use);
        tma_load(to, maps.x, chunk * CHUNK, tile * TILE, block.inputs.full(use));
    }
    // These chunks of the weights of a part of a layer, the first of which is slab FIRST of the
    // tile.
    template <int LAYER, int PART, int FROM, int TO, int FIRST>
    __device__ __forceinline__ void chunks() {
        constexpr int ALL = width(LAYER + 1), HALF = half_of(ALL, columns_of(ALL, PART)), BOX = box_of(ALL);
        for (int chunk = FROM; chunk < TO; ++chunk, ++slab) {
            if (LAYER == 0 && !INPUTS_STAY) inputs(inputs_for<PART>(chunk, turn), chunk, tile);
            const u32 to = block.slabs.fill(slab, CLUSTER * HALF * ROW_BYTES);
#pragma unroll
            for (int row = 0; row < HALF; row += BOX) {
                const int from = rank * HALF + row;
                tma_multicast(to + from * ROW_BYTES, maps.weights[LAYER], chunk * CHUNK, column_of(ALL, PART) + from, block.slabs.full(slab),
                              (1 << CLUSTER) - 1);
            }
            const int early = FIRST + chunk - FROM - INPUTS_FROM;
            if (INPUTS_STAY && next != ~0u && early >= 0 && early < CHUNKS) inputs(inputs_for<0>(early, turn + 1), early, next);
        }
    }
    // All weights, in the order in which they are used.
    template <int LAYER = 0, int PART = 0, int FIRST = 0>
    __device__ __forceinline__ void weights() {
        constexpr int TO = chunks_of(width(LAYER));
        constexpr bool MORE = PART + 1 < parts_of(width(LAYER + 1));
        chunks<LAYER, PART, 0, TO, FIRST>();
        if constexpr (LAYER == 0) {
            constexpr int BEGIN = column_of(width(1), PART) / CHUNK, END = BEGIN + chunks_of(columns_of(width(1), PART));
            constexpr int AFTER = FIRST + TO + END - BEGIN;
            chunks<1, 0, BEGIN, END, FIRST + TO>();
            if constexpr (MORE) weights<0, PART + 1, AFTER>();
            else if constexpr (LAYERS > 2) weights<2, 0, AFTER>();
        } else if constexpr (MORE) weights<LAYER, PART + 1, FIRST + TO>();
        else if constexpr (LAYER + 1 < LAYERS) weights<LAYER + 1, 0, FIRST + TO>();
    }
};

// ---- Products

struct Group {
    const Block &block;
    u32 slab, turn, group;  // slabs and tiles so far
    Rows rows;
    bool leads;

    // Both blocks bring a half of every slab.
    __device__ __forceinline__ void leave(u32 slab) const {
        if (leads) leave_in_cluster<CLUSTER>(block.slabs.empty(slab));
    }
    __device__ __forceinline__ Along<> wait_weights(u32 slab) const {
        block.slabs.wait_full(slab);
        return Along<>(block.slabs.place(slab));
    }
    // Words of so many COLUMNS by the slabs that come next.
    template <int COLUMNS, bool ADD, int SUMS>
    __device__ __forceinline__ void multiply(float (&sums)[SUMS], const u32 *words) {
        queue_all<chunks_of(COLUMNS), true>(
            [&](int chunk) { multiply_chunk<COLUMNS, ADD>(sums, words, wait_weights(slab + chunk), chunk); },
            [&](int chunk) { leave(slab + chunk); });
        slab += chunks_of(COLUMNS);
        wgmma_complete(sums);
    }
    // A part of the first layer, whose inputs are in shared memory, and what the second layer has
    // of it.
    template <int PART = 0>
    __device__ __forceinline__ void first_layers(float (&sums)[width(2) / 2]) {
        constexpr int COLUMNS = columns_of(width(1), PART);
        constexpr bool LAST = PART + 1 == parts_of(width(1));
        u32 words[words_of(COLUMNS)] = {};
        {
            float d[COLUMNS / 2];
            queue_all<CHUNKS, true>(
                [&](int chunk) {
                    const Inputs::Use use = inputs_for<PART>(chunk, turn);
                    if (PART == 0 || !INPUTS_STAY) block.inputs.wait_full(use);
                    const Along<> weights = wait_weights(slab + chunk);
                    multiply_chunk<INPUTS>(d, Along<>(block.inputs.place(use) + group * 64 * ROW_BYTES), weights, chunk);
                },
                [&](int chunk) {
                    leave(slab + chunk);
                    if ((LAST || !INPUTS_STAY) && leads) block.inputs.leave(inputs_for<PART>(chunk, turn));
                });
            slab += CHUNKS;
            wgmma_complete(d);
            finish<0, PART>(d, words, block.results, rows);
        }
        multiply<COLUMNS, (PART > 0)>(sums, words);
        if constexpr (!LAST) first_layers<PART + 1>(sums);
    }
    // A layer above the second: its inputs are in registers.
    template <int LAYER, int PART = 0>
    __device__ __forceinline__ void layer(const u32 *inputs, u32 *outputs) {
        float d[columns_of(width(LAYER + 1), PART) / 2];
        multiply<width(LAYER), false>(d, inputs);
        finish<LAYER, PART>(d, outputs + column_of(width(LAYER + 1), PART) / 4, block.results, rows);
        if constexpr (PART + 1 < parts_of(width(LAYER + 1))) layer<LAYER, PART + 1>(inputs, outputs);
    }
    template <int LAYER>
    __device__ __forceinline__ void layers_from(const u32 *inputs) {
        if constexpr (LAYER < LAYERS) {
            u32 outputs[words_of(width(LAYER + 1))] = {};
            layer<LAYER>(inputs, outputs);
            layers_from<LAYER + 1>(outputs);
        }
    }
};

extern "C" __global__ void __cluster_dims__(CLUSTER, 1, 1) __launch_bounds__(THREADS, 1)
    coopmat_mlp_forward_wgmma_stream(const __grid_constant__ Maps maps, const Storage *parameters, Storage *y, Storage *tape, u32 batch) {
    extern __shared__ __align__(1024) char shared[];
    const u32 base = shared_address(shared);
    const int warp = uniform(threadIdx.x / 32), lane = threadIdx.x % 32;
    // Tiles are dealt to clusters, so that the blocks of one go through as many.
    const u32 rounds = ((batch + TILE - 1) / TILE + CLUSTER - 1) / CLUSTER;
    Storage *biases = reinterpret_cast<Storage *>(shared + BIASES_AT);
    const Block block{Inputs(base, base + BARRIERS_AT), Slabs(base + SLABS_AT, base + BARRIERS_AT + Inputs::BYTES),
                      Results{biases, y, tape}};
    if (threadIdx.x == 0) {
        block.inputs.init(FULL, 1);
        block.inputs.init(EMPTY, 4 * GROUPS);
        block.slabs.init(FULL, 1);
        block.slabs.init(EMPTY, 4 * GROUPS * CLUSTER);
        fence_barrier_init();
    }
    wait_and_let_next_begin();
    place_biases(parameters, biases);
    __syncthreads();
    cluster_sync();

    if (warp >= GROUPS * 4) {
        give_registers<REGISTERS_TO_COPY>();
        if (threadIdx.x == GROUPS * 128) {
            Copies copies{maps, block, blockIdx.x % CLUSTER, 0, 0, 0, 0};
            if (INPUTS_STAY)
                for (int chunk = 0; chunk < CHUNKS; ++chunk) copies.inputs(inputs_for<0>(chunk, 0), chunk, blockIdx.x);
            for (u32 tile = blockIdx.x; tile / CLUSTER < rounds; tile += gridDim.x, ++copies.turn) {
                copies.tile = tile;
                copies.next = (tile + gridDim.x) / CLUSTER < rounds ? tile + gridDim.x : ~0u;
                copies.weights();
            }
        }
    } else {
        take_registers<REGISTERS_TO_COMPUTE>();
        Group group{block, 0, 0, warp / 4u, Rows::of_warp(0, batch), lane == 0};
        for (u32 tile = blockIdx.x; tile / CLUSTER < rounds; tile += gridDim.x, ++group.turn) {
            group.rows = Rows::of_warp(tile * TILE + warp * 16, batch);
            float sums[width(2) / 2];
            group.first_layers(sums);
            u32 outputs[words_of(width(2))] = {};
            finish<1, 0>(sums, outputs, block.results, group.rows);
            group.layers_from<2>(outputs);
        }
    }
    // Nobody leaves while the other block may still write into its shared memory.
    cluster_sync();
}
