// The gradients of the parameters: for each layer, the product of the gradients before its
// activation and its inputs, summed over samples. A block has a tile of one layer's weights, 128
// rows by up to 256 columns, and every so many slabs of 64 samples; both operands come as they lie
// in memory, samples along rows. The gradients of biases are one more column: the product with
// ones. Layers of up to 64 rows are computed by the two warpgroups for every other slab. Blocks of
// a cluster have neighboring tiles: what two of them need leaves the L2 cache once.
#include "tile/ptx/cluster.cuh"
#include "tile/reduce.cuh"
#include "tile/ring.cuh"
#include "tile/wgmma.cuh"

constexpr int SLAB = 64;  // samples
constexpr int THREADS = 3 * 128;
constexpr int BOX_BYTES = SLAB * ROW_BYTES;
typedef Ring<STAGES, STAGE_BYTES> Slabs;

// Of the inputs, and of the gradients before the activation, of every layer.
struct Maps {
    TensorMap inputs[LAYERS], deltas[LAYERS];
};

// Of a layer: its tiles, how a cluster shares them (so many rows of tiles, columns, and ranges),
// and its sums, of which so many are added up at last.
template <int LAYER>
struct Layer {
    static constexpr int K = width(LAYER), N = width(LAYER + 1), PARTS = parts_of(K), RANGES = ranges_of(LAYER);
    static constexpr bool TURNS = N <= 64;
    static constexpr int ROW_BOXES = TURNS ? 1 : 2, ROW_TILES = TURNS ? 1 : (N + 127) / 128;
    static constexpr int CLUSTER_ROWS = common_divisor(ROW_TILES, CLUSTER);
    static constexpr int CLUSTER_PARTS = common_divisor(PARTS, CLUSTER / CLUSTER_ROWS);
    static constexpr int CLUSTER_RANGES = CLUSTER / (CLUSTER_ROWS * CLUSTER_PARTS);
    static constexpr int BLOCKS = ROW_TILES * PARTS * RANGES;
    static constexpr int ADDENDS = RANGES * (TURNS ? 2 : 1), SIZE = (K + 1) * N;
    // Where its sums begin.
    __device__ static constexpr u64 sums_at() {
        if constexpr (LAYER == 0) return 0;
        else return Layer<LAYER - 1>::sums_at() + (u64)Layer<LAYER - 1>::ADDENDS * Layer<LAYER - 1>::SIZE;
    }
};

// Shared memory: the ring, ones, barriers.
constexpr int ONES_AT = Slabs::PLACES_BYTES;
constexpr int BARRIERS_AT = ONES_AT + ONES_BYTES;
static_assert(BARRIERS_AT + Slabs::BYTES == SHARED_BYTES, "as the host counts");

// Where a block is in its cluster.
struct Place {
    u32 row, part, first;  // of its tile; the first block of the same range

    template <int LAYER>
    __device__ __forceinline__ u32 block(u32 row, u32 part) const {
        return first + part * Layer<LAYER>::CLUSTER_ROWS + row;
    }
};

