// The whole backward pass of a network with one hidden layer, from what the forward pass kept, by a
// cluster of two blocks. Each block has half of the inputs' columns and half of the hidden layer's,
// up to 128 of each. Of a tile of 64 samples it computes the gradients before the activation of its
// half of the hidden layer and sends them to the other block; with both halves it has its columns
// of the gradients by the inputs, and adds to the sums of its columns of the first layer's
// gradients and of its rows of the second layer's inputs, which stay in registers all the time.
//
// Warpgroups 0 and 1 hold these sums, 64 columns each; one thread of them has TMA bring inputs and
// hidden layer. Warpgroup 2 goes down the layers, from the gradients by the outputs to those by the
// inputs. A place has all of a tile; its parts are left and filled one by one.
#include "tile/ptx/cluster.cuh"
#include "tile/ptx/ldmatrix.cuh"
#include "tile/reduce.cuh"
#include "tile/ring.cuh"
#include "tile/wgmma.cuh"

constexpr int TILE = 64;  // samples
constexpr int THREADS = 3 * 128;
constexpr int HIDDEN = width(1);
constexpr int HALF = 128;  // columns of a block
constexpr int BOX_BYTES = TILE * ROW_BYTES, HALF_BYTES = 2 * BOX_BYTES;
static_assert(LAYERS == 2 && INPUTS <= 2 * HALF && HIDDEN <= 2 * HALF && OUTPUTS <= CHUNK, "what a pair of blocks has room for");

// A tile in a place, and what happens to it. Full: the hidden layer and the outputs' gradients; the
// inputs; the hidden layer's gradients, of both blocks. Sent: the block's own half of these has
// come to the other block.
constexpr int X_AT = 0, HIDDEN_AT = HALF_BYTES, OUTPUTS_AT = 2 * HALF_BYTES, DELTAS_AT = OUTPUTS_AT + BOX_BYTES;
enum { LAYER_FULL, LAYER_EMPTY, X_FULL, X_EMPTY, DELTAS_FULL, DELTAS_EMPTY, SENT, EVENTS };
typedef Ring<2, DELTAS_AT + 2 * HALF_BYTES, EVENTS> Tiles;

// Shared memory: weights of the first layer (the block's columns) and of the second (the block's
// half of the hidden layer), tiles, ones, barriers.
constexpr int FIRST_BYTES = 2 * HALF * ROW_BYTES;  // of a chunk
constexpr int SECOND_BYTES = CHUNK * ROW_BYTES;
constexpr int SECOND_IN_SHARED = 2 * FIRST_BYTES;
constexpr int TILES_IN_SHARED = SECOND_IN_SHARED + 2 * SECOND_BYTES;
constexpr int ONES_IN_SHARED = TILES_IN_SHARED + Tiles::PLACES_BYTES;
constexpr int BARRIERS_IN_SHARED = ONES_IN_SHARED + ONES_BYTES;
static_assert(BARRIERS_IN_SHARED + Tiles::BYTES == SHARED_BYTES, "as the host counts");

struct Maps {
    TensorMap x, hidden, dx;
};

struct Task {
    Tiles ring;
    u32 shared, rank;
    u32 first, step, count;  // tiles: `first`, every `step`-th, `count` of them
    u32 batch;

    __device__ __forceinline__ u32 sample(u32 n) const { return (first + n * step) * TILE; }
    __device__ __forceinline__ u32 other() const { return rank ^ 1; }
};

// ---- Copies, by one thread

// The block's half of the columns: what has left the place before is `empty`, what has come is
// `full`.
__device__ __forceinline__ void bring(const TensorMap &map, const Task &task, u32 n, int at, int full, int empty) {
    if (n >= task.count) return;
    task.ring.wait_before(empty, n);
    const u32 to = task.ring.place(n) + at, barrier = task.ring.of(full, n);
    const int row = task.sample(n), column = task.rank * HALF;
    barrier_expect(barrier, HALF_BYTES);
    tma_load(to, map, column, row, barrier);
    tma_load(to + BOX_BYTES, map, column + CHUNK, row, barrier);
}
__device__ __forceinline__ void bring_hidden(const Maps &maps, const Task &task, u32 n) {
    bring(maps.hidden, task, n, HIDDEN_AT, LAYER_FULL, LAYER_EMPTY);
}
__device__ __forceinline__ void bring_inputs(const Maps &maps, const Task &task, u32 n) {
    bring(maps.x, task, n, X_AT, X_FULL, X_EMPTY);
}

