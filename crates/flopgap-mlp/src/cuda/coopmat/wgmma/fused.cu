// The backward pass of a network with one hidden layer, all of it: the hidden layer is computed
// again from the inputs, and the gradients of the parameters stay in registers while a block goes
// through its tiles of 64 samples. The forward pass keeps nothing.
//
// The products have the hidden layer's columns along their rows and samples along their columns: 64
// of those rows for each of a team's TEAM warpgroups. Sums then become, in the same registers,
// first operands of the products over samples, so that neither the hidden layer nor its gradients
// pass through shared memory on that way; inputs and the gradients by the outputs lie there as they
// came. TEAMS teams take tiles in turn. Of one further warpgroup a thread has copies made, and
// PREPARE threads make the gradients before the activation of the outputs.
#include "tile/ptx/ldmatrix.cuh"
#include "tile/reduce.cuh"
#include "tile/ring.cuh"
#include "tile/wgmma.cuh"

constexpr int IN = width(0), HIDDEN = width(1), OUT = width(2);
constexpr int TILE = 64;  // samples
constexpr int GROUPS = TEAM * TEAMS;
constexpr int THREADS = (GROUPS + 1) * 128;
constexpr int PREPARE = 64;
constexpr int BOX_BYTES = TILE * ROW_BYTES;
constexpr int IN_CHUNKS = chunks_of(IN), OUT_CHUNKS = chunks_of(OUT);
constexpr bool NEEDS_OUTPUTS = OUTPUT_ACTIVATION != IDENTITY;
constexpr int ROWS = 64 * TEAM;  // of the hidden layer, with zeros beyond
static_assert(ROWS >= HIDDEN, "a team has all of the hidden layer");

// A tile in the ring: inputs, gradients by the outputs, outputs. It is FULL when it has come, READY
// when the gradients are those before the activation.
constexpr int GRADIENTS_AT = IN_CHUNKS * BOX_BYTES, OUTPUTS_AT = GRADIENTS_AT + OUT_CHUNKS * BOX_BYTES;
enum { READY = EMPTY + 1 };
typedef Ring<STAGES, OUTPUTS_AT + (NEEDS_OUTPUTS ? OUT_CHUNKS * BOX_BYTES : 0), 3> Tiles;
// What lets a team wait by parity for a place that the other one had before: it has waited for its
// tile before this, which the threads that prepare come to only after that use of the place.
static_assert(STAGES > TEAMS, "a team leaves a place when it has its next tile");

// Shared memory: the ring, the weights of both layers, for each team twice the gradients before the
// hidden layer's activation, for each warp 16 rows of the gradients by the inputs, barriers, sums
// of the biases' gradients.
constexpr int FIRST_CHUNK = ROWS * ROW_BYTES, SECOND_ROWS = steps_of(OUT) * 16, SECOND_CHUNK = SECOND_ROWS * ROW_BYTES;
constexpr int FIRST_WEIGHTS = Tiles::PLACES_BYTES;
constexpr int SECOND_WEIGHTS = FIRST_WEIGHTS + IN_CHUNKS * FIRST_CHUNK;
constexpr int DELTAS = SECOND_WEIGHTS + TEAM * SECOND_CHUNK;
constexpr int DX = DELTAS + TEAMS * 2 * TEAM * BOX_BYTES;
constexpr int BARRIERS = DX + GROUPS * BOX_BYTES;
constexpr int BIASES = BARRIERS + Tiles::BYTES;
static_assert(BIASES + PREPARE * 32 == SHARED_BYTES, "as the host counts");

struct Maps {
    TensorMap x, dy, y, dx;
};

// Numbers of barriers among some of the warps; those of the teams come first.
constexpr int OF_TEAMS = 1, COMPUTING = OF_TEAMS + TEAMS, PREPARED = COMPUTING + 1;

// ---- The gradients before the activation of the outputs, in place of those by them, their sums

// Units of 8 columns that a row has, as a power of two: every thread has the same unit of all its
// rows.
__device__ constexpr int power_above(int units) { return units <= 1 ? 1 : 2 * power_above((units + 1) / 2); }
constexpr int UNITS = power_above(OUT / 8);
static_assert(UNITS <= PREPARE, "too many outputs");

