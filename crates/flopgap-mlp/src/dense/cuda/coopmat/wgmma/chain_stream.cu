// The chain for layers that are wide, whether their weights fit in shared memory or not: two blocks of a cluster each have a tile of 128 samples, 64 for each of two warpgroups,
// and go through the weights together. Everything comes through one ring of slabs: 64 rows of a part of the weights, of which each block brings one
// half for both, and 64 columns of the block's own samples. A layer's gradients stay in registers while the layer below is computed in parts,
// narrow enough for the registers that are left; results go out through shared memory, by the copy engine too.
#include "coopmat/wgmma/chain.cuh"
#include "tile/ptx/cluster.cuh"
#include "tile/ptx/ldmatrix.cuh"

constexpr int GROUPS = 2;
constexpr int TILE = 64 * GROUPS;  // samples of a block
constexpr int CLUSTER = BLOCKS_OF_CLUSTER;
constexpr int THREADS = (GROUPS + 1) * 128;
constexpr int BOX_BYTES = CHUNK * ROW_BYTES;  // 64 rows by 64 columns
constexpr int HALF = CHUNK / CLUSTER;         // rows of weights that a block brings
constexpr int SLAB_BYTES = GROUPS * BOX_BYTES;
static_assert(WIDEST_PART <= 2 * CHUNK && HIDDEN_PART <= WIDEST_PART, "a part of the weights fits a slab");

// Shared memory: the ring, two boxes of results for each warp, of 16 samples, barriers.
constexpr int RESULT_BYTES = 16 * ROW_BYTES;
constexpr int RESULTS_IN_SHARED = SLABS * SLAB_BYTES;
constexpr int BARRIERS_IN_SHARED = RESULTS_IN_SHARED + 2 * 4 * GROUPS * RESULT_BYTES;
static_assert(BARRIERS_IN_SHARED + 16 * SLABS == SHARED_BYTES, "as the host counts");

static_assert(slope_from_output<HIDDEN_ACTIVATION>(), "the tape has the hidden layers' outputs");

// What the slope at the outputs follows from is `outputs`; `below` is the tape of the layers below the last.
struct Maps {
    TensorMap weights[LAYERS], dx, dy, outputs, deltas[LAYERS], below[LAYERS - 1];
};

// Columns below a layer that are computed at once, from `column` on.
__device__ constexpr int columns_in_part(int layer, int column) {
    const int rest = width(layer) - column, most = layer == 0 ? WIDEST_PART : HIDDEN_PART;
    return rest < most ? rest : most;
}

__device__ __forceinline__ u32 full(u32 shared, int stage) { return shared + BARRIERS_IN_SHARED + 8 * stage; }
__device__ __forceinline__ u32 empty(u32 shared, int stage) { return full(shared, SLABS + stage); }
__device__ __forceinline__ u32 slab_at(u32 shared, u32 slab) { return shared + slab % SLABS * SLAB_BYTES; }
__device__ __forceinline__ void wait_full(u32 shared, u32 slab) { barrier_wait(full(shared, slab % SLABS), slab / SLABS & 1); }

// ---- Copies: the slabs of a tile, in the order in which they are used. `slab` counts them over all tiles.

struct Copies {
    const Maps &maps;
    u32 shared, rank, slab, tile;

