// The whole backward pass of a network with one hidden layer, from what the forward pass kept, by a cluster of two blocks. Each block has half of the
// inputs' columns and half of the hidden layer's, up to 128 of each. Of a tile of 64 samples it computes the gradients before the activation of its
// half of the hidden layer and sends them to the other block; with both halves it has its columns of the gradients by the inputs, and adds to the
// sums of its columns of the first layer's gradients and of its rows of the second layer's inputs, which stay in registers all the time.
//
// Warpgroups 0 and 1 hold these sums, 64 columns each; one thread of them has the copy engine bring inputs and hidden layer. Warpgroup 2 goes down the
// layers, from the gradients by the outputs to those by the inputs. A stage has all of a tile; its parts are left and filled one by one.
#include "coopmat/wgmma/wgmma.cuh"
#include "tile/ptx/cluster.cuh"
#include "tile/ptx/ldmatrix.cuh"

constexpr int TILE = 64;  // samples
constexpr int THREADS = 3 * 128;
constexpr int HIDDEN = width(1);
constexpr int HALF = 128;  // columns of a block
constexpr int BOX_BYTES = TILE * ROW_BYTES, HALF_BYTES = 2 * BOX_BYTES;
static_assert(LAYERS == 2 && INPUTS <= 2 * HALF && HIDDEN <= 2 * HALF && OUTPUTS <= CHUNK, "what a pair of blocks has room for");

// Shared memory: weights of the first layer (the block's columns) and of the second (the block's half of the hidden layer), two stages, ones,
// barriers.
constexpr int FIRST_BYTES = 2 * HALF * ROW_BYTES;  // of a chunk
constexpr int SECOND_BYTES = CHUNK * ROW_BYTES;
constexpr int SECOND_IN_SHARED = 2 * FIRST_BYTES;
constexpr int STAGES_IN_SHARED = SECOND_IN_SHARED + 2 * SECOND_BYTES;
// In a stage.
constexpr int X_AT = 0, HIDDEN_AT = HALF_BYTES, OUTPUTS_AT = 2 * HALF_BYTES, DELTAS_AT = OUTPUTS_AT + BOX_BYTES;
constexpr int STAGE_BYTES = DELTAS_AT + 2 * HALF_BYTES;
constexpr int ONES_IN_SHARED = STAGES_IN_SHARED + 2 * STAGE_BYTES;
constexpr int BARRIERS_IN_SHARED = ONES_IN_SHARED + 1024;
static_assert(BARRIERS_IN_SHARED + 14 * 8 == SHARED_BYTES, "as the host counts");

// Each for both stages. Full: the hidden layer and the outputs' gradients; the inputs; the hidden layer's gradients, of both blocks.
// Sent: the block's own half of these has come to the other block.
enum { LAYER_FULL, LAYER_EMPTY, X_FULL, X_EMPTY, DELTAS_FULL, DELTAS_EMPTY, SENT };
__device__ __forceinline__ u32 barrier_of(u32 shared, int kind, u32 tile) { return shared + BARRIERS_IN_SHARED + 16 * kind + tile % 2 * 8; }
__device__ __forceinline__ u32 stage_of(u32 shared, u32 tile) { return shared + STAGES_IN_SHARED + tile % 2 * STAGE_BYTES; }
// Until a stage has been filled for this tile, or left by the tile before the last.
__device__ __forceinline__ void wait_full(u32 shared, int kind, u32 tile) { barrier_wait(barrier_of(shared, kind, tile), tile / 2 & 1); }
__device__ __forceinline__ void wait_empty(u32 shared, int kind, u32 tile) {
    if (tile >= 2) barrier_wait(barrier_of(shared, kind, tile), (tile / 2 & 1) ^ 1);
}

struct Maps {
    TensorMap x, hidden, dx;
};

struct Task {
    u32 shared, rank, first, step, count, batch;  // tiles: `first`, every `step`-th, `count` of them
};

