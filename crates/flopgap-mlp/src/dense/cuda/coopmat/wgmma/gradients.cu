// The gradients of the parameters: for each layer, the product of the gradients before its activation and its inputs, summed over samples. A block
// has a tile of one layer's weights, 128 rows by up to 256 columns, and every so many slabs of 64 samples; both operands come as they lie in
// memory, samples along rows, which `wgmma` takes transposed. The gradients of biases are one more column: the product with ones. Layers of up
// to 64 rows are computed by the two warpgroups for every other slab. Blocks of a cluster have neighbouring tiles: what two of them need leaves the
// L2 cache once.
#include "coopmat/wgmma/wgmma.cuh"
#include "tile/ptx/cluster.cuh"

constexpr int SLAB = 64;  // samples
constexpr int THREADS = 3 * 128;
constexpr int BOX_BYTES = SLAB * ROW_BYTES;

// Of the inputs, and of the gradients before the activation, of every layer.
struct Maps {
    TensorMap inputs[LAYERS], deltas[LAYERS];
};

__device__ constexpr bool by_turns(int layer) { return width(layer + 1) <= 64; }
__device__ constexpr int row_boxes(int layer) { return by_turns(layer) ? 1 : 2; }
__device__ constexpr int row_tiles(int layer) { return by_turns(layer) ? 1 : (width(layer + 1) + 127) / 128; }
// The tiles of a cluster: so many rows of them, columns, and ranges.
__device__ constexpr int common_divisor(int a, int b) { return b == 0 ? a : common_divisor(b, a % b); }
__device__ constexpr int cluster_rows(int layer) { return common_divisor(row_tiles(layer), CLUSTER); }
__device__ constexpr int cluster_parts(int layer) { return common_divisor(parts_of(width(layer)), CLUSTER / cluster_rows(layer)); }
__device__ constexpr int cluster_ranges(int layer) { return CLUSTER / (cluster_rows(layer) * cluster_parts(layer)); }
// Sums of a layer that are added up at last.
__device__ constexpr int addends_of(int layer) { return ranges_of(layer) * (by_turns(layer) ? 2 : 1); }
__device__ constexpr int size_of(int layer) { return (width(layer) + 1) * width(layer + 1); }
__device__ constexpr u64 sums_at(int layer) { return layer == 0 ? 0 : sums_at(layer - 1) + (u64)addends_of(layer - 1) * size_of(layer - 1); }

// Shared memory: the ring, ones, barriers.
constexpr int ONES_IN_SHARED = STAGES * STAGE_BYTES;
constexpr int BARRIERS_IN_SHARED = ONES_IN_SHARED + 1024;
static_assert(BARRIERS_IN_SHARED + 16 * STAGES == SHARED_BYTES, "as the host counts");

__device__ __forceinline__ u32 full(u32 shared, int stage) { return shared + BARRIERS_IN_SHARED + 8 * stage; }
__device__ __forceinline__ u32 empty(u32 shared, int stage) { return full(shared, STAGES + stage); }

// Where a block is in its cluster.
struct Place {
    u32 row, part, first;  // of its tile; the first block of the same range

    template <int LAYER>
    __device__ __forceinline__ u32 block(u32 row, u32 part) const {
        return first + part * cluster_rows(LAYER) + row;
    }
};

// Every block that brings something for this one hears that eight warps have left a stage, or four twice.
template <int LAYER>
__device__ __forceinline__ void release(u32 barrier, const Place &place) {
#pragma unroll
    for (int times = 0; times < (by_turns(LAYER) ? 2 : 1); ++times) {
        if constexpr (CLUSTER == 1) {
            barrier_arrive(barrier);
        } else {
#pragma unroll
            for (int row = 0; row < cluster_rows(LAYER); ++row) barrier_arrive_at(barrier, place.block<LAYER>(row, place.part));
#pragma unroll
            for (int part = 0; part < cluster_parts(LAYER); ++part)
                if (part != place.part) barrier_arrive_at(barrier, place.block<LAYER>(place.row, part));
        }
    }
}

// A box for these blocks of the cluster.
__device__ __forceinline__ void share_box(u32 to, const TensorMap &map, int column, u32 sample, u32 barrier, u32 blocks) {
    if constexpr (CLUSTER == 1) tma_load(to, map, column, sample, barrier);
    else tma_multicast(to, map, column, sample, barrier, blocks);
}

