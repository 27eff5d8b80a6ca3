// The chain for layers that are wide, whether their weights fit in shared memory or not: two blocks
// of a cluster each have a tile of 128 samples, 64 for each of two warpgroups, and go through the
// weights together. Everything comes through one ring of slabs: 64 rows of a part of the weights,
// of which each block brings one half for both, and 64 columns of the block's own samples. A
// layer's gradients stay in registers while the layer below is computed in parts, narrow enough for
// the registers that are left; results go out through shared memory, by the copy engine too.
#include "tile/ptx/cluster.cuh"
#include "tile/ptx/ldmatrix.cuh"
#include "tile/ring.cuh"
#include "tile/wgmma.cuh"

constexpr int GROUPS = 2;
constexpr int TILE = 64 * GROUPS;  // samples of a block
constexpr int CLUSTER = BLOCKS_OF_CLUSTER;
constexpr int THREADS = (GROUPS + 1) * 128;
constexpr int BOX_BYTES = CHUNK * ROW_BYTES;  // 64 rows by 64 columns
constexpr int HALF = CHUNK / CLUSTER;         // rows of weights that a block brings
typedef Ring<SLABS, GROUPS * BOX_BYTES> Slabs;
static_assert(WIDEST_PART <= 2 * CHUNK && HIDDEN_PART <= WIDEST_PART, "a part of the weights fits a slab");

// Shared memory: the ring, two boxes of results for each warp, of 16 samples, barriers.
constexpr int RESULT_BYTES = 16 * ROW_BYTES;
constexpr int RESULTS_AT = Slabs::PLACES_BYTES;
constexpr int BARRIERS_AT = RESULTS_AT + 2 * 4 * GROUPS * RESULT_BYTES;
static_assert(BARRIERS_AT + Slabs::BYTES == SHARED_BYTES, "as the host counts");

static_assert(slope_from_output<HIDDEN_ACTIVATION>(), "the tape has the hidden layers' outputs");

// What the slope at the outputs follows from is `outputs`; `below` is the tape of the layers below
// the last.
struct Maps {
    TensorMap weights[LAYERS], dx, dy, outputs, deltas[LAYERS], below[LAYERS - 1];
};

// Columns below a layer that are computed at once, from `column` on.
__device__ constexpr int columns_in_part(int layer, int column) {
    const int rest = width(layer) - column, most = layer == 0 ? WIDEST_PART : HIDDEN_PART;
    return rest < most ? rest : most;
}
__device__ constexpr int columns_in_box(int columns, int first) { return columns - first < CHUNK ? columns - first : CHUNK; }

// ---- Copies: the slabs of a tile, in the order of their use. `slab` counts them over all tiles.

struct Copies {
    const Maps &maps;
    Slabs slabs;
    u32 rank, slab, tile;

    __device__ __forceinline__ void samples(const TensorMap &map, int column) {
        tma_load(slabs.fill(slab), map, column, tile * TILE, slabs.full(slab));
        ++slab;
    }
    template <int LAYER, int COLUMNS>
    __device__ __forceinline__ void weights(int column) {
        for (int row = rank * HALF; row < CHUNK * chunks_of(width(LAYER + 1)); row += CHUNK, ++slab) {
            const u32 at = slabs.fill(slab, chunks_of(COLUMNS) * BOX_BYTES) + rank * HALF * ROW_BYTES;
#pragma unroll
            for (int box = 0; box < chunks_of(COLUMNS); ++box)
                tma_multicast(at + box * BOX_BYTES, maps.weights[LAYER], column + box * CHUNK, row, slabs.full(slab), (1 << CLUSTER) - 1);
        }
    }
    template <int LAYER, int COLUMN = 0>
    __device__ __forceinline__ void layers(bool inputs) {
        constexpr int COLUMNS = columns_in_part(LAYER, COLUMN);
        if (LAYER == 0 && !inputs) return;
        weights<LAYER, COLUMNS>(COLUMN);
        if constexpr (LAYER > 0)
            for (int box = 0; box < chunks_of(COLUMNS); ++box) samples(maps.below[LAYER - 1], COLUMN + box * CHUNK);
        if constexpr (COLUMN + COLUMNS < width(LAYER)) layers<LAYER, COLUMN + COLUMNS>(inputs);
        else if constexpr (LAYER > 0) layers<LAYER - 1>(inputs);
    }
    __device__ __forceinline__ void all(bool inputs) {
        for (int column = 0; column < OUTPUTS; column += CHUNK) {
            samples(maps.dy, column);
            if (OUTPUT_ACTIVATION != IDENTITY) samples(maps.outputs, column);
        }
        layers<LAYERS - 1>(inputs);
    }
};

// ---- Products

