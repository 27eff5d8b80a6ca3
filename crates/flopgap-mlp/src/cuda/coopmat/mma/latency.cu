// Few samples: SAMPLES of them to a cluster of blocks, each block a slice of the columns of every
// layer, each warp a part of the slice and of the inner dimension. Weights come straight from
// global memory into fragments, those of the next layer while one is computed.
#include "coopmat/cluster.cuh"

__device__ constexpr int chunks32(int n) { return (n + 31) / 32; }
__device__ constexpr int at_most_power(int n, int most) {
    int power = 1;
    while (2 * power <= n && 2 * power <= most) power *= 2;
    return power;
}

template <int LAYER>
struct Part {
    static constexpr int K = width(LAYER), N = width(LAYER + 1);
    // Columns of a block; warps along the inner dimension and along the columns; pieces of 8
    // columns and of 32 along the inner dimension of a warp.
    static constexpr int SLICE = round_up((N + CLUSTER - 1) / CLUSTER, 8);
    static constexpr int ALONG_K = at_most_power(chunks32(K), WARPS), ALONG_N = WARPS / ALONG_K;
    static constexpr int NT = (SLICE / 8 + ALONG_N - 1) / ALONG_N, KT = (chunks32(K) + ALONG_K - 1) / ALONG_K;
    static constexpr int PARTIAL_PITCH = round_up(SLICE, 32) + 8;
    // Every thread has as many weights.
    static constexpr bool EVEN = N == CLUSTER * SLICE && SLICE == 8 * NT * ALONG_N && K == 32 * KT * ALONG_K;
    uint4 weights[NT][KT];
    // Of the column of the slice that this thread is for.
    float bias;

    static __device__ __forceinline__ int column() { return (int)(threadIdx.x / 32) / ALONG_K * NT * 8; }
    static __device__ __forceinline__ int inner() { return (int)(threadIdx.x / 32) % ALONG_K * KT * 32; }

    // Lane 4g + t has 8 numbers in a row of row g of the weights: the fragments of two products,
    // whose inner dimension is in another order for it.
    __device__ __forceinline__ void load(const Storage *parameters, int slice) {
        static_assert(SLICE <= THREADS, "a thread for every column");
        const int mine = slice + (int)threadIdx.x;
        bias = (int)threadIdx.x < SLICE && mine < N ? widen(parameters[biases_at(LAYER) + mine]) : 0.0f;
        const int g = (threadIdx.x & 31) >> 2, t = threadIdx.x & 3;
#pragma unroll
        for (int j = 0; j < NT; ++j)
#pragma unroll
            for (int c = 0; c < KT; ++c) {
                const int local = column() + 8 * j + g, row = slice + local, k = inner() + 32 * c + 8 * t;
                weights[j][c] = EVEN || (local < SLICE && row < N && k < K) ? *(const uint4 *)(parameters + weights_at(LAYER) + row * K + k)
                                                                  : make_uint4(0, 0, 0, 0);
            }
    }
};

// Elements from one row of hidden outputs to the next: rows g and g + 1 in different banks.
__device__ constexpr int hidden_pitch(int k) { return round_up(k, 64) + 32; }
__device__ constexpr int widest_hidden() {
    int widest = 0;
    for (int layer = 1; layer < LAYERS; ++layer) widest = width(layer) > widest ? width(layer) : widest;
    return widest;
}
constexpr int HIDDEN_BYTES = SAMPLES * hidden_pitch(widest_hidden()) * 2;

struct Rows {
    const Storage *parameters, *x;
    Storage *y, *tape;
    unsigned char *shared;
    u64 *arrivals;
    u32 batch, first, rank;