// The same memory in the other block of the cluster.
__device__ __forceinline__ u32 there(u32 address, u32 block) {
    u32 to;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(to) : "r"(address), "r"(block));
    return to;
}
// Bytes to shared memory of a block of the cluster, counted by a barrier there.
__device__ __forceinline__ void send(u32 to, u32 from, u32 bytes, u32 barrier) {
    asm volatile("cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to), "r"(from), "r"(bytes),
                 "r"(barrier)
                 : "memory");
}

// ---- Copies

__device__ __forceinline__ void copy_half(u32 to, const TensorMap &map, u32 full, const Task &task, u32 n) {
    const int row = (task.first + n * task.step) * TILE, column = task.rank * HALF;
    barrier_expect(full, HALF_BYTES);
    tma_load(to, map, column, row, full);
    tma_load(to + BOX_BYTES, map, column + CHUNK, row, full);
}
// By one thread: when the tile before the last has left the place.
__device__ __forceinline__ void bring_hidden(const Maps &maps, const Task &task, u32 n) {
    if (n >= task.count) return;
    wait_empty(task.shared, LAYER_EMPTY, n);
    copy_half(stage_of(task.shared, n) + HIDDEN_AT, maps.hidden, barrier_of(task.shared, LAYER_FULL, n), task, n);
}
__device__ __forceinline__ void bring_inputs(const Maps &maps, const Task &task, u32 n) {
    if (n >= task.count) return;
    wait_empty(task.shared, X_EMPTY, n);
    copy_half(stage_of(task.shared, n) + X_AT, maps.x, barrier_of(task.shared, X_FULL, n), task, n);
}

// ---- Down the layers

__device__ __forceinline__ void descend_sync() { asm volatile("bar.sync 1, 128;" ::: "memory"); }

// The gradients before the activation of a tile's outputs.
struct OutputGradients {
    static constexpr bool KEPT = OUTPUT_ACTIVATION != IDENTITY;
    uint4 gradients[4], kept[KEPT ? 4 : 1];

    // The thread has 8 columns of a row, of the 16th after it and so on.
    __device__ __forceinline__ void load(const Storage *dy, const Storage *y, u32 first, u32 batch) {
        const int thread = threadIdx.x % 128, unit = thread % 8;
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const u32 sample = first + thread / 8 + 16 * i;
            const bool is_there = sample < batch && 8 * unit < OUTPUTS;
            const u64 at = (u64)sample * OUTPUTS + 8 * unit;
            gradients[i] = is_there ? __ldg(reinterpret_cast<const uint4 *>(dy + at)) : make_uint4(0, 0, 0, 0);
            if constexpr (KEPT) kept[i] = is_there ? __ldg(reinterpret_cast<const uint4 *>(y + at)) : make_uint4(0, 0, 0, 0);
        }
    }
    __device__ __forceinline__ static u32 one(u32 gradient, u32 output) {
        if constexpr (KEPT) gradient = times_slope<OUTPUT_ACTIVATION>(widen_low(gradient), widen_high(gradient), output);
        return gradient;
    }
    __device__ __forceinline__ void store(const Task &task, u32 n) {
        const int thread = threadIdx.x % 128, row = thread / 8, unit = thread % 8;
        const u32 to = stage_of(task.shared, n) + OUTPUTS_AT + row * ROW_BYTES + ((unit ^ row % 8) << 4);
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const uint4 g = gradients[i], k = kept[KEPT ? i : 0];
            const u32 a = one(g.x, k.x), b = one(g.y, k.y), c = one(g.z, k.z), d = one(g.w, k.w);
            asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(to + 16 * i * ROW_BYTES), "r"(a), "r"(b), "r"(c), "r"(d) : "memory");
        }
        fence_async();
        __syncwarp();
        if (thread % 32 == 0) barrier_arrive(barrier_of(task.shared, LAYER_FULL, n));
    }
};