// Every block that brings something for this one hears that eight warps have left a slab, or four
// twice.
template <int LAYER>
__device__ __forceinline__ void leave(u32 barrier, const Place &place) {
    typedef Layer<LAYER> L;
#pragma unroll
    for (int times = 0; times < (L::TURNS ? 2 : 1); ++times) {
        if constexpr (CLUSTER == 1) {
            barrier_arrive(barrier);
        } else {
#pragma unroll
            for (int row = 0; row < L::CLUSTER_ROWS; ++row) barrier_arrive_at(barrier, place.block<LAYER>(row, place.part));
#pragma unroll
            for (int part = 0; part < L::CLUSTER_PARTS; ++part)
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
    typedef Layer<LAYER> L;
    constexpr int COLUMNS = columns_of(L::K, PART), CHUNKS = chunks_of(COLUMNS);
    static_assert((L::ROW_BOXES + CHUNKS) * BOX_BYTES <= STAGE_BYTES, "as the host counts");
    // What lets a warpgroup wait for a slab by parity; it leaves a slab when it has the next one.
    static_assert(STAGES > (L::TURNS ? 2 : 1) && (!L::TURNS || STAGES % 2 == 0), "a place is for one warpgroup where they take turns");
    const Slabs ring(shared, shared + BARRIERS_AT);
    const int warp = uniform(threadIdx.x / 32), lane = threadIdx.x % 32;
    const u32 count = range < slabs ? (slabs - range + L::RANGES - 1) / L::RANGES : 0;
    if (threadIdx.x == 0) {
        ring.init(FULL, 1);
        ring.init(EMPTY, 8 * (L::CLUSTER_ROWS + L::CLUSTER_PARTS - 1));
        fence_barrier_init();
    }
    __syncthreads();
    if (CLUSTER > 1) cluster_sync();
    if (warp >= 8) {
        give_registers<REGISTERS_TO_COPY>();
        if (threadIdx.x != 256) return;
        for (u32 number = 0; number < count; ++number) {
            const u32 at = ring.fill(number, (L::ROW_BOXES + CHUNKS) * BOX_BYTES), full = ring.full(number);
            const u32 sample = (range + number * L::RANGES) * SLAB;
            // Of what others need too, each brings every so many boxes.
            u32 same_row = 0, same_part = 0;
#pragma unroll
            for (int part = 0; part < L::CLUSTER_PARTS; ++part) same_row |= 1u << place.block<LAYER>(place.row, part);
#pragma unroll
            for (int row = 0; row < L::CLUSTER_ROWS; ++row) same_part |= 1u << place.block<LAYER>(row, place.part);
            for (int box = place.part; box < L::ROW_BOXES; box += L::CLUSTER_PARTS)
                share_box(at + box * BOX_BYTES, maps.deltas[LAYER], (row_tile * L::ROW_BOXES + box) * CHUNK, sample, full, same_row);
            for (int chunk = place.row; chunk < CHUNKS; chunk += L::CLUSTER_ROWS)
                share_box(at + (L::ROW_BOXES + chunk) * BOX_BYTES, maps.inputs[LAYER], column_of(L::K, PART) + chunk * CHUNK, sample, full, same_part);
        }
    } else {
        take_registers<REGISTERS_TO_COMPUTE>();
        const u32 group = warp / 4, begin = L::TURNS ? group : 0;
        float d[COLUMNS / 2], bias[4];
        zero(d);
        zero(bias);
        const Along<> ones(shared + ONES_AT);
        u32 last = 0;
#pragma unroll 1
        for (u32 number = begin; number < count; number += L::TURNS ? 2 : 1) {
            ring.wait_full(number);
            const Across<BOX_BYTES> deltas(ring.place(number) + (L::TURNS ? 0 : group * BOX_BYTES));
            const Across<BOX_BYTES> inputs(ring.place(number) + L::ROW_BOXES * BOX_BYTES);
            wgmma_fence();
#pragma unroll
            for (int step = 0; step < SLAB / 16; ++step) {
                multiply<1>(d, deltas.from(step), inputs.from(step), true);
                if constexpr (PART == 0) multiply<1>(bias, deltas.from(step), ones, true);
            }
            wgmma_commit();
            wgmma_wait<1>();
            if (number > begin && lane == 0) leave<LAYER>(last, place);
            last = ring.empty(number);
        }
        wait_for_sums(d);
        wgmma_complete(bias);
        const u32 addend = L::TURNS ? 2 * range + group : range;
        float *to = ATOMIC ? sums + weights_at(LAYER) : sums + L::sums_at() + (u64)addend * L::SIZE;
        const int row = row_tile * 128 + (L::TURNS ? 0 : group * 64) + warp % 4 * 16 + lane / 4, column = column_of(L::K, PART) + lane % 4 * 2;
        float *weights = to + row * L::K + column, *biases = to + L::N * L::K + row;
        each_pair(d, [&](int r, int c, float low, float high) {
            if (row + r < L::N) give<ATOMIC>(weights + r * L::K + c, make_float2(low, high));
        });
        if (PART == 0 && lane % 4 == 0) {
            if (row < L::N) give<ATOMIC>(biases, bias[0]);
            if (row + 8 < L::N) give<ATOMIC>(biases + 8, bias[2]);
        }
    }
}

template <int LAYER, int PART>
__device__ __forceinline__ void part_of_block(const Maps &maps, float *sums, u32 shared, u32 range, int part, int row_tile, u32 slabs,
                                              const Place &place) {
    if constexpr (PART + 1 < Layer<LAYER>::PARTS) {
        if (part > PART) return part_of_block<LAYER, PART + 1>(maps, sums, shared, range, part, row_tile, slabs, place);
    }
    tile<LAYER, PART>(maps, sums, shared, range, row_tile, slabs, place);
}

// Which tile a block has: layer by layer, all clusters of a range one after the other.
template <int LAYER = 0>
__device__ __forceinline__ void tile_of_block(const Maps &maps, float *sums, u32 shared, u32 block, u32 slabs) {
    typedef Layer<LAYER> L;
    constexpr u32 ROWS = L::CLUSTER_ROWS, PARTS = L::CLUSTER_PARTS, ROW_CLUSTERS = L::ROW_TILES / ROWS, CLUSTERS = ROW_CLUSTERS * (L::PARTS / PARTS);
    if constexpr (LAYER + 1 < LAYERS) {
        if (block >= L::BLOCKS) return tile_of_block<LAYER + 1>(maps, sums, shared, block - L::BLOCKS, slabs);
    }
    const u32 cluster = block / CLUSTER, rank = block % CLUSTER, of_range = cluster % CLUSTERS, tile = rank % (ROWS * PARTS);
    const Place place{tile % ROWS, tile / ROWS, rank - tile};
    const u32 range = cluster / CLUSTERS * L::CLUSTER_RANGES + rank / (ROWS * PARTS);
    part_of_block<LAYER, 0>(maps, sums, shared, range, of_range / ROW_CLUSTERS * PARTS + place.part, of_range % ROW_CLUSTERS * ROWS + place.row,
                            slabs, place);
}

extern "C" __global__ void __cluster_dims__(CLUSTER, 1, 1) __launch_bounds__(THREADS, 1)
    coopmat_mlp_backward_wgmma_gradients(const __grid_constant__ Maps maps, float *sums, u32 batch) {
    extern __shared__ __align__(1024) char shared[];
    place_ones(shared + ONES_AT);
    fence_async();
    tile_of_block(maps, sums, shared_address(shared), blockIdx.x, (batch + SLAB - 1) / SLAB);
    // Nobody leaves while another block may still write into its shared memory.
    if (CLUSTER > 1) cluster_sync();
}

// Every eighth addend from this one on. How many there are is known for a layer, so that all are
// under way at once.
template <int LAYER = 0>
__device__ __forceinline__ float part_of_sum(const float *sums, u32 parameter, u32 addend) {
    typedef Layer<LAYER> L;
    if constexpr (LAYER + 1 < LAYERS)
        if (parameter >= weights_at(LAYER + 1)) return part_of_sum<LAYER + 1>(sums, parameter, addend);
    const float *from = sums + L::sums_at() + (parameter - weights_at(LAYER));
    float sum = 0.0f;
#pragma unroll 8
    for (; addend < L::ADDENDS; addend += 8) sum += from[(u64)addend * L::SIZE];
    return sum;
}

// The gradients are the sums of all ranges, in a fixed order.
extern "C" __global__ void __launch_bounds__(256) coopmat_mlp_backward_wgmma_sum(const float *sums, float *gradients) {
    const u32 parameter = blockIdx.x * 32 + threadIdx.x % 32;
    const bool there = parameter < PARAMETERS;
    add_parts<32, 8>(gradients + parameter, there, there ? part_of_sum(sums, parameter, threadIdx.x / 32) : 0.0f);
}