__device__ __forceinline__ void prepare(char *shared, const Tiles &ring, u32 tiles) {
    const int thread = threadIdx.x % 128 - 32, unit = thread % UNITS, first = thread / UNITS;
    float sums[8] = {};
    u32 number = 0;
    for (u32 tile = blockIdx.x; tile < tiles; tile += gridDim.x, ++number) {
        ring.wait_full(number);
        if (8 * unit < OUT) {
            char *column = shared + ring.offset(number) + GRADIENTS_AT + unit / 8 * BOX_BYTES;
#pragma unroll 2
            for (int row = first; row < TILE; row += PREPARE / UNITS) {
                char *at = column + unit_at(row, unit % 8);
                uint4 found = *reinterpret_cast<uint4 *>(at);
                u32 *words = &found.x;
                if constexpr (NEEDS_OUTPUTS) {
                    uint4 outputs = *reinterpret_cast<uint4 *>(at + (OUTPUTS_AT - GRADIENTS_AT));
#pragma unroll
                    for (int i = 0; i < 4; ++i)
                        words[i] = times_slope<OUTPUT_ACTIVATION>(words[i], (&outputs.x)[i]);
                    *reinterpret_cast<uint4 *>(at) = found;
                }
#pragma unroll
                for (int i = 0; i < 4; ++i) sums[2 * i] += widen_low(words[i]), sums[2 * i + 1] += widen_high(words[i]);
            }
        }
        fence_async();
        __syncwarp();
        if (threadIdx.x % 32 == 0) ring.arrive(READY, number);
    }
#pragma unroll
    for (int i = 0; i < 8; ++i) reinterpret_cast<float *>(shared + BIASES)[thread * 8 + i] = sums[i];
}

// What those threads have of an output, in their order.
__device__ __forceinline__ float output_bias(const char *shared, int output) {
    float sum = 0.0f;
    for (int thread = output / 8; thread < PREPARE; thread += UNITS) sum += reinterpret_cast<const float *>(shared + BIASES)[thread * 8 + output % 8];
    return sum;
}

// ---- The products

// The sums of a warpgroup over the tiles of its team: rows of the hidden layer's columns, columns
// of the inputs and of the outputs.
struct Gradients {
    float first[IN / 2], second[OUT / 2], biases[2];
};

template <bool WANTS_DX>
__device__ __forceinline__ void compute(Gradients &sums, const Maps &maps, const Storage *parameters, u32 base, const Tiles &ring, int group,
                                        u32 tiles) {
    const int team = group / TEAM, part = group % TEAM, warp = uniform(threadIdx.x / 32) % 4, lane = threadIdx.x % 32;
    const int row = 64 * part + 16 * warp + lane / 4;
    const float bias[2] = {row < HIDDEN ? widen(parameters[biases_at(0) + row]) : 0.0f, row + 8 < HIDDEN ? widen(parameters[biases_at(0) + row + 8]) : 0.0f};
    const Along<FIRST_CHUNK> first_weights(base + FIRST_WEIGHTS + part * 64 * ROW_BYTES);
    const Across<SECOND_CHUNK> second_weights(base + SECOND_WEIGHTS + part * SECOND_CHUNK);
    const u32 dx_rows = base + DX + group * BOX_BYTES + warp * 16 * ROW_BYTES;
    u32 number = team;
    for (u32 tile = blockIdx.x + team * gridDim.x; tile < tiles; tile += TEAMS * gridDim.x, number += TEAMS) {
        const u32 at = ring.place(number), gradients = at + GRADIENTS_AT;
        const u32 deltas = base + DELTAS + (team * 2 + (number / TEAMS & 1)) * (TEAM * BOX_BYTES);
        u32 h[16], d[16];
        {
            float z[32], g[32];
            ring.wait_full(number);
            wgmma_fence();
            multiply<steps_of(IN)>(z, first_weights, Along<BOX_BYTES>(at), false);
            ring.wait(READY, number);
            wgmma_fence();
            multiply<steps_of(OUT)>(g, second_weights, Along<BOX_BYTES>(gradients), false);
            wgmma_commit();
            wgmma_wait<0>();
            wgmma_complete(z);
            wgmma_complete(g);
            if (number >= TEAMS && lane == 0) ring.leave(number - TEAMS);
#pragma unroll
            for (int i = 0; i < 16; ++i) {
                const float a = activate<HIDDEN_ACTIVATION>(z[2 * i] + bias[i & 1]), b = activate<HIDDEN_ACTIVATION>(z[2 * i + 1] + bias[i & 1]);
                const float c = g[2 * i] * slope_at_output<HIDDEN_ACTIVATION>(a), e = g[2 * i + 1] * slope_at_output<HIDDEN_ACTIVATION>(b);
                h[i] = narrow2(a, b);
                d[i] = narrow2(c, e);
                sums.biases[i & 1] += c + e;
            }
        }
        if constexpr (WANTS_DX) {
            store_rows(deltas + (64 * part + 16 * warp) * ROW_BYTES, d);
            fence_async();
            named_sync<TEAM * 128>(OF_TEAMS + team);
        }
        float by_inputs[32];
        const auto times_weights = [&](int chunk) {
            multiply<4 * TEAM>(by_inputs, Across<BOX_BYTES>(deltas), Across<FIRST_CHUNK>(base + FIRST_WEIGHTS + chunk * FIRST_CHUNK), false);
            wgmma_commit();
        };
        const auto store = [&](int chunk) {
            u32 words[16];
#pragma unroll
            for (int i = 0; i < 16; ++i) words[i] = narrow2(by_inputs[2 * i], by_inputs[2 * i + 1]);
            if (lane == 0) tma_wait_read<0>();
            __syncwarp();
            store_rows(dx_rows, words);
            fence_async();
            __syncwarp();
            if (lane == 0) {
                tma_store(maps.dx, chunk * CHUNK, tile * TILE + 16 * warp, dx_rows);
                tma_commit();
            }
        };
        wgmma_fence();
        if constexpr (WANTS_DX) times_weights(min(part, IN_CHUNKS - 1));
        const Across<BOX_BYTES> x_across(at), dy_across(gradients);
#pragma unroll
        for (int step = 0; step < 4; ++step) {
            multiply<1>(sums.first, d + 4 * step, x_across.from(step), true);
            multiply<1>(sums.second, h + 4 * step, dy_across.from(step), true);
        }
        wgmma_commit();
        if constexpr (WANTS_DX) {
            wgmma_wait<1>();
            wgmma_complete(by_inputs);
            if (IN_CHUNKS >= TEAM || part < IN_CHUNKS) store(part);
            if constexpr (IN_CHUNKS > TEAM) {
#pragma unroll 1
                for (int chunk = part + TEAM; chunk < IN_CHUNKS; chunk += TEAM) {
                    wgmma_fence();
                    times_weights(chunk);
                    wait_for_sums(by_inputs);
                    store(chunk);
                }
            }
        }
    }
    wait_for_sums(sums.first);
    wgmma_complete(sums.second);
    if (lane == 0) tma_wait_read<0>();
}

