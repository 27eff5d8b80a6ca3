// The chain where the weights do not fit in shared memory: two blocks of a cluster each have a tile of 128 samples, 64 for each of two warpgroups,
// and go through the weights together. Slabs of 64 rows by the columns of a part come through a ring, of which each block brings one half of the
// rows for both. A layer's gradients stay in registers while the layer below is computed in parts, narrow enough for the registers that are left.

constexpr int GROUPS = 2;
constexpr int TILE = 64 * GROUPS;  // samples of a block
constexpr int CLUSTER = 2;
constexpr int THREADS = (GROUPS + 1) * 128;
constexpr int BOX_BYTES = CHUNK * ROW_BYTES;  // 64 rows by 64 columns
constexpr int HALF = CHUNK / CLUSTER;         // rows of a box that a block brings
constexpr int SLAB_BYTES = WIDEST_PART / CHUNK * BOX_BYTES;

constexpr int BARRIERS_IN_SHARED = SLABS * SLAB_BYTES;
static_assert(BARRIERS_IN_SHARED + 16 * SLABS == SHARED_BYTES, "as the host counts");

struct Maps {
    TensorMap weights[LAYERS];
};

// Columns below a layer that are computed at once.
__device__ constexpr int part_of(int layer) { return layer == 0 ? WIDEST_PART : HIDDEN_PART; }
__device__ constexpr int part_columns(int layer, int part) {
    return width(layer) - part * part_of(layer) < part_of(layer) ? width(layer) - part * part_of(layer) : part_of(layer);
}

__device__ __forceinline__ u32 full(u32 shared, int stage) { return shared + BARRIERS_IN_SHARED + 8 * stage; }
__device__ __forceinline__ u32 empty(u32 shared, int stage) { return full(shared, SLABS + stage); }

// The slabs of a tile, in the order in which they are used. `slab` counts them over all tiles.
template <int LAYER = LAYERS - 1, int PART = 0>
__device__ __forceinline__ void bring_weights(const Maps &maps, u32 shared, u32 rank, u32 &slab, bool inputs) {
    constexpr int BOXES = chunks_of(part_columns(LAYER, PART));
    if (LAYER == 0 && !inputs) return;
    for (int row = rank * HALF; row < CHUNK * chunks_of(width(LAYER + 1)); row += CHUNK, ++slab) {
        const u32 stage = slab % SLABS, at = shared + stage * SLAB_BYTES + rank * HALF * ROW_BYTES;
        if (slab >= SLABS) barrier_wait(empty(shared, stage), (slab / SLABS & 1) ^ 1);
        barrier_expect(full(shared, stage), BOXES * BOX_BYTES);
#pragma unroll
        for (int box = 0; box < BOXES; ++box)
            copy_box_to_all(at + box * BOX_BYTES, maps.weights[LAYER], PART * part_of(LAYER) + box * CHUNK, row, full(shared, stage),
                            (1 << CLUSTER) - 1);
    }
    if constexpr ((PART + 1) * part_of(LAYER) < width(LAYER)) bring_weights<LAYER, PART + 1>(maps, shared, rank, slab, inputs);
    else if constexpr (LAYER > 0) bring_weights<LAYER - 1, 0>(maps, shared, rank, slab, inputs);
}

__device__ __forceinline__ void release(u32 shared, u32 slab) {
    const u32 barrier = empty(shared, slab % SLABS);
#pragma unroll
    for (int block = 0; block < CLUSTER; ++block) barrier_arrive_at(barrier, block);
}

