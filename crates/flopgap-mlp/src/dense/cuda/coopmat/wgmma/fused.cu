// The backward pass of a network with one hidden layer, all of it: the hidden layer is computed anew from the inputs, and the gradients of the
// parameters stay in registers while a block goes through its tiles of 64 samples. Nothing is kept by the forward pass.
//
// The products have the hidden layer's columns along their rows and samples along their columns: 64 of those rows for each of a team's TEAM
// warpgroups. Sums then become, in the same registers, first operands of the products over samples, so that neither the hidden layer nor its
// gradients pass through shared memory on that way; inputs and the gradients by the outputs lie there as they came. TEAMS teams take tiles by
// turns. Of one further warpgroup a thread has copies made, and PREPARE threads make the gradients before the activation of the outputs.
#include "coopmat/wgmma/wgmma.cuh"
#include "tile/ptx/cluster.cuh"
#include "tile/ptx/ldmatrix.cuh"

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

// Shared memory: the ring (inputs, gradients by the outputs, outputs), the weights of both layers, for each team twice the gradients before the
// hidden layer's activation, for each warp 16 rows of the gradients by the inputs, barriers, sums of the biases' gradients.
constexpr int STAGE_BYTES = (IN_CHUNKS + OUT_CHUNKS * (NEEDS_OUTPUTS ? 2 : 1)) * BOX_BYTES;
constexpr int GRADIENTS_IN_STAGE = IN_CHUNKS * BOX_BYTES, OUTPUTS_IN_STAGE = GRADIENTS_IN_STAGE + OUT_CHUNKS * BOX_BYTES;
constexpr int FIRST_CHUNK = ROWS * ROW_BYTES, SECOND_CHUNK = (OUT + 15) / 16 * 16 * ROW_BYTES;
constexpr int FIRST_WEIGHTS = STAGES * STAGE_BYTES;
constexpr int SECOND_WEIGHTS = FIRST_WEIGHTS + IN_CHUNKS * FIRST_CHUNK;
constexpr int DELTAS = SECOND_WEIGHTS + TEAM * SECOND_CHUNK;
constexpr int DX = DELTAS + TEAMS * 2 * TEAM * BOX_BYTES;
constexpr int BARRIERS = DX + GROUPS * BOX_BYTES;
constexpr int BIASES = BARRIERS + 24 * STAGES;
static_assert(BIASES + PREPARE * 32 == SHARED_BYTES, "as the host counts");
// What lets a team wait by parity for a stage that the other one had before: it has waited for its tile before this, which the threads that prepare
// come to only after that use of the stage.
static_assert(STAGES > TEAMS, "a team leaves a stage when it has its next tile");

__device__ __forceinline__ u32 full(u32 shared, u32 stage) { return shared + BARRIERS + 8 * stage; }
__device__ __forceinline__ u32 ready(u32 shared, u32 stage) { return full(shared, STAGES + stage); }
__device__ __forceinline__ u32 empty(u32 shared, u32 stage) { return full(shared, 2 * STAGES + stage); }

struct Maps {
    TensorMap x, dy, y, dx;
};

// Weights as they lie in memory, in chunks of 64 columns with so many rows; zeros beyond.
template <int CHUNKS, int CHUNK_ROWS>
__device__ __forceinline__ void place(const Storage *weights, int rows, int columns, char *to) {
    for (int i = threadIdx.x; i < CHUNK_ROWS * CHUNKS * 8; i += THREADS) {
        const int row = i / (CHUNKS * 8), unit = i % (CHUNKS * 8);
        uint4 found = make_uint4(0, 0, 0, 0);
        if (8 * unit < columns && row < rows) found = __ldg(reinterpret_cast<const uint4 *>(weights + row * columns + 8 * unit));
        *reinterpret_cast<uint4 *>(to + (unit / 8 * CHUNK_ROWS + row) * ROW_BYTES + ((unit % 8 ^ row % 8) << 4)) = found;
    }
}

// Numbers of barriers among some of the warps; those of the teams come first.
constexpr int OF_TEAMS = 1, COMPUTING = OF_TEAMS + TEAMS, PREPARED = COMPUTING + 1;

// So many threads, at the barrier of this number.
template <int COUNT>
__device__ __forceinline__ void named_barrier(int number) { asm volatile("bar.sync %0, %1;" ::"r"(number), "n"(COUNT) : "memory"); }

