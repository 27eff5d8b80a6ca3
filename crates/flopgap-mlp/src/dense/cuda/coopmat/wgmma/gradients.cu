// The gradients of the parameters: for each layer, the product of the gradients before its activation and its inputs, summed over samples. A block
// has a tile of one layer's weights, 128 rows by up to 256 columns, and every so many slabs of 64 samples; both operands come as they lie in
// memory, samples along rows, which `wgmma` takes transposed. The gradients of biases are one more column: the product with ones. Layers of up
// to 64 rows are computed by the two warpgroups for every other slab.

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
__device__ constexpr int boxes_of(int layer, int part) { return row_boxes(layer) + chunks_of(columns_of(width(layer), part)); }
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

// Eight warps leave a stage, or four twice.
__device__ __forceinline__ void release(u32 barrier, bool turns) {
    barrier_arrive(barrier);
    if (turns) barrier_arrive(barrier);
}

// A tile: `row_tile` of this part of the layer's columns, over the slabs of a range.
template <int LAYER, int PART>
__device__ __forceinline__ void tile(const Maps &maps, float *sums, u32 shared, u32 range, int row_tile, u32 slabs) {
    constexpr int COLUMNS = columns_of(width(LAYER), PART), ROW_BOXES = row_boxes(LAYER), CHUNKS = chunks_of(COLUMNS);
    constexpr int RANGES = ranges_of(LAYER), K = width(LAYER), ROWS = width(LAYER + 1);
    constexpr bool TURNS = by_turns(LAYER);
    static_assert((ROW_BOXES + CHUNKS) * BOX_BYTES <= STAGE_BYTES, "as the host counts");
    const int warp = uniform(threadIdx.x / 32), lane = threadIdx.x % 32;
    const u32 count = range < slabs ? (slabs - range + RANGES - 1) / RANGES : 0;
    if (warp >= 8) {
        give_registers<REGISTERS_TO_COPY>();
        if (threadIdx.x == 256) {
            for (u32 number = 0; number < count; ++number) {
                const u32 stage = number % STAGES, at = shared + stage * STAGE_BYTES, sample = (range + number * RANGES) * SLAB;
                if (number >= STAGES) barrier_wait(empty(shared, stage), (number / STAGES & 1) ^ 1);
                barrier_expect(full(shared, stage), (ROW_BOXES + CHUNKS) * BOX_BYTES);
#pragma unroll
                for (int box = 0; box < ROW_BOXES; ++box)
                    copy_box(at + box * BOX_BYTES, maps.deltas[LAYER], (row_tile * ROW_BOXES + box) * CHUNK, sample, full(shared, stage));
#pragma unroll
                for (int chunk = 0; chunk < CHUNKS; ++chunk)
                    copy_box(at + (ROW_BOXES + chunk) * BOX_BYTES, maps.inputs[LAYER], PART * 256 + chunk * CHUNK, sample, full(shared, stage));
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
            wgmma_begin();
#pragma unroll
            for (int step = 0; step < SLAB / 16; ++step) {
                wgmma<1, 1>(d, deltas + 128 * step, inputs + 128 * step, 1);
                if constexpr (PART == 0) wgmma<1, 0>(bias, deltas + 128 * step, ones, 1);
            }
            wgmma_commit();
            wgmma_wait<1>();
            if (number > begin && lane == 0) release(empty(shared, last), TURNS);
            last = stage;
        }
        wgmma_wait<0>();
        sums_are_there(d);
        sums_are_there(bias);
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
__device__ __forceinline__ void part_of_block(const Maps &maps, float *sums, u32 shared, u32 range, int part, int row_tile, u32 slabs) {
    if constexpr (PART + 1 < parts_of(width(LAYER))) {
        if (part > PART) return part_of_block<LAYER, PART + 1>(maps, sums, shared, range, part, row_tile, slabs);
    }
    tile<LAYER, PART>(maps, sums, shared, range, row_tile, slabs);
}

// Which tile a block has: layer by layer, all tiles of a range one after the other.
template <int LAYER = 0>
__device__ __forceinline__ void tile_of_block(const Maps &maps, float *sums, u32 shared, u32 block, u32 slabs) {
    constexpr u32 TILES = row_tiles(LAYER) * parts_of(width(LAYER)), BLOCKS = TILES * ranges_of(LAYER);
    if constexpr (LAYER + 1 < LAYERS) {
        if (block >= BLOCKS) return tile_of_block<LAYER + 1>(maps, sums, shared, block - BLOCKS, slabs);
    }
    const int of_range = block % TILES;
    part_of_block<LAYER, 0>(maps, sums, shared, block / TILES, of_range / row_tiles(LAYER), of_range % row_tiles(LAYER), slabs);
}

extern "C" __global__ void __launch_bounds__(THREADS, 1)
    coopmat_mlp_backward_wgmma_gradients(const __grid_constant__ Maps maps, float *sums, u32 batch) {
    extern __shared__ __align__(1024) char shared[];
    const u32 base = shared_address(shared);
    if (threadIdx.x < 256) reinterpret_cast<u32 *>(shared + ONES_IN_SHARED)[threadIdx.x] = narrow2(1.0f, 1.0f);
    if (threadIdx.x == 0) {
        for (int stage = 0; stage < STAGES; ++stage) {
            barrier_init(full(base, stage), 1);
            barrier_init(empty(base, stage), 8);
        }
        barriers_are_there();
    }
    written_for_async();
    __syncthreads();
    tile_of_block(maps, sums, base, blockIdx.x, (batch + SLAB - 1) / SLAB);
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