// The warpgroups take turns with the gradients by the inputs, so that one has the tensor cores
// while the other stores what it found: each waits for its turn, and gives the other one when its
// products are queued.
__device__ __forceinline__ void wait_turn(u32 group) { named_sync<256>(group + 1); }
__device__ __forceinline__ void give_turn(u32 group) { named_arrive<256>((group ^ 1) + 1); }
static_assert(GROUPS == 2 && chunks_of(width(1)) <= SLABS, "a warpgroup can be ahead by a part");

struct Group {
    const Maps &maps;
    Slabs slabs;
    u32 group;
    u32 place;    // what the lane loads or stores of 16 columns, in a box of 16 samples
    u32 results;  // the warp's
    u32 slab, stored, row;
    bool leads;

    __device__ __forceinline__ void leave(u32 slab) const {
        if (leads) leave_in_cluster<CLUSTER>(slabs.empty(slab));
    }
    // Where the lane reads of the samples that come next.
    __device__ __forceinline__ u32 wait_samples() const {
        slabs.wait_full(slab);
        return slabs.place(slab) + threadIdx.x / 32 * RESULT_BYTES + place;
    }
    // Words of these.
    template <int COLUMNS>
    __device__ __forceinline__ void load(u32 (&words)[16]) {
        const u32 at = wait_samples();
#pragma unroll
        for (int step = 0; step < steps_of(COLUMNS); ++step) load_matrices(*reinterpret_cast<u32(*)[4]>(words + 4 * step), at_step(at, step));
        __syncwarp();
        leave(slab++);
    }
    // A box for results, while the other may still be being copied.
    __device__ __forceinline__ u32 next_box() {
        if (leads) tma_wait_read<1>();
        __syncwarp();
        return results + stored++ % 2 * RESULT_BYTES;
    }
    __device__ __forceinline__ void store_step(const u32 *words, u32 box, int step) const {
        store_matrices(at_step(box + place, step), *reinterpret_cast<const u32(*)[4]>(words + 4 * step));
    }
    // The box to `column` of the map.
    __device__ __forceinline__ void send(const TensorMap &map, int column, u32 box) const {
        fence_async();
        __syncwarp();
        if (leads) {
            tma_store(map, column, row, box);
            tma_commit();
        }
    }
    template <int COLUMNS>
    __device__ __forceinline__ void store(const u32 *words, const TensorMap &map, int column) {
        const u32 box = next_box();
#pragma unroll
        for (int step = 0; step < steps_of(COLUMNS); ++step) store_step(words, box, step);
        send(map, column, box);
    }

    // Of 64 columns below a layer: their sums become the gradients before the activation there, in
    // `words`, or those by the inputs.
    template <int LAYER, int COLUMNS>
    __device__ __forceinline__ void finish_box(const float *d, u32 *words, int column) {
        if constexpr (LAYER == 0) {
#pragma unroll
            for (int i = 0; i < COLUMNS / 4; ++i) words[i] = narrow2(d[2 * i], d[2 * i + 1]);
            store<COLUMNS>(words, maps.dx, column);
        } else {
            const u32 box = next_box(), kept_at = wait_samples();
#pragma unroll
            for (int step = 0; step < steps_of(COLUMNS); ++step) {
                u32 kept[4];
                load_matrices(kept, at_step(kept_at, step));
#pragma unroll
                for (int i = 4 * step; i < 4 * step + 4 && i < COLUMNS / 4; ++i)
                    words[i] = times_slope<HIDDEN_ACTIVATION>(d[2 * i], d[2 * i + 1], kept[i % 4]);
                store_step(words, box, step);
            }
            send(maps.deltas[LAYER - 1], column, box);
            leave(slab++);
        }
    }
    template <int LAYER, int COLUMNS, int FIRST = 0>
    __device__ __forceinline__ void finish_boxes(const float *d, u32 *words, int column) {
        finish_box<LAYER, columns_in_box(COLUMNS, FIRST)>(d + FIRST / 2, LAYER == 0 ? words : words + FIRST / 4, column + FIRST);
        if constexpr (FIRST + CHUNK < COLUMNS) finish_boxes<LAYER, COLUMNS, FIRST + CHUNK>(d, words, column);
    }