// The gradients before the activation of the block's half of the hidden layer; those of the outputs' biases are added up. Meanwhile `load` is called.
template <typename Load>
__device__ __forceinline__ void hidden_deltas(float (&biases)[4], const Task &task, u32 n, int warp, int lane, Load load) {
    const u32 shared = task.shared, stage = stage_of(shared, n), other = task.rank ^ 1;
    float d[HALF / 2];
    wait_full(shared, LAYER_FULL, n);
    const u64 outputs = operand(stage + OUTPUTS_AT), weights = operand_across(shared + SECOND_IN_SHARED, SECOND_BYTES);
    wgmma_fence();
#pragma unroll
    for (int step = 0; step < steps_of(OUTPUTS); ++step) wgmma<0, 1>(d, outputs + 2 * step, weights + 128 * step, step > 0);
    const u64 across = operand_across(stage + OUTPUTS_AT, BOX_BYTES), ones = operand(shared + ONES_IN_SHARED);
#pragma unroll
    for (int step = 0; step < TILE / 16; ++step) wgmma<1, 0>(biases, across + 128 * step, ones, 1);
    wgmma_commit();
    load();
    wait_empty(shared, DELTAS_EMPTY, n);
    // The gradients by the inputs of the tile before the last are still in this warp's rows of the block's half.
    if (lane == 0) tma_wait_read<0>();
    __syncwarp();
    wgmma_wait<0>();
    wgmma_complete(d);
    wgmma_complete(biases);
    const int row = warp * 16 + lane % 16;
    const u32 at = row * ROW_BYTES + ((lane / 16 ^ row % 8) << 4);
    const u32 from = stage + HIDDEN_AT + at, to = stage + DELTAS_AT + task.rank * HALF_BYTES + at;
#pragma unroll
    for (int step = 0; step < HALF / 16; ++step) {
        const int box = step / 4 * BOX_BYTES, unit = step % 4 << 5;
        u32 words[4];
        load_matrices(words, (from ^ unit) + box);
#pragma unroll
        for (int i = 0; i < 4; ++i) words[i] = times_slope<HIDDEN_ACTIVATION>(d[8 * step + 2 * i], d[8 * step + 2 * i + 1], words[i]);
        store_matrices((to ^ unit) + box, words);
    }
    fence_async();
    __syncwarp();
    if (lane == 0) {
        const u32 full = barrier_of(shared, DELTAS_FULL, n), of_warp = stage + DELTAS_AT + task.rank * HALF_BYTES + warp * 16 * ROW_BYTES;
        send(there(of_warp, other), of_warp, 16 * ROW_BYTES, there(full, other));
        send(there(of_warp + BOX_BYTES, other), of_warp + BOX_BYTES, 16 * ROW_BYTES, there(full, other));
        // The other block's rows come to the same barrier.
        barrier_expect(full, 2 * 16 * ROW_BYTES);
        barrier_arrive(barrier_of(shared, LAYER_EMPTY, n));
    }
}