// A step of 16 columns of a warp's 16 rows, to rows of 128 bytes that begin at `rows`.
__device__ __forceinline__ void store_step(u32 rows, int step, const u32 *words) {
    const int lane = threadIdx.x % 32, row = lane % 16;
    const u32 address = rows + row * ROW_BYTES + (((2 * step + lane / 16) ^ row % 8) << 4);
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(words[0]), "r"(words[1]),
                 "r"(words[2]), "r"(words[3])
                 : "memory");
}

__device__ __forceinline__ void store_box(const TensorMap &map, int column, int row, u32 from) {
    asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%1, %2}], [%3];\ncp.async.bulk.commit_group;" ::"l"((u64)&map),
                 "r"(column), "r"(row), "r"(from)
                 : "memory");
}
// Until what was stored has been read.
__device__ __forceinline__ void stores_read() { asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory"); }

// ---- The gradients before the activation of the outputs, in place of those by the outputs, and their sums.

// Units of 8 columns that a row has, as a power of two: every thread has the same unit of all its rows.
__device__ constexpr int power_above(int units) { return units <= 1 ? 1 : 2 * power_above((units + 1) / 2); }

__device__ __forceinline__ void prepare(char *shared, u32 base, u32 tiles) {
    constexpr int UNITS = power_above(OUT / 8), STEP = PREPARE / UNITS;
    static_assert(UNITS <= PREPARE, "too many outputs");
    const int thread = threadIdx.x % 128 - 32, unit = thread % UNITS, first = thread / UNITS;
    float sums[8] = {};
    u32 number = 0;
    for (u32 tile = blockIdx.x; tile < tiles; tile += gridDim.x, ++number) {
        const u32 stage = number % STAGES;
        barrier_wait(full(base, stage), number / STAGES & 1);
        if (8 * unit < OUT) {
            char *column = shared + stage * STAGE_BYTES + GRADIENTS_IN_STAGE + unit / 8 * BOX_BYTES;
#pragma unroll 2
            for (int row = first; row < TILE; row += STEP) {
                char *at = column + row * ROW_BYTES + ((unit % 8 ^ row % 8) << 4);
                uint4 found = *reinterpret_cast<uint4 *>(at);
                u32 *words = &found.x;
                if constexpr (NEEDS_OUTPUTS) {
                    uint4 outputs = *reinterpret_cast<uint4 *>(at + (OUTPUTS_IN_STAGE - GRADIENTS_IN_STAGE));
#pragma unroll
                    for (int i = 0; i < 4; ++i) {
                        const u32 y = (&outputs.x)[i];
                        words[i] = narrow2(widen_low(words[i]) * slope_at_output<OUTPUT_ACTIVATION>(widen_low(y)),
                                           widen_high(words[i]) * slope_at_output<OUTPUT_ACTIVATION>(widen_high(y)));
                    }
                    *reinterpret_cast<uint4 *>(at) = found;
                }
#pragma unroll
                for (int i = 0; i < 4; ++i) sums[2 * i] += widen_low(words[i]), sums[2 * i + 1] += widen_high(words[i]);
            }
        }
        fence_async();
        __syncwarp();
        if (threadIdx.x % 32 == 0) barrier_arrive(ready(base, stage));
    }
#pragma unroll
    for (int i = 0; i < 8; ++i) reinterpret_cast<float *>(shared + BIASES)[thread * 8 + i] = sums[i];
}

// What those threads have of an output, in their order.
__device__ __forceinline__ float output_bias(const char *shared, int output) {
    constexpr int UNITS = power_above(OUT / 8);
    float sum = 0.0f;
    for (int thread = output / 8; thread < PREPARE; thread += UNITS) sum += reinterpret_cast<const float *>(shared + BIASES)[thread * 8 + output % 8];
    return sum;
}

// ---- The products.

// The sums of a warpgroup over the tiles of its team: rows of the hidden layer's columns, columns of the inputs and of the outputs.
struct Gradients {
    float first[IN / 2], second[OUT / 2], biases[2];
};

template <int ACTIVATION>
__device__ __forceinline__ float slope_where(float z, float a) {
    if constexpr (slope_from_output<ACTIVATION>()) return slope_at_output<ACTIVATION>(a);
    else return slope<ACTIVATION>(z);
}

template <bool WANTS_DX>
__device__ __forceinline__ void compute(Gradients &sums, const Maps &maps, const Storage *parameters, u32 base, int group, u32 tiles) {
    const int team = group / TEAM, part = group % TEAM, warp = uniform(threadIdx.x / 32) % 4, lane = threadIdx.x % 32;
    const int row = 64 * part + 16 * warp + lane / 4;
    const float bias[2] = {row < HIDDEN ? widen(parameters[biases_at(0) + row]) : 0.0f, row + 8 < HIDDEN ? widen(parameters[biases_at(0) + row + 8]) : 0.0f};
    const u64 first_weights = operand(base + FIRST_WEIGHTS + part * 64 * ROW_BYTES);
    const u64 second_weights = operand_across(base + SECOND_WEIGHTS + part * SECOND_CHUNK, SECOND_CHUNK);
    const u32 dx_rows = base + DX + group * BOX_BYTES + warp * 16 * ROW_BYTES;
    u32 number = team;
    for (u32 tile = blockIdx.x + team * gridDim.x; tile < tiles; tile += TEAMS * gridDim.x, number += TEAMS) {
        const u32 stage = number % STAGES, parity = number / STAGES & 1, at = base + stage * STAGE_BYTES;
        const u32 deltas = base + DELTAS + (team * 2 + (number / TEAMS & 1)) * (TEAM * BOX_BYTES);
        const u64 x = operand(at), x_across = operand_across(at, BOX_BYTES);
        const u64 dy = operand(at + GRADIENTS_IN_STAGE), dy_across = operand_across(at + GRADIENTS_IN_STAGE, BOX_BYTES);
        u32 h[16], d[16];
        {
            float z[32], g[32];
            barrier_wait(full(base, stage), parity);
            wgmma_fence();
#pragma unroll
            for (int step = 0; step < steps_of(IN); ++step)
                wgmma<0, 0>(z, first_weights + (step / 4 * FIRST_CHUNK >> 4) + step % 4 * 2, x + (step / 4 * BOX_BYTES >> 4) + step % 4 * 2, step > 0);
            barrier_wait(ready(base, stage), parity);
            wgmma_fence();
#pragma unroll
            for (int step = 0; step < steps_of(OUT); ++step)
                wgmma<1, 0>(g, second_weights + 128 * step, dy + (step / 4 * BOX_BYTES >> 4) + step % 4 * 2, step > 0);
            wgmma_commit();
            wgmma_wait<0>();
            wgmma_complete(z);
            wgmma_complete(g);
            if (number >= TEAMS && lane == 0) barrier_arrive(empty(base, (number - TEAMS) % STAGES));
#pragma unroll
            for (int i = 0; i < 16; ++i) {
                const float low = z[2 * i] + bias[i & 1], high = z[2 * i + 1] + bias[i & 1];
                const float a = activate<HIDDEN_ACTIVATION>(low), b = activate<HIDDEN_ACTIVATION>(high);
                const float c = g[2 * i] * slope_where<HIDDEN_ACTIVATION>(low, a), e = g[2 * i + 1] * slope_where<HIDDEN_ACTIVATION>(high, b);
                h[i] = narrow2(a, b);
                d[i] = narrow2(c, e);
                sums.biases[i & 1] += c + e;
            }
        }
        if constexpr (WANTS_DX) {
#pragma unroll
            for (int step = 0; step < 4; ++step) store_step(deltas + (64 * part + 16 * warp) * ROW_BYTES, step, d + 4 * step);
            fence_async();
            named_barrier<TEAM * 128>(OF_TEAMS + team);
        }
        float by_inputs[32];
        const auto times_weights = [&](int chunk) {
            const u64 left = operand_across(deltas, BOX_BYTES), right = operand_across(base + FIRST_WEIGHTS + chunk * FIRST_CHUNK, FIRST_CHUNK);
#pragma unroll
            for (int step = 0; step < 4 * TEAM; ++step) wgmma<1, 1>(by_inputs, left + 128 * step, right + 128 * step, step > 0);
        };
        const auto store = [&](int chunk) {
            if (lane == 0) stores_read();
            __syncwarp();
#pragma unroll
            for (int step = 0; step < 4; ++step) {
                u32 words[4];
#pragma unroll
                for (int i = 0; i < 4; ++i) words[i] = narrow2(by_inputs[8 * step + 2 * i], by_inputs[8 * step + 2 * i + 1]);
                store_step(dx_rows, step, words);
            }
            fence_async();
            __syncwarp();
            if (lane == 0) store_box(maps.dx, chunk * CHUNK, tile * TILE + 16 * warp, dx_rows);
        };
        wgmma_fence();
        if constexpr (WANTS_DX) {
            times_weights(min(part, IN_CHUNKS - 1));
            wgmma_commit();
        }
#pragma unroll
        for (int step = 0; step < 4; ++step) {
            wgmma<1>(sums.first, d[4 * step], d[4 * step + 1], d[4 * step + 2], d[4 * step + 3], x_across + 128 * step, 1);
            wgmma<1>(sums.second, h[4 * step], h[4 * step + 1], h[4 * step + 2], h[4 * step + 3], dy_across + 128 * step, 1);
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
                    wgmma_commit();
                    wgmma_wait<0>();
                    wgmma_complete(by_inputs);
                    store(chunk);
                }
            }
        }
    }
    wgmma_wait<0>();
    wgmma_complete(sums.first);
    wgmma_complete(sums.second);
    if (lane == 0) stores_read();
}