// ---- What the block found: the teams' sums side by side in shared memory, added in their order

constexpr int FIRST_PITCH = IN + 8, SECOND_PITCH = ROWS + 4;
constexpr int SECOND_SUMS = ROWS * FIRST_PITCH, BIAS_SUMS = SECOND_SUMS + OUT * SECOND_PITCH, SUMS_OF_TEAM = BIAS_SUMS + ROWS;
static_assert(4 * TEAMS * SUMS_OF_TEAM <= BARRIERS, "there is room for the sums");

// Four sums of all teams, or one.
template <class T>
__device__ __forceinline__ T all_teams(const T *sums) {
    T all = *sums;
#pragma unroll
    for (int team = 1; team < TEAMS; ++team) add(all, sums[team * (SUMS_OF_TEAM * 4 / (int)sizeof(T))]);
    return all;
}

__device__ __forceinline__ void flush(Gradients &sums, char *shared, int group, float *found) {
    float *all = reinterpret_cast<float *>(shared), *mine = all + group / TEAM * SUMS_OF_TEAM;
    const int lane = threadIdx.x % 32, row = 64 * (group % TEAM) + threadIdx.x / 32 % 4 * 16 + lane / 4, column = lane % 4 * 2;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        sums.biases[i] += __shfl_xor_sync(~0u, sums.biases[i], 1);
        sums.biases[i] += __shfl_xor_sync(~0u, sums.biases[i], 2);
    }
    // All have left the ring and the weights.
    named_sync<GROUPS * 128 + PREPARE>(PREPARED);
    float *first = mine + row * FIRST_PITCH + column, *second = mine + SECOND_SUMS + column * SECOND_PITCH + row;
    each_pair(sums.first, [&](int r, int c, float low, float high) {
        *reinterpret_cast<float2 *>(first + r * FIRST_PITCH + c) = make_float2(low, high);
    });
    each_pair(sums.second, [&](int r, int c, float low, float high) {
        second[c * SECOND_PITCH + r] = low, second[(c + 1) * SECOND_PITCH + r] = high;
    });
    if (lane % 4 == 0) mine[BIAS_SUMS + row] = sums.biases[0], mine[BIAS_SUMS + row + 8] = sums.biases[1];
    // Twice for racecheck: behind one it reports reads of these sums where there are two teams,
    // though all of these threads stand at it.
    named_sync<GROUPS * 128>(COMPUTING);
    named_sync<GROUPS * 128>(COMPUTING);
    for (int i = threadIdx.x; i < HIDDEN * (IN / 4); i += GROUPS * 128) {
        const int r = i / (IN / 4), c = i % (IN / 4) * 4;
        give<ATOMIC>(found + weights_at(0) + 4 * i, all_teams(reinterpret_cast<const float4 *>(all + r * FIRST_PITCH + c)));
    }
    for (int i = threadIdx.x; i < OUT * (HIDDEN / 4); i += GROUPS * 128) {
        const int r = i / (HIDDEN / 4), c = i % (HIDDEN / 4) * 4;
        give<ATOMIC>(found + weights_at(1) + 4 * i, all_teams(reinterpret_cast<const float4 *>(all + SECOND_SUMS + r * SECOND_PITCH + c)));
    }
    for (int i = threadIdx.x; i < HIDDEN; i += GROUPS * 128) give<ATOMIC>(found + biases_at(0) + i, all_teams(all + BIAS_SUMS + i));
    for (int i = threadIdx.x; i < OUT; i += GROUPS * 128) give<ATOMIC>(found + biases_at(1) + i, output_bias(shared, i));
}