// ---- Down the layers

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
        if constexpr (KEPT) gradient = times_slope<OUTPUT_ACTIVATION>(gradient, output);
        return gradient;
    }
    __device__ __forceinline__ void store(const Task &task, u32 n) {
        const int thread = threadIdx.x % 128;
        const u32 to = task.ring.place(n) + OUTPUTS_AT + unit_at(thread / 8, thread % 8);
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const uint4 g = gradients[i], k = kept[KEPT ? i : 0];
            store_shared(to + 16 * i * ROW_BYTES, make_uint4(one(g.x, k.x), one(g.y, k.y), one(g.z, k.z), one(g.w, k.w)));
        }
        fence_async();
        __syncwarp();
        if (thread % 32 == 0) task.ring.arrive(LAYER_FULL, n);
    }
};

// The gradients before the activation of the block's half of the hidden layer; those of the
// outputs' biases are added up. Meanwhile `load` is called.
template <typename Load>
__device__ __forceinline__ void hidden_deltas(float (&biases)[4], const Task &task, u32 n, int warp, int lane, Load load) {
    const Tiles &ring = task.ring;
    const u32 at = ring.place(n);
    float d[HALF / 2];
    ring.wait(LAYER_FULL, n);
    wgmma_fence();
    multiply<steps_of(OUTPUTS)>(d, Along<>(at + OUTPUTS_AT), Across<SECOND_BYTES>(task.shared + SECOND_IN_SHARED), false);
    const Across<BOX_BYTES> outputs(at + OUTPUTS_AT);
    const Along<> ones(task.shared + ONES_IN_SHARED);
#pragma unroll
    for (int step = 0; step < TILE / 16; ++step) multiply<1>(biases, outputs.from(step), ones, true);
    wgmma_commit();
    load();
    ring.wait_before(DELTAS_EMPTY, n);
    // The gradients by the inputs of the tile before the last are still in this warp's rows of the
    // block's half.
    if (lane == 0) tma_wait_read<0>();
    __syncwarp();
    wait_for_sums(d);
    wgmma_complete(biases);
    const u32 of_warp = at + DELTAS_AT + task.rank * HALF_BYTES + warp * 16 * ROW_BYTES;
    const u32 from = at + HIDDEN_AT + warp * 16 * ROW_BYTES + lane_unit(), to = of_warp + lane_unit();
#pragma unroll
    for (int step = 0; step < HALF / 16; ++step) {
        const int box = step / 4 * BOX_BYTES;
        u32 words[4];
        load_matrices(words, at_step(from, step % 4) + box);
#pragma unroll
        for (int i = 0; i < 4; ++i) words[i] = times_slope<HIDDEN_ACTIVATION>(d[8 * step + 2 * i], d[8 * step + 2 * i + 1], words[i]);
        store_matrices(at_step(to, step % 4) + box, words);
    }
    fence_async();
    __syncwarp();
    if (lane == 0) {
        const u32 full = ring.of(DELTAS_FULL, n), there = in_block(full, task.other());
#pragma unroll
        for (int box = 0; box < HALF_BYTES; box += BOX_BYTES)
            bulk_copy_to_block(in_block(of_warp + box, task.other()), of_warp + box, 16 * ROW_BYTES, there);
        // The other block's rows come to the same barrier.
        barrier_expect(full, 2 * 16 * ROW_BYTES);
        ring.arrive(LAYER_EMPTY, n);
    }
}