// ---- What the block found: the teams' sums side by side in shared memory, added up in their order on the way to `found`.

constexpr int FIRST_PITCH = IN + 8, SECOND_PITCH = ROWS + 4;
constexpr int SECOND_SUMS = ROWS * FIRST_PITCH, BIAS_SUMS = SECOND_SUMS + OUT * SECOND_PITCH, SUMS_OF_TEAM = BIAS_SUMS + ROWS;
static_assert(4 * TEAMS * SUMS_OF_TEAM <= BARRIERS, "there is room for the sums");

// Four sums of all teams, or one.
__device__ __forceinline__ float4 all_teams(const float4 *sums) {
    float4 all = *sums;
#pragma unroll
    for (int team = 1; team < TEAMS; ++team) {
        const float4 one = sums[team * (SUMS_OF_TEAM / 4)];
        all.x += one.x, all.y += one.y, all.z += one.z, all.w += one.w;
    }
    return all;
}
__device__ __forceinline__ float all_teams(const float *sums) {
    float all = *sums;
#pragma unroll
    for (int team = 1; team < TEAMS; ++team) all += sums[team * SUMS_OF_TEAM];
    return all;
}

__device__ __forceinline__ void put(float *to, float value) {
    if constexpr (ATOMIC) atomicAdd(to, value);
    else *to = value;
}
__device__ __forceinline__ void put(float *to, float4 value) {
    if constexpr (ATOMIC) atomicAdd(to, value.x), atomicAdd(to + 1, value.y), atomicAdd(to + 2, value.z), atomicAdd(to + 3, value.w);
    else *reinterpret_cast<float4 *>(to) = value;
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
    named_barrier<GROUPS * 128 + PREPARE>(PREPARED);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        const int here = row + 8 * half;
#pragma unroll
        for (int c = 0; c < IN; c += 8)
            *reinterpret_cast<float2 *>(mine + here * FIRST_PITCH + c + column) = make_float2(sums.first[c / 2 + 2 * half], sums.first[c / 2 + 2 * half + 1]);
#pragma unroll
        for (int c = 0; c < OUT; c += 8)
#pragma unroll
            for (int side = 0; side < 2; ++side) mine[SECOND_SUMS + (c + column + side) * SECOND_PITCH + here] = sums.second[c / 2 + 2 * half + side];
        if (lane % 4 == 0) mine[BIAS_SUMS + here] = sums.biases[half];
    }
    // Twice for racecheck: behind one it reports reads of these sums where there are two teams, though all of these threads stand at it.
    named_barrier<GROUPS * 128>(COMPUTING);
    named_barrier<GROUPS * 128>(COMPUTING);
    for (int i = threadIdx.x; i < HIDDEN * (IN / 4); i += GROUPS * 128) {
        const int r = i / (IN / 4), c = i % (IN / 4) * 4;
        put(found + weights_at(0) + 4 * i, all_teams(reinterpret_cast<const float4 *>(all + r * FIRST_PITCH + c)));
    }
    for (int i = threadIdx.x; i < OUT * (HIDDEN / 4); i += GROUPS * 128) {
        const int r = i / (HIDDEN / 4), c = i % (HIDDEN / 4) * 4;
        put(found + weights_at(1) + 4 * i, all_teams(reinterpret_cast<const float4 *>(all + SECOND_SUMS + r * SECOND_PITCH + c)));
    }
    for (int i = threadIdx.x; i < HIDDEN; i += GROUPS * 128) put(found + biases_at(0) + i, all_teams(all + BIAS_SUMS + i));
    for (int i = threadIdx.x; i < OUT; i += GROUPS * 128) put(found + biases_at(1) + i, output_bias(shared, i));
}