template <int LAYER, int PART = 0>
__device__ __forceinline__ void below(const u32 *deltas, u32 *words, u32 shared, u32 &slab, const Arrays &arrays, Rows rows, bool leads) {
    constexpr int K = width(LAYER + 1), COLUMNS = part_columns(LAYER, PART), COLUMN = PART * part_of(LAYER);
    Run<COLUMNS> kept;
    if constexpr (LAYER > 0) kept.load(tape_below<LAYER>(arrays, rows), width(LAYER), COLUMN, rows);
    float d[COLUMNS / 2];
#pragma unroll
    for (int chunk = 0; chunk < chunks_of(K); ++chunk, ++slab) {
        barrier_wait(full(shared, slab % SLABS), slab / SLABS & 1);
        const u64 weights = operand_across(shared + slab % SLABS * SLAB_BYTES, BOX_BYTES);
        wgmma_begin();
#pragma unroll
        for (int step = 4 * chunk; step < 4 * chunk + 4 && step < steps_of(K); ++step)
            wgmma<1>(d, deltas[4 * step], deltas[4 * step + 1], deltas[4 * step + 2], deltas[4 * step + 3], weights + 128 * (step % 4), step > 0);
        wgmma_commit();
        if (chunk > 0) {
            wgmma_wait<1>();
            if (leads) release(shared, slab - 1);
        }
    }
    wgmma_wait<0>();
    if (leads) release(shared, slab - 1);
    sums_are_there(d);
    finish_below<LAYER, COLUMNS>(d, kept, words, COLUMN, arrays, rows);
    if constexpr (COLUMN + part_of(LAYER) < width(LAYER))
        below<LAYER, PART + 1>(deltas, LAYER == 0 ? words : words + part_of(LAYER) / 4, shared, slab, arrays, rows, leads);
}

template <int LAYER>
__device__ __forceinline__ void layers_below(const u32 *deltas, u32 shared, u32 &slab, const Arrays &arrays, Rows rows, bool leads) {
    if constexpr (LAYER > 0) {
        u32 words[4 * steps_of(width(LAYER))] = {};
        below<LAYER>(deltas, words, shared, slab, arrays, rows, leads);
        layers_below<LAYER - 1>(words, shared, slab, arrays, rows, leads);
    } else if (arrays.dx) {
        u32 words[4 * steps_of(part_of(0))];
        below<0>(deltas, words, shared, slab, arrays, rows, leads);
    }
}

extern "C" __global__ void __cluster_dims__(CLUSTER, 1, 1) __launch_bounds__(THREADS, 1)
    coopmat_mlp_backward_wgmma_chain_stream(const __grid_constant__ Maps maps, const Storage *y, const Storage *dy, const Storage *tape,
                                            Storage *dx, Storage *deltas, Storage *activations, u32 batch) {
    extern __shared__ __align__(1024) char shared[];
    const u32 base = shared_address(shared), rank = blockIdx.x % CLUSTER;
    const int warp = uniform(threadIdx.x / 32), lane = threadIdx.x % 32;
    // Tiles are dealt to clusters, so that the blocks of one go through as many.
    const u32 rounds = ((batch + TILE - 1) / TILE + CLUSTER - 1) / CLUSTER;
    if (threadIdx.x == 0) {
        for (int stage = 0; stage < SLABS; ++stage) {
            barrier_init(full(base, stage), 1);
            barrier_init(empty(base, stage), 4 * GROUPS * CLUSTER);
        }
        barriers_are_there();
    }
    __syncthreads();
    cluster_sync();

    if (warp >= GROUPS * 4) {
        give_registers<REGISTERS_TO_COPY>();
        if (threadIdx.x == GROUPS * 128) {
            u32 slab = 0;
            for (u32 tile = blockIdx.x; tile / CLUSTER < rounds; tile += gridDim.x) bring_weights(maps, base, rank, slab, dx != nullptr);
        }
    } else {
        take_registers<REGISTERS_TO_COMPUTE>();
        const Arrays arrays{y, dy, tape, dx, deltas, activations};
        u32 slab = 0;
        for (u32 tile = blockIdx.x; tile / CLUSTER < rounds; tile += gridDim.x) {
            const Rows rows{tile * TILE + warp * 16 + lane / 4, batch, lane % 4};
            u32 words[4 * steps_of(OUTPUTS)] = {};
            output_deltas(words, arrays, rows);
            layers_below<LAYERS - 1>(words, base, slab, arrays, rows, lane == 0);
        }
    }
    // Nobody leaves while the other block may still write into its shared memory.
    cluster_sync();
}