// The block's columns of the gradients by the inputs, which the copy engine stores. Meanwhile `work` is called.
template <typename Work>
__device__ __forceinline__ void input_gradients(const Maps &maps, const Task &task, u32 n, int warp, int lane, Work work) {
    const u32 shared = task.shared, stage = stage_of(shared, n), other = task.rank ^ 1;
    wait_full(shared, DELTAS_FULL, n);
    if (lane == 0) barrier_arrive_at(barrier_of(shared, SENT, n), other);
    float d[HALF / 2];
    const u64 deltas = operand(stage + DELTAS_AT), weights = operand_across(shared, FIRST_BYTES);
    wgmma_fence();
#pragma unroll
    for (int step = 0; step < steps_of(HIDDEN); ++step)
        wgmma<0, 1>(d, deltas + (step / 4 * BOX_BYTES >> 4) + 2 * (step % 4), weights + 128 * step, step > 0);
    wgmma_commit();
    work();
    wgmma_wait<0>();
    wgmma_complete(d);
    if (lane == 0) barrier_arrive_at(barrier_of(shared, DELTAS_EMPTY, n), other);
    // They take the place of the block's own half of the hidden layer's gradients, when that has been multiplied by everybody here and has come to
    // the other block: every warp the rows that it had written there.
    barrier_wait(barrier_of(shared, SENT, n), n / 2 & 1);
    barrier_wait(barrier_of(shared, X_EMPTY, n), n / 2 & 1);
    descend_sync();
    const int row = warp * 16 + lane % 16;
    const u32 of_warp = stage + DELTAS_AT + task.rank * HALF_BYTES + warp * 16 * ROW_BYTES;
    const u32 to = of_warp + lane % 16 * ROW_BYTES + ((lane / 16 ^ row % 8) << 4);
#pragma unroll
    for (int step = 0; step < HALF / 16; ++step) {
        u32 words[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) words[i] = narrow2(d[8 * step + 2 * i], d[8 * step + 2 * i + 1]);
        store_matrices((to ^ step % 4 << 5) + step / 4 * BOX_BYTES, words);
    }
    fence_async();
    __syncwarp();
    if (lane == 0) {
        const int sample = (task.first + n * task.step) * TILE + warp * 16, column = task.rank * HALF;
        tma_store(maps.dx, column, sample, of_warp);
        tma_store(maps.dx, column + CHUNK, sample, of_warp + BOX_BYTES);
        tma_commit();
    }
}

__device__ __forceinline__ void down(const Maps &maps, const Storage *y, const Storage *dy, bool inputs, float *sums, const Task &task) {
    const int warp = uniform(threadIdx.x / 32) % 4, lane = threadIdx.x % 32;
    OutputGradients outputs{};
    float biases[4] = {};
    if (task.count > 0) {
        outputs.load(dy, y, task.first * TILE, task.batch);
        outputs.store(task, 0);
    }
#pragma unroll 1
    for (u32 n = 0; n <= task.count; ++n) {
        const bool more = n + 1 < task.count;
        if (n < task.count)
            hidden_deltas(biases, task, n, warp, lane, [&] {
                if (more) outputs.load(dy, y, (task.first + (n + 1) * task.step) * TILE, task.batch);
            });
        const auto next = [&] {
            if (!more) return;
            wait_empty(task.shared, LAYER_EMPTY, n + 1);
            outputs.store(task, n + 1);
        };
        // A tile later, so that what the other block sends has time to come.
        if (n > 0 && inputs) {
            input_gradients(maps, task, n - 1, warp, lane, next);
        } else {
            next();
            if (n > 0 && lane == 0) barrier_arrive_at(barrier_of(task.shared, DELTAS_EMPTY, n - 1), task.rank ^ 1);
        }
    }
    if (lane == 0) tma_wait_read<0>();
    const int output = warp * 16 + lane / 4;
    if (task.rank == 0 && lane % 4 == 0) {
        if (output < OUTPUTS) sums[biases_at(1) + output] = biases[0];
        if (output + 8 < OUTPUTS) sums[biases_at(1) + output + 8] = biases[2];
    }
}

// ---- The gradients of the parameters

// This tile's inputs and gradients of the hidden layer are used.
__device__ __forceinline__ void leave(const Task &task, u32 n, int lane) {
    if (lane != 0) return;
    const u32 empty = barrier_of(task.shared, DELTAS_EMPTY, n);
    barrier_arrive(barrier_of(task.shared, X_EMPTY, n));
    barrier_arrive(empty);
    barrier_arrive_at(empty, task.rank ^ 1);
}