// A tile: `row_tile` of this part of the layer's columns, over the slabs of a range.
template <int LAYER, int PART>
__device__ __forceinline__ void tile(const Maps &maps, float *sums, u32 shared, u32 range, int row_tile, u32 slabs, const Place &place) {
    constexpr int COLUMNS = columns_of(width(LAYER), PART), ROW_BOXES = row_boxes(LAYER), CHUNKS = chunks_of(COLUMNS);
    constexpr int RANGES = ranges_of(LAYER), K = width(LAYER), ROWS = width(LAYER + 1);
    constexpr bool TURNS = by_turns(LAYER);
    static_assert((ROW_BOXES + CHUNKS) * BOX_BYTES <= STAGE_BYTES, "as the host counts");
    // A warpgroup leaves a stage when it has the next one. It waits for a use of a stage by its parity: it must have waited for the use before, too.
    static_assert(STAGES > (TURNS ? 2 : 1) && (!TURNS || STAGES % 2 == 0), "a stage is for one warpgroup where they take turns");
    const int warp = uniform(threadIdx.x / 32), lane = threadIdx.x % 32;
    const u32 count = range < slabs ? (slabs - range + RANGES - 1) / RANGES : 0;
    if (threadIdx.x == 0) {
        for (int stage = 0; stage < STAGES; ++stage) {
            barrier_init(full(shared, stage), 1);
            barrier_init(empty(shared, stage), 8 * (cluster_rows(LAYER) + cluster_parts(LAYER) - 1));
        }
        fence_barrier_init();
    }
    __syncthreads();
    if (CLUSTER > 1) cluster_sync();
    if (warp >= 8) {
        give_registers<REGISTERS_TO_COPY>();
        if (threadIdx.x == 256) {
            for (u32 number = 0; number < count; ++number) {
                const u32 stage = number % STAGES, at = shared + stage * STAGE_BYTES, sample = (range + number * RANGES) * SLAB;
                if (number >= STAGES) barrier_wait(empty(shared, stage), (number / STAGES & 1) ^ 1);
                barrier_expect(full(shared, stage), (ROW_BOXES + CHUNKS) * BOX_BYTES);
                // Of what others need too, each brings every so many boxes.
                u32 same_row = 0, same_part = 0;
#pragma unroll
                for (int part = 0; part < cluster_parts(LAYER); ++part) same_row |= 1u << place.block<LAYER>(place.row, part);
#pragma unroll
                for (int row = 0; row < cluster_rows(LAYER); ++row) same_part |= 1u << place.block<LAYER>(row, place.part);
                for (int box = place.part; box < ROW_BOXES; box += cluster_parts(LAYER))
                    share_box(at + box * BOX_BYTES, maps.deltas[LAYER], (row_tile * ROW_BOXES + box) * CHUNK, sample, full(shared, stage), same_row);
                for (int chunk = place.row; chunk < CHUNKS; chunk += cluster_rows(LAYER))
                    share_box(at + (ROW_BOXES + chunk) * BOX_BYTES, maps.inputs[LAYER], PART * 256 + chunk * CHUNK, sample, full(shared, stage),
                              same_part);
            }
        }
    } else {
        take_registers<REGISTERS_TO_COMPUTE>();
        const u32 group = warp / 4;
        float d[COLUMNS / 2], bias[4];
#pragma unroll
        for (int i = 0; i < COLUMNS / 2; ++i) d[i] = 0.0f;
#pragma unroll
        for (int i = 0; i < 4; ++i) bias[i] = 0.0f;
        const u64 ones = operand(shared + ONES_IN_SHARED);
        constexpr u32 STRIDE = TURNS ? 2 : 1;
        const u32 begin = TURNS ? group : 0;
        u32 last = 0;
#pragma unroll 1
        for (u32 number = begin; number < count; number += STRIDE) {
            const u32 stage = number % STAGES, at = shared + stage * STAGE_BYTES;
            barrier_wait(full(shared, stage), number / STAGES & 1);
            const u64 deltas = operand_across(at + (TURNS ? 0 : group * BOX_BYTES), BOX_BYTES), inputs = operand_across(at + ROW_BOXES * BOX_BYTES, BOX_BYTES);
            wgmma_fence();
#pragma unroll
            for (int step = 0; step < SLAB / 16; ++step) {
                wgmma<1, 1>(d, deltas + 128 * step, inputs + 128 * step, 1);
                if constexpr (PART == 0) wgmma<1, 0>(bias, deltas + 128 * step, ones, 1);
            }
            wgmma_commit();
            wgmma_wait<1>();
            if (number > begin && lane == 0) release<LAYER>(empty(shared, last), place);
            last = stage;
        }
        wgmma_wait<0>();
        wgmma_complete(d);
        wgmma_complete(bias);
        const u32 addend = TURNS ? 2 * range + group : range;
        float *to = ATOMIC ? sums + weights_at(LAYER) : sums + sums_at(LAYER) + (u64)addend * size_of(LAYER);
        const int row = row_tile * 128 + (TURNS ? 0 : group * 64) + warp % 4 * 16 + lane / 4, column = PART * 256 + lane % 4 * 2;
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            if (row + 8 * half >= ROWS) continue;
            float *here = to + (row + 8 * half) * K + column;
#pragma unroll
            for (int c = 0; c < COLUMNS; c += 8) {
                const float low = d[c / 2 + 2 * half], high = d[c / 2 + 2 * half + 1];
                if constexpr (ATOMIC) atomicAdd(here + c, low), atomicAdd(here + c + 1, high);
                else *reinterpret_cast<float2 *>(here + c) = make_float2(low, high);
            }
            if (PART == 0 && lane % 4 == 0) {
                float *there = to + ROWS * K + row + 8 * half;
                if constexpr (ATOMIC) atomicAdd(there, bias[2 * half]);
                else *there = bias[2 * half];
            }
        }
    }
}