    template <int LAYER>
    __device__ __forceinline__ void layer(const Part<LAYER> &part) {
        using P = Part<LAYER>;
        constexpr bool LAST = LAYER + 1 == LAYERS;
        const int lane = threadIdx.x & 31, g = lane >> 2, t = lane & 3;
        float *partial = (float *)(shared + 2 * HIDDEN_BYTES) + THREADS;

        // The left operand, with its inner dimension in the order of the weights'.
        uint4 rows[2][P::KT];
#pragma unroll
        for (int half = 0; half < 2; ++half)
#pragma unroll
            for (int c = 0; c < P::KT; ++c) {
                const int row = g + 8 * half, k = P::inner() + 32 * c + 8 * t;
                uint4 value = make_uint4(0, 0, 0, 0);
                if constexpr (LAYER == 0) {
                    if (first + row < batch && k < P::K) value = *(const uint4 *)(x + (u64)(first + row) * P::K + k);
                } else {
                    if (k < P::K) value = *(const uint4 *)(shared + (LAYER & 1) * HIDDEN_BYTES + (row * hidden_pitch(P::K) + k) * 2);
                }
                rows[half][c] = value;
            }
        Part<LAST ? LAYER : LAYER + 1> next;
        if constexpr (!LAST) next.load(parameters, rank * Part<LAYER + 1>::SLICE);
        if constexpr (LAYER == 0 && CLUSTER > 2) let_next_begin(tape);

#if ARCHITECTURE >= 900
        // The compiler would begin with products before all loads are under way. That this is zero
        // it does not know.
        if constexpr (LAYER == 0) {
            u32 nothing = __float_as_uint(part.bias);
#pragma unroll
            for (int j = 0; j < P::NT; ++j)
#pragma unroll
                for (int c = 0; c < P::KT; ++c) nothing |= part.weights[j][c].x;
            nothing &= blockDim.x - THREADS;
#pragma unroll
            for (int c = 0; c < P::KT; ++c) rows[0][c].x |= nothing, rows[0][c].z |= nothing;
        }
#endif
        Sums sums[P::NT];
        clear(sums);
#pragma unroll
        for (int c = 0; c < P::KT; ++c) {
            const u32 even[4] = {rows[0][c].x, rows[1][c].x, rows[0][c].y, rows[1][c].y};
            const u32 odd[4] = {rows[0][c].z, rows[1][c].z, rows[0][c].w, rows[1][c].w};
#pragma unroll
            for (int j = 0; j < P::NT; ++j) {
                multiply(sums[j], even, part.weights[j][c].x, part.weights[j][c].y);
                multiply(sums[j], odd, part.weights[j][c].z, part.weights[j][c].w);
            }
        }
        const int slice = rank * P::SLICE;
        float *biases = partial - THREADS;
        biases[threadIdx.x] = part.bias;
        float *mine = partial + threadIdx.x / 32 % P::ALONG_K * 16 * P::PARTIAL_PITCH;
#pragma unroll
        for (int j = 0; j < P::NT; ++j) {
            const int column = P::column() + 8 * j + 2 * t;
            if (P::column() + 8 * j < P::SLICE)
#pragma unroll
                for (int half = 0; half < 2; ++half)
                    *(float2 *)(mine + (g + 8 * half) * P::PARTIAL_PITCH + column) = make_float2(sums[j].low(half), sums[j].high(half));
        }
        __syncthreads();
        // Another block's shared memory is there once it has begun, and its buffer free once it has
        // computed the layer before.
        if constexpr (LAYER == 0 && !LAST) wait_for_cluster();
        constexpr int ACTIVATION = LAST ? OUTPUT_ACTIVATION : HIDDEN_ACTIVATION;
        for (int i = threadIdx.x; i < 16 * P::SLICE / 4; i += THREADS) {
            const int row = i / (P::SLICE / 4), local = i % (P::SLICE / 4) * 4, column = slice + local;
            if (column >= P::N) continue;
            float4 z = *(const float4 *)(biases + local);
#pragma unroll
            for (int k = 0; k < P::ALONG_K; ++k) {
                const float4 one = *(const float4 *)(partial + (k * 16 + row) * P::PARTIAL_PITCH + local);
                z.x += one.x, z.y += one.y, z.z += one.z, z.w += one.w;
            }
            const uint2 a = make_uint2(activate2<ACTIVATION>(z.x, z.y), activate2<ACTIVATION>(z.z, z.w));
            if constexpr (!LAST) send<LAYER>((uint2 *)(shared + ((LAYER + 1) & 1) * HIDDEN_BYTES + (row * hidden_pitch(P::N) + column) * 2), a, arrivals);
            const u64 at = (u64)(first + row) * P::N + column;
            const bool valid = first + row < batch;
            if (tape && valid) {
                Storage *kept = layer_of<LAYER>(tape, batch) + at;
                if constexpr (!slope_from_output<ACTIVATION>()) *(uint2 *)kept = make_uint2(narrow2(z.x, z.y), narrow2(z.z, z.w));
                else if constexpr (!LAST) *(uint2 *)kept = a;
            }
            if constexpr (LAST) {
                if (valid) *(uint2 *)(y + at) = a;
            }
        }
        if constexpr (!LAST) {
            wait_sent<LAYER>(arrivals);
            layer<LAYER + 1>(next);
        }
    }
};

// Launched as clusters of CLUSTER blocks, on sm_90 and later with programmatic overlap. `tape` may
// be null.
extern "C" __global__ void __launch_bounds__(THREADS)
    coopmat_mlp_forward_mma_latency(const Storage *parameters, const Storage *x, Storage *y, Storage *tape, u32 batch) {
    const u32 rank = blockIdx.x % CLUSTER, first = blockIdx.x / CLUSTER * SAMPLES;
    u64 *const arrivals = (u64 *)shared;
    begin_cluster(arrivals);
    wait_for_kernel_before();
    Part<0> part;
    part.load(parameters, rank * Part<0>::SLICE);
    if constexpr (CLUSTER <= 2) let_next_begin(tape);
    Rows rows{parameters, x, y, tape, shared + 16 * ARRIVALS, arrivals, batch, first, rank};
    rows.layer<0>(part);
}