    // A part of the columns below a layer: what `deltas`, the layer's own gradients, come to there.
    template <int LAYER, int COLUMNS>
    __device__ __forceinline__ void below(const u32 *deltas, u32 *words, int column) {
        constexpr int K = width(LAYER + 1);
        float d[COLUMNS / 2];
        if constexpr (LAYER == 0) wait_turn(group);
        queue_all<chunks_of(K), true>(
            [&](int chunk) {
                slabs.wait_full(slab + chunk);
                multiply_chunk<K, false>(d, deltas, Across<BOX_BYTES>(slabs.place(slab + chunk)), chunk);
            },
            [&](int chunk) { leave(slab + chunk); },
            [&] {
                if constexpr (LAYER == 0) give_turn(group);
            });
        slab += chunks_of(K);
        wgmma_complete(d);
        finish_boxes<LAYER, COLUMNS>(d, words, column);
    }
    template <int LAYER, int COLUMN = 0>
    __device__ __forceinline__ void hidden_below(const u32 *deltas, u32 *words) {
        constexpr int COLUMNS = columns_in_part(LAYER, COLUMN);
        below<LAYER, COLUMNS>(deltas, words + COLUMN / 4, COLUMN);
        if constexpr (COLUMN + COLUMNS < width(LAYER)) hidden_below<LAYER, COLUMN + COLUMNS>(deltas, words);
    }
    template <int LAYER>
    __device__ __forceinline__ void layers_below(const u32 *deltas, bool inputs) {
        if constexpr (LAYER > 0) {
            u32 words[words_of(width(LAYER))] = {};
            hidden_below<LAYER>(deltas, words);
            layers_below<LAYER - 1>(words, inputs);
        } else if (inputs) {
            constexpr int REST = INPUTS % WIDEST_PART;
            u32 words[16];
            if constexpr (INPUTS >= WIDEST_PART)
#pragma unroll 1
                for (int column = 0; column < INPUTS - REST; column += WIDEST_PART) below<0, WIDEST_PART>(deltas, words, column);
            if constexpr (REST > 0) below<0, REST>(deltas, words, INPUTS - REST);
        }
    }

    // The gradients before the activation of the outputs.
    template <int FIRST = 0>
    __device__ __forceinline__ void output_deltas(u32 *words) {
        constexpr int COLUMNS = columns_in_box(OUTPUTS, FIRST);
        u32 gradients[16];
        load<COLUMNS>(gradients);
        if constexpr (OUTPUT_ACTIVATION != IDENTITY) {
            u32 kept[16];
            load<COLUMNS>(kept);
#pragma unroll
            for (int i = 0; i < COLUMNS / 4; ++i)
                gradients[i] = times_slope<OUTPUT_ACTIVATION>(gradients[i], kept[i]);
        }
#pragma unroll
        for (int i = 0; i < COLUMNS / 4; ++i) words[FIRST / 4 + i] = gradients[i];
        store<COLUMNS>(gradients, maps.deltas[LAYERS - 1], FIRST);
        if constexpr (FIRST + CHUNK < OUTPUTS) output_deltas<FIRST + CHUNK>(words);
    }
};

extern "C" __global__ void __cluster_dims__(CLUSTER, 1, 1) __launch_bounds__(THREADS, 1)
    coopmat_mlp_backward_wgmma_chain_stream(const __grid_constant__ Maps maps, u32 batch, u32 inputs) {
    extern __shared__ __align__(1024) char shared[];
    const u32 base = shared_address(shared);
    const int warp = uniform(threadIdx.x / 32), lane = threadIdx.x % 32;
    const Slabs slabs(base, base + BARRIERS_AT);
    // Tiles are dealt to clusters, so that the blocks of one go through as many.
    const u32 rounds = ((batch + TILE - 1) / TILE + CLUSTER - 1) / CLUSTER;
    if (threadIdx.x == 0) {
        slabs.init(FULL, 1);
        slabs.init(EMPTY, 4 * GROUPS * CLUSTER);
        fence_barrier_init();
    }
    __syncthreads();
    cluster_sync();

    if (warp >= GROUPS * 4) {
        give_registers<REGISTERS_TO_COPY>();
        if (threadIdx.x == GROUPS * 128) {
            Copies copies{maps, slabs, blockIdx.x % CLUSTER, 0, 0};
            for (copies.tile = blockIdx.x; copies.tile / CLUSTER < rounds; copies.tile += gridDim.x) copies.all(inputs);
        }
    } else {
        take_registers<REGISTERS_TO_COMPUTE>();
        Group group{maps, slabs, warp / 4u, lane_unit(), base + RESULTS_AT + 2 * warp * RESULT_BYTES, 0, 0, 0, lane == 0};
        if (group.group == 1) give_turn(1);
        for (u32 tile = blockIdx.x; tile / CLUSTER < rounds; tile += gridDim.x) {
            group.row = tile * TILE + warp * 16;
            u32 words[words_of(OUTPUTS)] = {};
            group.output_deltas(words);
            group.layers_below<LAYERS - 1>(words, inputs);
        }
        if (group.leads) tma_wait_read<0>();
        // The last turn, which nobody takes.
        if (group.group == 0) wait_turn(0);
    }
    // Nobody leaves while the other block may still write into its shared memory.
    cluster_sync();
}