// The block's columns of the gradients by the inputs, which TMA stores. Meanwhile `work` is called.
template <typename Work>
__device__ __forceinline__ void input_gradients(const Maps &maps, const Task &task, u32 n, int warp, int lane, Work work) {
    const Tiles &ring = task.ring;
    const u32 at = ring.place(n);
    ring.wait(DELTAS_FULL, n);
    if (lane == 0) barrier_arrive_at(ring.of(SENT, n), task.other());
    float d[HALF / 2];
    wgmma_fence();
    multiply<steps_of(HIDDEN)>(d, Along<BOX_BYTES>(at + DELTAS_AT), Across<FIRST_BYTES>(task.shared), false);
    wgmma_commit();
    work();
    wait_for_sums(d);
    if (lane == 0) barrier_arrive_at(ring.of(DELTAS_EMPTY, n), task.other());
    // They take the place of the block's own half of the hidden layer's gradients, when that has
    // been multiplied by everybody here and has come to the other block: every warp the rows that
    // it had written there.
    ring.wait(SENT, n);
    ring.wait(X_EMPTY, n);
    named_sync<128>(1);
    const u32 of_warp = at + DELTAS_AT + task.rank * HALF_BYTES + warp * 16 * ROW_BYTES, to = of_warp + lane_unit();
#pragma unroll
    for (int step = 0; step < HALF / 16; ++step) {
        u32 words[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) words[i] = narrow2(d[8 * step + 2 * i], d[8 * step + 2 * i + 1]);
        store_matrices(at_step(to, step % 4) + step / 4 * BOX_BYTES, words);
    }
    fence_async();
    __syncwarp();
    if (lane == 0) {
        const int row = task.sample(n) + warp * 16, column = task.rank * HALF;
        tma_store(maps.dx, column, row, of_warp);
        tma_store(maps.dx, column + CHUNK, row, of_warp + BOX_BYTES);
        tma_commit();
    }
}