// `found`: what each block found, or, atomically, the gradients themselves.
template <bool WANTS_DX>
__device__ __forceinline__ void backward(const Maps &maps, const Storage *parameters, float *found, u32 batch) {
    extern __shared__ __align__(1024) char shared[];
    const u32 base = shared_address(shared), tiles = (batch + TILE - 1) / TILE;
    const int group = uniform(threadIdx.x / 128);
    if (threadIdx.x == 0) {
        for (int stage = 0; stage < STAGES; ++stage) {
            barrier_init(full(base, stage), 1);
            barrier_init(ready(base, stage), PREPARE / 32);
            barrier_init(empty(base, stage), 4 * TEAM);
        }
        fence_barrier_init();
    }
    wait_and_let_next_begin();
    place<IN_CHUNKS, ROWS>(parameters + weights_at(0), HIDDEN, IN, shared + FIRST_WEIGHTS);
    place<TEAM, (OUT + 15) / 16 * 16>(parameters + weights_at(1), OUT, HIDDEN, shared + SECOND_WEIGHTS);
    fence_async();
    __syncthreads();

    Gradients sums;
    if (group == GROUPS) {
        give_registers<REGISTERS_TO_COPY>();
        if (threadIdx.x == GROUPS * 128) {
            u32 number = 0;
            for (u32 tile = blockIdx.x; tile < tiles; tile += gridDim.x, ++number) {
                const u32 stage = number % STAGES, at = base + stage * STAGE_BYTES;
                if (number >= STAGES) barrier_wait(empty(base, stage), (number / STAGES & 1) ^ 1);
                barrier_expect(full(base, stage), STAGE_BYTES);
#pragma unroll
                for (int chunk = 0; chunk < IN_CHUNKS; ++chunk) tma_load(at + chunk * BOX_BYTES, maps.x, chunk * CHUNK, tile * TILE, full(base, stage));
#pragma unroll
                for (int chunk = 0; chunk < OUT_CHUNKS; ++chunk) {
                    tma_load(at + GRADIENTS_IN_STAGE + chunk * BOX_BYTES, maps.dy, chunk * CHUNK, tile * TILE, full(base, stage));
                    if (NEEDS_OUTPUTS) tma_load(at + OUTPUTS_IN_STAGE + chunk * BOX_BYTES, maps.y, chunk * CHUNK, tile * TILE, full(base, stage));
                }
            }
        } else if (threadIdx.x >= GROUPS * 128 + 32 && threadIdx.x < GROUPS * 128 + 32 + PREPARE) {
            prepare(shared, base, tiles);
            // The others wait for what was left in shared memory, these do not.
            asm volatile("bar.arrive %0, %1;" ::"n"(PREPARED), "n"(GROUPS * 128 + PREPARE) : "memory");
        }
    } else {
        take_registers<REGISTERS_TO_COMPUTE>();
#pragma unroll
        for (int i = 0; i < IN / 2; ++i) sums.first[i] = 0.0f;
#pragma unroll
        for (int i = 0; i < OUT / 2; ++i) sums.second[i] = 0.0f;
        sums.biases[0] = sums.biases[1] = 0.0f;
        compute<WANTS_DX>(sums, maps, parameters, base, group, tiles);
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

// The gradients are the sums of what the blocks found, in a fixed order: a thread adds every so-manieth, then those sums are added.
constexpr int TURNS = 32;

extern "C" __global__ void __launch_bounds__(32 * TURNS) coopmat_mlp_backward_wgmma_sum(const float *found, float *gradients, u32 blocks) {
    __shared__ float4 partial[TURNS][32];
    const int lane = threadIdx.x % 32, turn = threadIdx.x / 32, index = ((int)blockIdx.x * 32 + lane) * 4;
    float4 sum = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    const auto add = [&](float4 one) { sum.x += one.x, sum.y += one.y, sum.z += one.z, sum.w += one.w; };
    wait_and_let_next_begin();
    if (index < PARAMETERS)
#pragma unroll 4
        for (u32 block = turn; block < blocks; block += TURNS) add(*reinterpret_cast<const float4 *>(found + (u64)block * PARAMETERS + index));
    partial[turn][lane] = sum;
    __syncthreads();
    if (turn == 0 && index < PARAMETERS) {
        for (int other = 1; other < TURNS; ++other) add(partial[other][lane]);
        *reinterpret_cast<float4 *>(gradients + index) = sum;
    }
}