    // The place of the next slab, when everybody in the cluster has left it.
    __device__ __forceinline__ u32 next(u32 bytes) {
        const u32 stage = slab % SLABS;
        if (slab >= SLABS) barrier_wait(empty(shared, stage), (slab / SLABS & 1) ^ 1);
        barrier_expect(full(shared, stage), bytes);
        return slab_at(shared, slab);
    }
    __device__ __forceinline__ void samples(const TensorMap &map, int column) {
        tma_load(next(SLAB_BYTES), map, column, tile * TILE, full(shared, slab % SLABS));
        ++slab;
    }
    template <int LAYER, int COLUMNS>
    __device__ __forceinline__ void weights(int column) {
        for (int row = rank * HALF; row < CHUNK * chunks_of(width(LAYER + 1)); row += CHUNK, ++slab) {
            const u32 at = next(chunks_of(COLUMNS) * BOX_BYTES) + rank * HALF * ROW_BYTES;
#pragma unroll
            for (int box = 0; box < chunks_of(COLUMNS); ++box)
                tma_multicast(at + box * BOX_BYTES, maps.weights[LAYER], column + box * CHUNK, row, full(shared, slab % SLABS), (1 << CLUSTER) - 1);
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

// The warpgroups compute the gradients by the inputs by turns, so that one has the tensor cores while the other stores what it found: each waits for
// its turn, and gives the other one when its products are queued.
__device__ __forceinline__ void wait_turn(u32 group) { asm volatile("bar.sync %0, 256;" ::"r"(group + 1) : "memory"); }
__device__ __forceinline__ void give_turn(u32 group) { asm volatile("bar.arrive %0, 256;" ::"r"((group ^ 1) + 1) : "memory"); }
static_assert(GROUPS == 2 && chunks_of(width(1)) <= SLABS, "a warpgroup can be ahead by a part");

struct Group {
    const Maps &maps;
    u32 shared, group;
    u32 place;    // what the lane loads or stores of 16 columns, in a box of 16 samples
    u32 results;  // the warp's
    u32 slab, stored, row;
    bool leads;

    __device__ __forceinline__ void release(u32 slab) const {
        const u32 barrier = empty(shared, slab % SLABS);
        if (leads)
#pragma unroll
            for (int block = 0; block < CLUSTER; ++block) barrier_arrive_at(barrier, block);
    }
    // Where the lane reads of the slab's samples.
    __device__ __forceinline__ u32 samples() const { return slab_at(shared, slab) + threadIdx.x / 32 * RESULT_BYTES + place; }
    // Words of the slab's samples, which come next.
    template <int COLUMNS>
    __device__ __forceinline__ void load(u32 (&words)[16]) {
        wait_full(shared, slab);
        const u32 at = samples();
#pragma unroll
        for (int step = 0; step < steps_of(COLUMNS); ++step) load_matrices(*reinterpret_cast<u32(*)[4]>(words + 4 * step), at ^ step << 5);
        __syncwarp();
        release(slab++);
    }
    // A box for results, while the other may still be being copied.
    __device__ __forceinline__ u32 next_box() {
        if (leads) tma_wait_read<1>();
        __syncwarp();
        return results + stored++ % 2 * RESULT_BYTES;
    }
    __device__ __forceinline__ void store_step(const u32 *words, u32 box, int step) const {
        store_matrices((box + place) ^ step << 5, *reinterpret_cast<const u32(*)[4]>(words + 4 * step));
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
};

__device__ constexpr int columns_in_box(int columns, int first) { return columns - first < CHUNK ? columns - first : CHUNK; }

// Of 64 columns below a layer: their sums become the gradients before the activation there, in `words`, or those by the inputs.
template <int LAYER, int COLUMNS>
__device__ __forceinline__ void finish_box(const float *d, u32 *words, Group &group, int column) {
    if constexpr (LAYER == 0) {
#pragma unroll
        for (int i = 0; i < COLUMNS / 4; ++i) words[i] = narrow2(d[2 * i], d[2 * i + 1]);
        group.store<COLUMNS>(words, group.maps.dx, column);
    } else {
        const u32 box = group.next_box();
        wait_full(group.shared, group.slab);
        const u32 kept_at = group.samples();
#pragma unroll
        for (int step = 0; step < steps_of(COLUMNS); ++step) {
            u32 kept[4];
            load_matrices(kept, kept_at ^ step << 5);
#pragma unroll
            for (int i = 4 * step; i < 4 * step + 4 && i < COLUMNS / 4; ++i)
                words[i] = times_slope<HIDDEN_ACTIVATION>(d[2 * i], d[2 * i + 1], kept[i % 4]);
            group.store_step(words, box, step);
        }
        group.send(group.maps.deltas[LAYER - 1], column, box);
        group.release(group.slab++);
    }
}

template <int LAYER, int COLUMNS, int FIRST = 0>
__device__ __forceinline__ void finish_boxes(const float *d, u32 *words, Group &group, int column) {
    finish_box<LAYER, columns_in_box(COLUMNS, FIRST)>(d + FIRST / 2, LAYER == 0 ? words : words + FIRST / 4, group, column + FIRST);
    if constexpr (FIRST + CHUNK < COLUMNS) finish_boxes<LAYER, COLUMNS, FIRST + CHUNK>(d, words, group, column);
}

// A part of the columns below a layer: what `deltas`, the layer's own gradients, come to there.
template <int LAYER, int COLUMNS>
__device__ __forceinline__ void below(const u32 *deltas, u32 *words, Group &group, int column) {
    constexpr int K = width(LAYER + 1);
    float d[COLUMNS / 2];
    if constexpr (LAYER == 0) wait_turn(group.group);
#pragma unroll
    for (int chunk = 0; chunk < chunks_of(K); ++chunk, ++group.slab) {
        wait_full(group.shared, group.slab);
        const u64 weights = operand_across(slab_at(group.shared, group.slab), BOX_BYTES);
        wgmma_fence();
#pragma unroll
        for (int step = 4 * chunk; step < 4 * chunk + 4 && step < steps_of(K); ++step)
            wgmma<1>(d, deltas[4 * step], deltas[4 * step + 1], deltas[4 * step + 2], deltas[4 * step + 3], weights + 128 * (step % 4), step > 0);
        wgmma_commit();
        if (chunk > 0) {
            wgmma_wait<1>();
            group.release(group.slab - 1);
        }
    }
    if constexpr (LAYER == 0) give_turn(group.group);
    wgmma_wait<0>();
    group.release(group.slab - 1);
    wgmma_complete(d);
    finish_boxes<LAYER, COLUMNS>(d, words, group, column);
}

template <int LAYER, int COLUMN = 0>
__device__ __forceinline__ void hidden_below(const u32 *deltas, u32 *words, Group &group) {
    constexpr int COLUMNS = columns_in_part(LAYER, COLUMN);
    below<LAYER, COLUMNS>(deltas, words + COLUMN / 4, group, COLUMN);
    if constexpr (COLUMN + COLUMNS < width(LAYER)) hidden_below<LAYER, COLUMN + COLUMNS>(deltas, words, group);
}

template <int LAYER>
__device__ __forceinline__ void layers_below(const u32 *deltas, Group &group, bool inputs) {
    if constexpr (LAYER > 0) {
        u32 words[4 * steps_of(width(LAYER))] = {};
        hidden_below<LAYER>(deltas, words, group);
        layers_below<LAYER - 1>(words, group, inputs);
    } else if (inputs) {
        constexpr int REST = INPUTS % WIDEST_PART;
        u32 words[16];
        if constexpr (INPUTS >= WIDEST_PART)
#pragma unroll 1
            for (int column = 0; column < INPUTS - REST; column += WIDEST_PART) below<0, WIDEST_PART>(deltas, words, group, column);
        if constexpr (REST > 0) below<0, REST>(deltas, words, group, INPUTS - REST);
    }
}

// The gradients before the activation of the outputs.
template <int FIRST = 0>
__device__ __forceinline__ void output_deltas(u32 *words, Group &group) {
    constexpr int COLUMNS = columns_in_box(OUTPUTS, FIRST);
    u32 gradients[16];
    group.load<COLUMNS>(gradients);
    if constexpr (OUTPUT_ACTIVATION != IDENTITY) {
        u32 kept[16];
        group.load<COLUMNS>(kept);
#pragma unroll
        for (int i = 0; i < COLUMNS / 4; ++i)
            gradients[i] = times_slope<OUTPUT_ACTIVATION>(widen_low(gradients[i]), widen_high(gradients[i]), kept[i]);
    }
#pragma unroll
    for (int i = 0; i < COLUMNS / 4; ++i) words[FIRST / 4 + i] = gradients[i];
    group.store<COLUMNS>(gradients, group.maps.deltas[LAYERS - 1], FIRST);
    if constexpr (FIRST + CHUNK < OUTPUTS) output_deltas<FIRST + CHUNK>(words, group);
}

extern "C" __global__ void __cluster_dims__(CLUSTER, 1, 1) __launch_bounds__(THREADS, 1)
    coopmat_mlp_backward_wgmma_chain_stream(const __grid_constant__ Maps maps, u32 batch, u32 inputs) {
    extern __shared__ __align__(1024) char shared[];
    const u32 base = shared_address(shared);
    const int warp = uniform(threadIdx.x / 32), lane = threadIdx.x % 32;
    // Tiles are dealt to clusters, so that the blocks of one go through as many.
    const u32 rounds = ((batch + TILE - 1) / TILE + CLUSTER - 1) / CLUSTER;
    if (threadIdx.x == 0) {
        for (int stage = 0; stage < SLABS; ++stage) {
            barrier_init(full(base, stage), 1);
            barrier_init(empty(base, stage), 4 * GROUPS * CLUSTER);
        }
        fence_barrier_init();
    }
    __syncthreads();
    cluster_sync();

    if (warp >= GROUPS * 4) {
        give_registers<REGISTERS_TO_COPY>();
        if (threadIdx.x == GROUPS * 128) {
            Copies copies{maps, base, blockIdx.x % CLUSTER, 0, 0};
            for (copies.tile = blockIdx.x; copies.tile / CLUSTER < rounds; copies.tile += gridDim.x) copies.all(inputs);
        }
    } else {
        take_registers<REGISTERS_TO_COMPUTE>();
        const u32 place = lane % 16 * ROW_BYTES + ((lane / 16 ^ lane % 8) << 4);
        Group group{maps, base, warp / 4u, place, base + RESULTS_IN_SHARED + 2 * warp * RESULT_BYTES, 0, 0, 0, lane == 0};
        if (group.group == 1) give_turn(1);
        for (u32 tile = blockIdx.x; tile / CLUSTER < rounds; tile += gridDim.x) {
            group.row = tile * TILE + warp * 16;
            u32 words[4 * steps_of(OUTPUTS)] = {};
            output_deltas(words, group);
            layers_below<LAYERS - 1>(words, group, inputs);
        }
        if (group.leads) tma_wait_read<0>();
        // The last turn, which nobody takes.
        if (group.group == 0) wait_turn(0);
    }
    // Nobody leaves while the other block may still write into its shared memory.
    cluster_sync();
}