__device__ __forceinline__ void down(const Maps &maps, const Storage *y, const Storage *dy, bool inputs, float *sums, const Task &task) {
    const int warp = uniform(threadIdx.x / 32) % 4, lane = threadIdx.x % 32;
    OutputGradients outputs{};
    float biases[4] = {};
    if (task.count > 0) {
        outputs.load(dy, y, task.sample(0), task.batch);
        outputs.store(task, 0);
    }
#pragma unroll 1
    for (u32 n = 0; n <= task.count; ++n) {
        const bool more = n + 1 < task.count;
        if (n < task.count)
            hidden_deltas(biases, task, n, warp, lane, [&] {
                if (more) outputs.load(dy, y, task.sample(n + 1), task.batch);
            });
        const auto next = [&] {
            if (!more) return;
            task.ring.wait_before(LAYER_EMPTY, n + 1);
            outputs.store(task, n + 1);
        };
        // A tile later, so that what the other block sends has time to come.
        if (n > 0 && inputs) {
            input_gradients(maps, task, n - 1, warp, lane, next);
        } else {
            next();
            if (n > 0 && lane == 0) barrier_arrive_at(task.ring.of(DELTAS_EMPTY, n - 1), task.other());
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
    task.ring.arrive(X_EMPTY, n);
    task.ring.arrive(DELTAS_EMPTY, n);
    barrier_arrive_at(task.ring.of(DELTAS_EMPTY, n), task.other());
}

__device__ __forceinline__ void add_up(const Maps &maps, float *sums, const Task &task) {
    const Tiles &ring = task.ring;
    const int warp = uniform(threadIdx.x / 32), group = warp / 4, lane = threadIdx.x % 32;
    // 64 inputs by the hidden layer; outputs by 64 of the hidden layer; biases of these 64.
    float first[HALF], second[CHUNK / 2], bias[4];
    zero(first);
    zero(second);
    zero(bias);
    if (threadIdx.x == 0) {
        for (u32 n = 0; n < 2; ++n) bring_hidden(maps, task, n), bring_inputs(maps, task, n);
    }
    __syncwarp();
    const Along<> ones(task.shared + ONES_IN_SHARED);
#pragma unroll 1
    for (u32 n = 0; n < task.count; ++n) {
        const u32 at = ring.place(n);
        const Across<BOX_BYTES> x(at + X_AT + group * BOX_BYTES), hidden(at + HIDDEN_AT + group * BOX_BYTES), outputs(at + OUTPUTS_AT);
        const Across<BOX_BYTES> deltas(at + DELTAS_AT), own(at + DELTAS_AT + (2 * task.rank + group) * BOX_BYTES);
        ring.wait(LAYER_FULL, n);
        wgmma_fence();
        multiply<TILE / 16>(second, outputs, hidden, true);
        wgmma_commit();
        wgmma_wait<1>();
        if (n > 0) leave(task, n - 1, lane);
        if (threadIdx.x == 0 && n > 0) bring_inputs(maps, task, n + 1);
        __syncwarp();
        // There is time: the other half of the hidden layer's gradients is not there yet.
        wgmma_wait<0>();
        if (lane == 0) ring.arrive(LAYER_EMPTY, n);
        ring.wait(X_FULL, n);
        ring.wait(DELTAS_FULL, n);
        wgmma_fence();
#pragma unroll
        for (int step = 0; step < TILE / 16; ++step) {
            multiply<1>(first, x.from(step), deltas.from(step), true);
            multiply<1>(bias, own.from(step), ones, true);
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
    float *by_inputs = sums + weights_at(0) + column * INPUTS + from + row;
    each_pair(first, [&](int r, int c, float low, float high) {
        if (from + row + r >= INPUTS || c >= HIDDEN) return;
        by_inputs[c * INPUTS + r] = low;
        by_inputs[(c + 1) * INPUTS + r] = high;
    });
    float *by_hidden = sums + weights_at(1) + row * HIDDEN + from + column;
    each_pair(second, [&](int r, int c, float low, float high) {
        if (row + r >= OUTPUTS || from + c >= HIDDEN) return;
        by_hidden[r * HIDDEN + c] = low;
        by_hidden[r * HIDDEN + c + 1] = high;
    });
    float *by_biases = sums + biases_at(0) + from + row;
    if (column == 0 && from + row < HIDDEN) by_biases[0] = bias[0];
    if (column == 0 && from + row + 8 < HIDDEN) by_biases[8] = bias[2];
}

// ---- All of it

// Columns of the block of a layer's weights, in chunks of so many rows.
template <int LAYER, int ROWS>
__device__ __forceinline__ void place(const Storage *parameters, char *shared, int column) {
    constexpr int K = width(LAYER);
    place_matrix<THREADS, ROWS, 2, 4>(shared, parameters + weights_at(LAYER) + column, width(LAYER + 1), K - column, K);
}

// `y`: the outputs, or the sums before their activation where its slope needs these. `inputs`:
// whether there are gradients by them. `sums`: what every cluster found.
extern "C" __global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(THREADS, 1)
    coopmat_mlp_backward_wgmma_pair(const __grid_constant__ Maps maps, const Storage *parameters, const Storage *y, const Storage *dy, float *sums,
                                    u32 batch, u32 inputs) {
    extern __shared__ __align__(1024) char shared[];
    const u32 base = shared_address(shared), rank = blockIdx.x % 2, cluster = blockIdx.x / 2, clusters = gridDim.x / 2;
    const Tiles ring(base + TILES_IN_SHARED, base + BARRIERS_IN_SHARED);
    if (threadIdx.x == 0) {
        ring.init(LAYER_FULL, 5);
        ring.init(LAYER_EMPTY, 12);
        ring.init(X_FULL, 1);
        ring.init(X_EMPTY, 8);
        ring.init(DELTAS_FULL, 4);
        ring.init(DELTAS_EMPTY, 8 + 8 + 4);
        ring.init(SENT, 4);
        fence_barrier_init();
    }
    place_ones(shared + ONES_IN_SHARED);
    place<0, 2 * HALF>(parameters, shared, rank * HALF);
    place<1, CHUNK>(parameters, shared + SECOND_IN_SHARED, rank * HALF);
    fence_async();
    __syncthreads();
    cluster_sync();

    const u32 tiles = (batch + TILE - 1) / TILE;
    const Task task{ring, base, rank, cluster, clusters, cluster < tiles ? (tiles - cluster + clusters - 1) / clusters : 0, batch};
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

// The gradients are the sums of all clusters, in a fixed order.
extern "C" __global__ void __launch_bounds__(256) coopmat_mlp_backward_wgmma_pair_sum(const float *sums, float *gradients, u32 clusters) {
    reduce_gradients<32, 8, 4>(sums, gradients, clusters);
}