__device__ __forceinline__ void add_up(const Maps &maps, float *sums, const Task &task) {
    const int warp = uniform(threadIdx.x / 32), group = warp / 4, lane = threadIdx.x % 32;
    const u32 shared = task.shared;
    // 64 inputs by the hidden layer; outputs by 64 of the hidden layer; biases of these 64.
    float first[HALF], second[CHUNK / 2], bias[4];
#pragma unroll
    for (int i = 0; i < HALF; ++i) first[i] = 0.0f;
#pragma unroll
    for (int i = 0; i < CHUNK / 2; ++i) second[i] = 0.0f;
#pragma unroll
    for (int i = 0; i < 4; ++i) bias[i] = 0.0f;
    if (threadIdx.x == 0) {
        for (u32 n = 0; n < 2; ++n) bring_hidden(maps, task, n), bring_inputs(maps, task, n);
    }
    __syncwarp();
    const u64 ones = operand(shared + ONES_IN_SHARED);
#pragma unroll 1
    for (u32 n = 0; n < task.count; ++n) {
        const u32 stage = stage_of(shared, n);
        const u64 x = operand_across(stage + X_AT + group * BOX_BYTES, BOX_BYTES), hidden = operand_across(stage + HIDDEN_AT + group * BOX_BYTES, BOX_BYTES);
        const u64 outputs = operand_across(stage + OUTPUTS_AT, BOX_BYTES), deltas = operand_across(stage + DELTAS_AT, BOX_BYTES);
        const u64 own = operand_across(stage + DELTAS_AT + (2 * task.rank + group) * BOX_BYTES, BOX_BYTES);
        wait_full(shared, LAYER_FULL, n);
        wgmma_fence();
#pragma unroll
        for (int step = 0; step < TILE / 16; ++step) wgmma<1, 1>(second, outputs + 128 * step, hidden + 128 * step, 1);
        wgmma_commit();
        wgmma_wait<1>();
        if (n > 0) leave(task, n - 1, lane);
        if (threadIdx.x == 0 && n > 0) bring_inputs(maps, task, n + 1);
        __syncwarp();
        // There is time: the other half of the hidden layer's gradients is not there yet.
        wgmma_wait<0>();
        if (lane == 0) barrier_arrive(barrier_of(shared, LAYER_EMPTY, n));
        wait_full(shared, X_FULL, n);
        wait_full(shared, DELTAS_FULL, n);
        wgmma_fence();
#pragma unroll
        for (int step = 0; step < TILE / 16; ++step) {
            wgmma<1, 1>(first, x + 128 * step, deltas + 128 * step, 1);
            wgmma<1, 0>(bias, own + 128 * step, ones, 1);
        }
        wgmma_commit();
        if (threadIdx.x == 0) bring_hidden(maps, task, n + 2);
        __syncwarp();
    }
    wgmma_wait<0>();
    if (task.count > 0) leave(task, task.count - 1, lane);
    wgmma_complete(first);
    wgmma_complete(second);
    wgmma_complete(bias);
    const int from = task.rank * HALF + group * CHUNK, row = warp % 4 * 16 + lane / 4, column = lane % 4 * 2;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        const int input = from + row + 8 * half, output = row + 8 * half;
        if (input < INPUTS) {
#pragma unroll
            for (int c = 0; c < 2 * HALF; c += 8) {
                if (c >= HIDDEN) continue;
                float *to = sums + weights_at(0) + (c + column) * INPUTS + input;
                *to = first[c / 2 + 2 * half];
                to[INPUTS] = first[c / 2 + 2 * half + 1];
            }
        }
        if (output < OUTPUTS) {
#pragma unroll
            for (int c = 0; c < CHUNK; c += 8) {
                if (from + c >= HIDDEN) continue;
                float *to = sums + weights_at(1) + output * HIDDEN + from + c + column;
                *to = second[c / 2 + 2 * half];
                to[1] = second[c / 2 + 2 * half + 1];
            }
        }
        if (column == 0 && input < HIDDEN) sums[biases_at(0) + input] = bias[2 * half];
    }
}

// ---- All of it

// Columns from `column` on of a layer's weights, in chunks of so many rows.
template <int LAYER, int ROWS>
__device__ __forceinline__ void place(const Storage *parameters, char *shared, int column) {
    constexpr int K = width(LAYER), N = width(LAYER + 1);
#pragma unroll 4
    for (int i = threadIdx.x; i < ROWS * HALF / 8; i += THREADS) {
        const int n = i / (HALF / 8), unit = i % (HALF / 8), from = column + 8 * unit;
        uint4 weights = make_uint4(0, 0, 0, 0);
        if (from < K && n < N) weights = __ldg(reinterpret_cast<const uint4 *>(parameters + weights_at(LAYER) + n * K + from));
        *reinterpret_cast<uint4 *>(shared + unit / 8 * (ROWS * ROW_BYTES) + n * ROW_BYTES + ((unit % 8 ^ n % 8) << 4)) = weights;
    }
}