// `found`: what each block found, or, atomically, the gradients themselves.
template <bool WANTS_DX>
__device__ __forceinline__ void backward(const Maps &maps, const Storage *parameters, float *found, u32 batch) {
    extern __shared__ __align__(1024) char shared[];
    const u32 base = shared_address(shared), tiles = (batch + TILE - 1) / TILE;
    const int group = uniform(threadIdx.x / 128);
    const Tiles ring(base, base + BARRIERS);
    if (threadIdx.x == 0) {
        ring.init(FULL, 1);
        ring.init(READY, PREPARE / 32);
        ring.init(EMPTY, 4 * TEAM);
        fence_barrier_init();
    }
    wait_and_let_next_begin();
    place_matrix<THREADS, ROWS, IN_CHUNKS, 4>(shared + FIRST_WEIGHTS, parameters + weights_at(0), HIDDEN, IN, IN);
    place_matrix<THREADS, SECOND_ROWS, TEAM, 4>(shared + SECOND_WEIGHTS, parameters + weights_at(1), OUT, HIDDEN, HIDDEN);
    fence_async();
    __syncthreads();

    Gradients sums;
    if (group == GROUPS) {
        give_registers<REGISTERS_TO_COPY>();
        if (threadIdx.x == GROUPS * 128) {
            u32 number = 0;
            for (u32 tile = blockIdx.x; tile < tiles; tile += gridDim.x, ++number) {
                const u32 at = ring.fill(number), full = ring.full(number);
#pragma unroll
                for (int chunk = 0; chunk < IN_CHUNKS; ++chunk) tma_load(at + chunk * BOX_BYTES, maps.x, chunk * CHUNK, tile * TILE, full);
#pragma unroll
                for (int chunk = 0; chunk < OUT_CHUNKS; ++chunk) {
                    tma_load(at + GRADIENTS_AT + chunk * BOX_BYTES, maps.dy, chunk * CHUNK, tile * TILE, full);
                    if (NEEDS_OUTPUTS) tma_load(at + OUTPUTS_AT + chunk * BOX_BYTES, maps.y, chunk * CHUNK, tile * TILE, full);
                }
            }
        } else if (threadIdx.x >= GROUPS * 128 + 32 && threadIdx.x < GROUPS * 128 + 32 + PREPARE) {
            prepare(shared, ring, tiles);
            // The others wait for what was left in shared memory, these do not.
            named_arrive<GROUPS * 128 + PREPARE>(PREPARED);
        }
    } else {
        take_registers<REGISTERS_TO_COMPUTE>();
        zero(sums.first);
        zero(sums.second);
        zero(sums.biases);
        compute<WANTS_DX>(sums, maps, parameters, base, ring, group, tiles);
        flush(sums, shared, group, ATOMIC ? found : found + (u64)blockIdx.x * PARAMETERS);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, 1)
    coopmat_mlp_backward_wgmma_fused(const __grid_constant__ Maps maps, const Storage *parameters, float *found, u32 batch) {
    backward<false>(maps, parameters, found, batch);
}
extern "C" __global__ void __launch_bounds__(THREADS, 1)
    coopmat_mlp_backward_wgmma_fused_dx(const __grid_constant__ Maps maps, const Storage *parameters, float *found, u32 batch) {
    backward<true>(maps, parameters, found, batch);
}

// The gradients are the sums of what the blocks found, in a fixed order.
extern "C" __global__ void __launch_bounds__(1024) coopmat_mlp_backward_wgmma_fused_sum(const float *found, float *gradients, u32 blocks) {
    wait_and_let_next_begin();
    reduce_gradients<32, 32, 4>(found, gradients, blocks);
}