template <int LAYER, int PART>
__device__ __forceinline__ void part_of_block(const Maps &maps, float *sums, u32 shared, u32 range, int part, int row_tile, u32 slabs,
                                              const Place &place) {
    if constexpr (PART + 1 < parts_of(width(LAYER))) {
        if (part > PART) return part_of_block<LAYER, PART + 1>(maps, sums, shared, range, part, row_tile, slabs, place);
    }
    tile<LAYER, PART>(maps, sums, shared, range, row_tile, slabs, place);
}

// Which tile a block has: layer by layer, all clusters of a range one after the other.
template <int LAYER = 0>
__device__ __forceinline__ void tile_of_block(const Maps &maps, float *sums, u32 shared, u32 block, u32 slabs) {
    constexpr u32 ROWS = cluster_rows(LAYER), PARTS = cluster_parts(LAYER), CLUSTER_ROWS = row_tiles(LAYER) / ROWS;
    constexpr u32 CLUSTERS = CLUSTER_ROWS * (parts_of(width(LAYER)) / PARTS), BLOCKS = row_tiles(LAYER) * parts_of(width(LAYER)) * ranges_of(LAYER);
    if constexpr (LAYER + 1 < LAYERS) {
        if (block >= BLOCKS) return tile_of_block<LAYER + 1>(maps, sums, shared, block - BLOCKS, slabs);
    }
    const u32 cluster = block / CLUSTER, rank = block % CLUSTER, of_range = cluster % CLUSTERS, tile = rank % (ROWS * PARTS);
    const Place place{tile % ROWS, tile / ROWS, rank - tile};
    const u32 range = cluster / CLUSTERS * cluster_ranges(LAYER) + rank / (ROWS * PARTS);
    part_of_block<LAYER, 0>(maps, sums, shared, range, of_range / CLUSTER_ROWS * PARTS + place.part, of_range % CLUSTER_ROWS * ROWS + place.row, slabs,
                            place);
}

extern "C" __global__ void __cluster_dims__(CLUSTER, 1, 1) __launch_bounds__(THREADS, 1)
    coopmat_mlp_backward_wgmma_gradients(const __grid_constant__ Maps maps, float *sums, u32 batch) {
    extern __shared__ __align__(1024) char shared[];
    if (threadIdx.x < 256) reinterpret_cast<u32 *>(shared + ONES_IN_SHARED)[threadIdx.x] = narrow2(1.0f, 1.0f);
    fence_async();
    tile_of_block(maps, sums, shared_address(shared), blockIdx.x, (batch + SLAB - 1) / SLAB);
    // Nobody leaves while another block may still write into its shared memory.
    if (CLUSTER > 1) cluster_sync();
}

// The gradients are the sums of all ranges, in a fixed order: 32 parameters and 8 slices of the addends a block.
template <int LAYER = 0>
__device__ __forceinline__ float slice_of(const float *sums, u32 parameter, u32 slice) {
    if constexpr (LAYER + 1 < LAYERS)
        if (parameter >= weights_at(LAYER + 1)) return slice_of<LAYER + 1>(sums, parameter, slice);
    const float *from = sums + sums_at(LAYER) + (parameter - weights_at(LAYER));
    float sum = 0.0f;
#pragma unroll 8
    for (u32 addend = slice; addend < addends_of(LAYER); addend += 8) sum += from[(u64)addend * size_of(LAYER)];
    return sum;
}

extern "C" __global__ void __launch_bounds__(256) coopmat_mlp_backward_wgmma_sum(const float *sums, float *gradients) {
    __shared__ float slices[8][32];
    const u32 lane = threadIdx.x % 32, slice = threadIdx.x / 32, parameter = blockIdx.x * 32 + lane;
    slices[slice][lane] = parameter < PARAMETERS ? slice_of(sums, parameter, slice) : 0.0f;
    __syncthreads();
    if (slice == 0 && parameter < PARAMETERS) {
        float sum = 0.0f;
#pragma unroll
        for (int i = 0; i < 8; ++i) sum += slices[i][lane];
        gradients[parameter] = sum;
    }
}