// `y`: the outputs, or the sums before their activation where its slope needs these. `inputs`: whether there are
// gradients by them. `sums`: what every cluster found.
extern "C" __global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(THREADS, 1)
    coopmat_mlp_backward_wgmma_pair(const __grid_constant__ Maps maps, const Storage *parameters, const Storage *y, const Storage *dy, float *sums,
                                    u32 batch, u32 inputs) {
    extern __shared__ __align__(1024) char shared[];
    const u32 base = shared_address(shared), rank = blockIdx.x % 2, cluster = blockIdx.x / 2, clusters = gridDim.x / 2;
    if (threadIdx.x == 0) {
        for (int stage = 0; stage < 2; ++stage) {
            barrier_init(barrier_of(base, LAYER_FULL, stage), 5);
            barrier_init(barrier_of(base, LAYER_EMPTY, stage), 12);
            barrier_init(barrier_of(base, X_FULL, stage), 1);
            barrier_init(barrier_of(base, X_EMPTY, stage), 8);
            barrier_init(barrier_of(base, DELTAS_FULL, stage), 4);
            barrier_init(barrier_of(base, DELTAS_EMPTY, stage), 8 + 8 + 4);
            barrier_init(barrier_of(base, SENT, stage), 4);
        }
        fence_barrier_init();
    }
    if (threadIdx.x < 256) reinterpret_cast<u32 *>(shared + ONES_IN_SHARED)[threadIdx.x] = narrow2(1.0f, 1.0f);
    place<0, 2 * HALF>(parameters, shared, rank * HALF);
    place<1, CHUNK>(parameters, shared + SECOND_IN_SHARED, rank * HALF);
    fence_async();
    __syncthreads();
    cluster_sync();

    const u32 tiles = (batch + TILE - 1) / TILE;
    const Task task{base, rank, cluster, clusters, cluster < tiles ? (tiles - cluster + clusters - 1) / clusters : 0, batch};
    const int group = uniform(threadIdx.x / 128);
    if (group < 2) {
        take_registers<REGISTERS_TO_ADD>();
        add_up(maps, sums + (u64)cluster * PARAMETERS, task);
    } else {
        give_registers<REGISTERS_TO_DESCEND>();
        down(maps, y, dy, inputs, sums + (u64)cluster * PARAMETERS, task);
    }
    // Nobody leaves while the other block may still write into its shared memory.
    cluster_sync();
}

// The gradients are the sums of all clusters, in a fixed order: 128 parameters and 8 slices of the clusters a block.
extern "C" __global__ void __launch_bounds__(256) coopmat_mlp_backward_wgmma_pair_sum(const float *sums, float *gradients, u32 clusters) {
    __shared__ float4 slices[8][32];
    const u32 lane = threadIdx.x % 32, slice = threadIdx.x / 32, parameter = (blockIdx.x * 32 + lane) * 4;
    float4 sum = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    const auto add = [&](float4 more) { sum.x += more.x, sum.y += more.y, sum.z += more.z, sum.w += more.w; };
    if (parameter < PARAMETERS) {
#pragma unroll 4
        for (u32 cluster = slice; cluster < clusters; cluster += 8) add(*reinterpret_cast<const float4 *>(sums + (u64)cluster * PARAMETERS + parameter));
    }
    slices[slice][lane] = sum;
    __syncthreads();
    if (slice == 0 && parameter < PARAMETERS) {
#pragma unroll
        for (int i = 1; i < 8; ++i) add(slices[i][lane]);
        *reinterpret_cast<float4 *>(gradients + parameter) = sum;
    }
}
