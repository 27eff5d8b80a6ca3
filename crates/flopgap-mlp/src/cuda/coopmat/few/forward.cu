// Outputs of few samples in 32 bits: a cluster of blocks to SAMPLES samples, each block with a
// slice of every layer's outputs. The warps of a block share the inner dimension, and each brings
// its own part of the operands: a block meets only for the sums. Weights stream through a ring of
// each warp that goes on from layer to layer; hidden layers go from each block into the shared
// memory of all.
#include "coopmat/cluster.cuh"
#include "tile/padded.cuh"

// A part of a slice along the inner dimension is a stage: rows of STEP numbers, whose pieces of 16
// bytes change places, so that those of eight rows lie in different banks.
constexpr int PIECES = STEP / 4, STAGE = SLICE * STEP;
constexpr int SAMPLE_PITCH = round_up(WIDEST_INNER, 32) + 4, PARTIAL_PITCH = round_up(SLICE, 32) + 8, TAKEN = SAMPLES * SAMPLE_PITCH;
static_assert(PIECES == 2 || PIECES == 4 || PIECES == 8, "up to 128 bytes");

__device__ __forceinline__ int place_of(int row, int piece) { return row * STEP + (piece ^ (row / (8 / PIECES) & (PIECES - 1))) * 4; }

// Numbers of the inner dimension that a warp has of a layer.
__device__ constexpr int share(int inner) { return round_up((inner + WARPS - 1) / WARPS, 8); }

struct Call {
    const float *parameters, *x;
    float *y, *tape;
    u32 batch;
    int rank, first;
};

// The ring of a warp, whose stages are all filled before the first use, and what is fetched next.
struct Slabs : CopyRing<STAGES> {
    float *stages;
    int layer = 0, step = 0;

    __device__ __forceinline__ explicit Slabs(float *stages) : stages(stages) {}

    // Fetches the warp's next part of a slice, if there is one; a group of copies in any case.
    __device__ __forceinline__ void fetch(const Call &call) {
        if (layer < LAYERS) {
            const int in = width(layer), n = slice(layer), n0 = call.rank * n, rows = min(n, width(layer + 1) - n0), all = share(in);
            const int warp = threadIdx.x / 32, lane = threadIdx.x & 31, k0 = warp * all + step, left = min(min(in - warp * all, all) - step, STEP);
            const int piece = lane % PIECES;
            const float *from = call.parameters + weights_at(layer) + (u64)(n0 + lane / PIECES) * in + k0 + 4 * piece;
            float *to = stages + to_fill * STAGE;
            if (4 * piece < left)
#pragma unroll 4
                for (int row = lane / PIECES; row < rows; row += 32 / PIECES, from += 32 / PIECES * in)
                    copy_async_or_zero(shared_address(to + place_of(row, piece)), from, true);
            step += STEP;
            if (step >= all) step = 0, ++layer;
        }
        filled();
    }
};

template <int LAYER>
struct Slice {
    static constexpr int IN = width(LAYER), OUT = width(LAYER + 1), N = slice(LAYER), ROWS = SAMPLES / 4, COLUMNS = N / 8, SHARE = share(IN);
    // All warps have as many whole stages.
    static constexpr bool EVEN = IN == WARPS * SHARE && SHARE % STEP == 0;
    float sums[ROWS][COLUMNS];

    // A lane's rows are every fourth, its columns every eighth. Lanes whose numbers differ in the
    // lowest bit read the same of the right operand, in the next bit the same of the left one:
    // shared memory then serves half a warp at once.
    static __device__ __forceinline__ int row() { return (threadIdx.x & 1) | (threadIdx.x >> 3 & 2); }
    static __device__ __forceinline__ int column() { return threadIdx.x >> 1 & 7; }

    __device__ __forceinline__ void add(const float *left, const float *stage, int piece) {
        float4 a[ROWS], b[COLUMNS];
#pragma unroll
        for (int i = 0; i < ROWS; ++i) a[i] = *(const float4 *)(left + 4 * i * SAMPLE_PITCH + 4 * piece);
#pragma unroll
        for (int j = 0; j < COLUMNS; ++j) b[j] = *(const float4 *)(stage + 8 * j * STEP + place_of(column(), piece));
#pragma unroll
        for (int i = 0; i < ROWS; ++i)
#pragma unroll
            for (int j = 0; j < COLUMNS; ++j) {
                sums[i][j] = fmaf(a[i].x, b[j].x, sums[i][j]);
                sums[i][j] = fmaf(a[i].y, b[j].y, sums[i][j]);
                sums[i][j] = fmaf(a[i].z, b[j].z, sums[i][j]);
                sums[i][j] = fmaf(a[i].w, b[j].w, sums[i][j]);
            }
    }

    // The warp's sums over its part of the inner dimension.
    __device__ __forceinline__ void sum(const Call &call, Slabs &ring, const float *taken) {
#pragma unroll
        for (int i = 0; i < ROWS; ++i)
#pragma unroll
            for (int j = 0; j < COLUMNS; ++j) sums[i][j] = 0.0f;
        const int k0 = (int)(threadIdx.x / 32) * SHARE, end = EVEN ? SHARE : min(IN - k0, SHARE);
        const float *left = taken + row() * SAMPLE_PITCH + k0;
#pragma unroll 1
        for (int k = 0; k < SHARE; k += STEP) {
            wait_copies<STAGES - 1>();
            __syncwarp();
            const float *stage = ring.stages + ring.to_use * STAGE;
            if constexpr (EVEN) {
#pragma unroll
                for (int piece = 0; piece < PIECES; ++piece) add(left + k, stage, piece);
            } else {
#pragma unroll 1
                for (int piece = 0; piece < PIECES && k + 4 * piece < end; ++piece) add(left + k, stage, piece);
            }
            ring.used();
            __syncwarp();
            ring.fetch(call);
        }
    }
};

