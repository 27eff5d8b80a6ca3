// Forward where all weights fit in shared memory. A block for every multiprocessor; one warpgroup has the copy engine bring tiles of 64 samples into a
// ring of chunks, GROUPS others take them by turns, each a tile of its own through all layers: the sums of a layer, in registers, become the
// first operand of the next layer in the same registers.
#include "coopmat/wgmma/wgmma.cuh"

constexpr int TILE = 64;  // samples
constexpr int THREADS = (GROUPS + 1) * 128;
constexpr int STAGE_BYTES = TILE * ROW_BYTES;

// Shared memory: the ring, the weights, barriers, biases.
constexpr int WEIGHTS_IN_SHARED = STAGES * STAGE_BYTES;
constexpr int BARRIERS_IN_SHARED = WEIGHTS_IN_SHARED + weights_before(LAYERS);
constexpr int BIASES_IN_SHARED = BARRIERS_IN_SHARED + 16 * STAGES;
static_assert(BIASES_IN_SHARED + 2 * ALL_BIASES == SHARED_BYTES, "as the host counts");
// A warpgroup waits for a use of a place by its parity: it must have waited for the use before, which another warpgroup would know of alone.
static_assert(STAGES % (GROUPS * chunks_of(INPUTS)) == 0, "a place has chunks for one warpgroup");

__device__ __forceinline__ u32 full(u32 shared, int stage) { return shared + BARRIERS_IN_SHARED + 8 * stage; }
__device__ __forceinline__ u32 empty(u32 shared, int stage) { return shared + BARRIERS_IN_SHARED + 8 * (STAGES + stage); }

// A layer above the first: its inputs are in registers.
template <int LAYER, int PART = 0>
__device__ __forceinline__ void layer(const u32 *inputs, u32 *outputs, u32 shared, const Results &results, Rows rows) {
    constexpr int K = width(LAYER), N = width(LAYER + 1), COLUMNS = columns_of(N, PART), CHUNK_BYTES = chunk_bytes(LAYER);
    const u64 weights = operand(shared + WEIGHTS_IN_SHARED + weights_before(LAYER) + 256 * PART * ROW_BYTES);
    float d[COLUMNS / 2];
    wgmma_fence();
#pragma unroll
    for (int step = 0; step < steps_of(K); ++step) {
        const u64 b = weights + (step / 4 * CHUNK_BYTES >> 4) + step % 4 * 2;
        wgmma(d, inputs[4 * step], inputs[4 * step + 1], inputs[4 * step + 2], inputs[4 * step + 3], b, step > 0);
    }
    wgmma_commit();
    wgmma_wait<0>();
    wgmma_complete(d);
    finish<LAYER, PART>(d, outputs + 64 * PART, results, rows);
    if constexpr (PART + 1 < parts_of(N)) layer<LAYER, PART + 1>(inputs, outputs, shared, results, rows);
}

template <int LAYER>
__device__ __forceinline__ void layers_from(const u32 *inputs, u32 shared, const Results &results, Rows rows) {
    if constexpr (LAYER < LAYERS) {
        u32 outputs[4 * steps_of(width(LAYER + 1))] = {};
        layer<LAYER>(inputs, outputs, shared, results, rows);
        layers_from<LAYER + 1>(outputs, shared, results, rows);
    }
}

// The first layer: its inputs are in the ring, from the chunk with this number on.
template <int PART = 0>
__device__ __forceinline__ void first_layer(u32 *outputs, u32 chunk_number, u32 shared, const Results &results, Rows rows, bool leads) {
    constexpr int K = width(0), N = width(1), COLUMNS = columns_of(N, PART), CHUNKS = chunks_of(K);
    constexpr bool LAST = PART + 1 == parts_of(N);
    const u64 weights = operand(shared + WEIGHTS_IN_SHARED + 256 * PART * ROW_BYTES);
    float d[COLUMNS / 2];
#pragma unroll
    for (int chunk = 0; chunk < CHUNKS; ++chunk) {
        const u32 number = chunk_number + chunk, stage = number % STAGES;
        if (PART == 0) barrier_wait(full(shared, stage), number / STAGES & 1);
        const u64 samples = operand(shared + stage * STAGE_BYTES);
        wgmma_fence();
#pragma unroll
        for (int step = 0; step < steps_in(K, chunk); ++step)
            wgmma(d, samples + 2 * step, weights + (chunk * chunk_bytes(0) >> 4) + 2 * step, chunk + step > 0);
        wgmma_commit();
        if (LAST && chunk > 0) {
            wgmma_wait<1>();
            if (leads) barrier_arrive(empty(shared, (number - 1) % STAGES));
        }
    }
    wgmma_wait<0>();
    if (LAST && leads) barrier_arrive(empty(shared, (chunk_number + CHUNKS - 1) % STAGES));
    wgmma_complete(d);
    finish<0, PART>(d, outputs + 64 * PART, results, rows);
    if constexpr (!LAST) first_layer<PART + 1>(outputs, chunk_number, shared, results, rows, leads);
}

extern "C" __global__ void __launch_bounds__(THREADS, 1)
    coopmat_mlp_forward_wgmma(const __grid_constant__ TensorMap x, const Storage *parameters, Storage *y, Storage *tape, u32 batch) {
    extern __shared__ __align__(1024) char shared[];
    constexpr int CHUNKS = chunks_of(INPUTS);
    const u32 base = shared_address(shared);
    const int warp = uniform(threadIdx.x / 32), lane = threadIdx.x % 32;
    const u32 tiles = (batch + TILE - 1) / TILE;
    if (threadIdx.x == 0) {
        for (int stage = 0; stage < STAGES; ++stage) {
            barrier_init(full(base, stage), 1);
            barrier_init(empty(base, stage), 4);
        }
        fence_barrier_init();
    }
    Storage *biases = reinterpret_cast<Storage *>(shared + BIASES_IN_SHARED);
    wait_and_let_next_begin();
    place_biases(parameters, biases);
    place_weights<THREADS>(parameters, shared + WEIGHTS_IN_SHARED);
    fence_async();
    __syncthreads();

    if (warp >= GROUPS * 4) {
        give_registers<REGISTERS_TO_COPY>();
        if (threadIdx.x == GROUPS * 128) {
            u32 number = 0;
            for (u32 tile = blockIdx.x; tile < tiles; tile += gridDim.x)
                for (int chunk = 0; chunk < CHUNKS; ++chunk, ++number) {
                    const u32 stage = number % STAGES;
                    if (number >= STAGES) barrier_wait(empty(base, stage), (number / STAGES & 1) ^ 1);
                    barrier_expect(full(base, stage), STAGE_BYTES);
                    tma_load(base + stage * STAGE_BYTES, x, chunk * CHUNK, tile * TILE, full(base, stage));
                }
        }
    } else {
        take_registers<REGISTERS_TO_COMPUTE>();
        const Results results{biases, y, tape};
        const u32 group = warp / 4;
        u32 number = group * CHUNKS;
        for (u32 tile = blockIdx.x + group * gridDim.x; tile < tiles; tile += GROUPS * gridDim.x, number += GROUPS * CHUNKS) {
            const Rows rows{tile * TILE + warp % 4 * 16 + lane / 4, batch, lane % 4};
            u32 outputs[4 * steps_of(width(1))] = {};
            first_layer(outputs, number, base, results, rows, lane == 0);
            layers_from<1>(outputs, base, results, rows);
        }
    }
}
