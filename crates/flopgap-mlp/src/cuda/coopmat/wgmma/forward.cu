// Forward where all weights fit in shared memory. A block for every multiprocessor; one warpgroup
// has TMA bring tiles of 64 samples into a ring of chunks, GROUPS others take tiles in turn, each
// one through all layers: the sums of a layer, in registers, become the first operand of the next
// layer in the same registers.
#include "coopmat/wgmma/layers.cuh"

constexpr int TILE = 64;  // samples
constexpr int THREADS = (GROUPS + 1) * 128;
constexpr int CHUNKS = chunks_of(INPUTS);
typedef Ring<STAGES, TILE * ROW_BYTES> Inputs;

// Shared memory: the ring, the weights, barriers, biases.
constexpr int WEIGHTS_AT = Inputs::PLACES_BYTES;
constexpr int BARRIERS_AT = WEIGHTS_AT + weights_before(LAYERS);
constexpr int BIASES_AT = BARRIERS_AT + Inputs::BYTES;
static_assert(BIASES_AT + 2 * ALL_BIASES == SHARED_BYTES, "as the host counts");
// What lets a warpgroup wait for a place by parity.
static_assert(STAGES % (GROUPS * CHUNKS) == 0, "a place has chunks for one warpgroup");

struct Block {
    Inputs inputs;
    u32 weights;
    Results results;

    template <int LAYER, int PART>
    __device__ __forceinline__ Along<chunk_bytes(LAYER)> weights_of() const {
        return Along<chunk_bytes(LAYER)>(weights + weights_before(LAYER) + column_of(width(LAYER + 1), PART) * ROW_BYTES);
    }
};

// A layer above the first: its inputs are in registers.
template <int LAYER, int PART = 0>
__device__ __forceinline__ void layer(const u32 *inputs, u32 *outputs, const Block &block, Rows rows) {
    constexpr int N = width(LAYER + 1);
    float d[columns_of(N, PART) / 2];
    product<steps_of(width(LAYER))>(d, inputs, block.weights_of<LAYER, PART>());
    finish<LAYER, PART>(d, outputs + column_of(N, PART) / 4, block.results, rows);
    if constexpr (PART + 1 < parts_of(N)) layer<LAYER, PART + 1>(inputs, outputs, block, rows);
}

template <int LAYER>
__device__ __forceinline__ void layers_from(const u32 *inputs, const Block &block, Rows rows) {
    if constexpr (LAYER < LAYERS) {
        u32 outputs[words_of(width(LAYER + 1))] = {};
        layer<LAYER>(inputs, outputs, block, rows);
        layers_from<LAYER + 1>(outputs, block, rows);
    }
}

// The first layer: its inputs are in the ring, from the chunk of this number on.
template <int PART = 0>
__device__ __forceinline__ void first_layer(u32 *outputs, u32 number, const Block &block, Rows rows, bool leads) {
    constexpr int N = width(1);
    constexpr bool LAST = PART + 1 == parts_of(N);
    const Along<chunk_bytes(0)> weights = block.weights_of<0, PART>();
    float d[columns_of(N, PART) / 2];
    queue_all<CHUNKS, LAST>(
        [&](int chunk) {
            if (PART == 0) block.inputs.wait_full(number + chunk);
            multiply_chunk<INPUTS>(d, Along<>(block.inputs.place(number + chunk)), weights, chunk);
        },
        [&](int chunk) {
            if (leads) block.inputs.leave(number + chunk);
        });
    wgmma_complete(d);
    finish<0, PART>(d, outputs + column_of(N, PART) / 4, block.results, rows);
    if constexpr (!LAST) first_layer<PART + 1>(outputs, number, block, rows, leads);
}

extern "C" __global__ void __launch_bounds__(THREADS, 1)
    coopmat_mlp_forward_wgmma(const __grid_constant__ TensorMap x, const Storage *parameters, Storage *y, Storage *tape, u32 batch) {
    extern __shared__ __align__(1024) char shared[];
    const u32 base = shared_address(shared), tiles = (batch + TILE - 1) / TILE;
    const int warp = uniform(threadIdx.x / 32), lane = threadIdx.x % 32;
    Storage *biases = reinterpret_cast<Storage *>(shared + BIASES_AT);
    const Block block{Inputs(base, base + BARRIERS_AT), base + WEIGHTS_AT, Results{biases, y, tape}};
    if (threadIdx.x == 0) {
        block.inputs.init(FULL, 1);
        block.inputs.init(EMPTY, 4);
        fence_barrier_init();
    }
    wait_and_let_next_begin();
    place_biases(parameters, biases);
    place_weights<THREADS>(parameters, shared + WEIGHTS_AT);
    fence_async();
    __syncthreads();

    if (warp >= GROUPS * 4) {
        give_registers<REGISTERS_TO_COPY>();
        if (threadIdx.x != GROUPS * 128) return;
        u32 number = 0;
        for (u32 tile = blockIdx.x; tile < tiles; tile += gridDim.x)
            for (int chunk = 0; chunk < CHUNKS; ++chunk, ++number)
                tma_load(block.inputs.fill(number), x, chunk * CHUNK, tile * TILE, block.inputs.full(number));
    } else {
        take_registers<REGISTERS_TO_COMPUTE>();
        const u32 group = warp / 4;
        u32 number = group * CHUNKS;
        for (u32 tile = blockIdx.x + group * gridDim.x; tile < tiles; tile += GROUPS * gridDim.x, number += GROUPS * CHUNKS) {
            const Rows rows = Rows::of_warp(tile * TILE + warp % 4 * 16, batch);
            u32 outputs[words_of(width(1))] = {};
            first_layer(outputs, number, block, rows, lane == 0);
            layers_from<1>(outputs, block, rows);
        }
    }
}