template <int LAYER>
__device__ constexpr int slices_before() {
    if constexpr (LAYER == 0) return 0;
    else return slices_before<LAYER - 1>() + slice(LAYER - 1);
}

// The block's biases of all layers, in a row.
template <int LAYER>
__device__ __forceinline__ void fetch_biases(const Call &call, float *to) {
    const int within = threadIdx.x * 4, n = call.rank * slice(LAYER) + within;
    if (within < slice(LAYER) && n < width(LAYER + 1)) copy_async_or_zero(shared_address(to + slices_before<LAYER>() + within), call.parameters + biases_at(LAYER) + n, true);
    if constexpr (LAYER + 1 < LAYERS) fetch_biases<LAYER + 1>(call, to);
}

template <int ACTIVATION>
__device__ __forceinline__ float4 activated(float4 v) {
    return make_float4(activate<ACTIVATION>(v.x), activate<ACTIVATION>(v.y), activate<ACTIVATION>(v.z), activate<ACTIVATION>(v.w));
}

__device__ __forceinline__ uint4 bits(float4 v) { return make_uint4(__float_as_uint(v.x), __float_as_uint(v.y), __float_as_uint(v.z), __float_as_uint(v.w)); }

template <int LAYER>
__device__ __forceinline__ void layer(const Call &call, Slabs &ring, float *taken, float *partial, const float *biases, u64 *arrivals) {
    using S = Slice<LAYER>;
    constexpr bool LAST = LAYER + 1 == LAYERS, FROM_SUMS = !slope_from_output<activation_of(LAYER)>();
    constexpr int QUADS = S::N / 4;
    {
        S mine;
        mine.sum(call, ring, taken + (LAYER & 1) * TAKEN);
        float *to = partial + ((threadIdx.x / 32) * SAMPLES + S::row()) * PARTIAL_PITCH + S::column();
#pragma unroll
        for (int i = 0; i < S::ROWS; ++i)
#pragma unroll
            for (int j = 0; j < S::COLUMNS; ++j) to[4 * i * PARTIAL_PITCH + 8 * j] = mine.sums[i][j];
    }
    __syncthreads();
    // The others have begun: there is shared memory to write to.
    if constexpr (LAYER == 0 && !LAST) wait_for_cluster();
    for (int index = threadIdx.x; index < SAMPLES * QUADS; index += THREADS) {
        const int sample = index / QUADS, within = index % QUADS * 4, n = call.rank * S::N + within;
        if (n >= S::OUT) continue;
        float4 sum = *(const float4 *)(biases + slices_before<LAYER>() + within);
#pragma unroll
        for (int part = 0; part < WARPS; ++part) {
            const float4 v = *(const float4 *)(partial + (part * SAMPLES + sample) * PARTIAL_PITCH + within);
            sum.x += v.x, sum.y += v.y, sum.z += v.z, sum.w += v.w;
        }
        const float4 out = activated<activation_of(LAYER)>(sum);
        if constexpr (!LAST) send<LAYER>((uint4 *)(taken + ((LAYER + 1) & 1) * TAKEN + sample * SAMPLE_PITCH + n), bits(out), arrivals);
        if (call.first + sample < (int)call.batch) {
            const u64 place = (u64)(call.first + sample) * S::OUT + n;
            if (call.tape && (FROM_SUMS || !LAST)) *(float4 *)(layer_of<LAYER>(call.tape, call.batch) + place) = FROM_SUMS ? sum : out;
            if (LAST) *(float4 *)(call.y + place) = out;
        }
    }
    if constexpr (!LAST) {
        wait_sent<LAYER>(arrivals);
        layer<LAYER + 1>(call, ring, taken, partial, biases, arrivals);
    }
}

// A cluster for every SAMPLES samples. On the tape, if there is one, what the backward pass takes.
extern "C" __global__ void __launch_bounds__(THREADS, 1)
    coopmat_mlp_forward_few(const float *parameters, const float *x, float *y, float *tape, u32 batch) {
    float *const taken = (float *)shared + ARRIVALS * 4, *const partial = taken + 2 * TAKEN;
    float *const biases = partial + WARPS * SAMPLES * PARTIAL_PITCH;
    float *const stages = biases + slices_before<LAYERS>() + threadIdx.x / 32 * STAGES * STAGE;
    u64 *const arrivals = (u64 *)shared;
    begin_cluster(arrivals);
    wait_for_kernel_before();
    const Call call{parameters, x, y, tape, batch, (int)(blockIdx.x % CLUSTER), (int)(blockIdx.x / CLUSTER) * SAMPLES};
    // What the warp takes of the samples, with the first stage of weights.
    constexpr int IN = width(0), SHARE = share(IN), PER_ROW = SHARE / 4;
    const int k0 = threadIdx.x / 32 * SHARE;
#pragma unroll 4
    for (int index = threadIdx.x & 31; index < SAMPLES * PER_ROW; index += 32) {
        const int row = index / PER_ROW, k = k0 + index % PER_ROW * 4;
        const bool there = call.first + row < (int)batch;
        if (k < IN) copy_async_or_zero(shared_address(taken + row * SAMPLE_PITCH + k), there ? x + (u64)(call.first + row) * IN + k : x, there);
    }
    fetch_biases<0>(call, biases);
    Slabs ring(stages);
#pragma unroll 1
    for (int stage = 0; stage < STAGES; ++stage) ring.fetch(call);
    let_next_begin(tape);
    layer<0>(call, ring, taken, partial, biases, arrivals);
    wait_copies<0>();
}
