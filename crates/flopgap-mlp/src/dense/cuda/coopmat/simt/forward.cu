// Exact 32-bit matrix tiles: all layers of a tile of SAMPLES samples in one kernel. Every thread keeps a tile of the sums in registers (16 samples
// x 8 outputs where the layer is wide enough); samples lie in shared memory as columns, [number][sample], so that both factors are read 16
// bytes at a time. Inputs arrive a slab of numbers at a time through a ring, weights too, or they are all there (RESIDENT).
//
// The host gives the plan: THREADS, BLOCKS, SAMPLES, STAGES, UNITS, RESIDENT, and by layer rows(l) x 8 sums a thread, columns(l) outputs a pass,
// split(l) parts of the inner sum.

constexpr int WARPS = THREADS / 32;
constexpr int PITCH = SAMPLES + 4;

// The shape of a layer.
template <int LAYER>
struct Shape {
    static constexpr int K = width(LAYER), N = width(LAYER + 1);
    static constexpr int ROWS = rows(LAYER), COLUMNS = columns(LAYER), SPLIT = split(LAYER);
    static constexpr int PASSES = (N + COLUMNS - 1) / COLUMNS;
    // Numbers of a slab: each part takes 8 at a time.
    static constexpr int SLAB = 8 * UNITS * SPLIT, SLABS = (K + SLAB - 1) / SLAB;
    static constexpr int WEIGHTS_PITCH = COLUMNS + 4;
    // Threads over samples and outputs, and how a warp's lie.
    static constexpr int DOWN = SAMPLES / ROWS, ACROSS = COLUMNS / 8, PART = DOWN * ACROSS;
    static constexpr int LANES_DOWN = ACROSS >= 32 / (DOWN < LANES ? DOWN : LANES) ? (DOWN < LANES ? DOWN : LANES) : 32 / ACROSS;
    static constexpr int LANES_ACROSS = 32 / LANES_DOWN;
    static_assert(PART * SPLIT == THREADS && PART % 32 == 0, "every warp has a part");
    static_assert(DOWN % LANES_DOWN == 0 && ACROSS % LANES_ACROSS == 0, "whole warps");
};

// Slabs of the layers before this one, by which they are counted within a tile.
template <int LAYER>
__device__ constexpr int slabs_before() {
    if constexpr (LAYER == 0) return 0;
    else return slabs_before<LAYER - 1>() + Shape<LAYER - 1>::PASSES * Shape<LAYER - 1>::SLABS;
}
constexpr int SLABS = slabs_before<LAYERS>();

template <int LAYER>
__device__ constexpr int weights_of_slab() { return Shape<LAYER>::SLAB * Shape<LAYER>::WEIGHTS_PITCH; }
template <int LAYER>
__device__ constexpr int largest_slab() {
    if constexpr (LAYER == LAYERS) return 0;
    else {
        constexpr int rest = largest_slab<LAYER + 1>(), own = weights_of_slab<LAYER>();
        return own > rest ? own : rest;
    }
}
template <int LAYER>
__device__ constexpr int weights_before() {
    if constexpr (LAYER == 0) return 0;
    else return weights_before<LAYER - 1>() + Shape<LAYER - 1>::PASSES * Shape<LAYER - 1>::SLABS * weights_of_slab<LAYER - 1>();
}
// A biases' array for each layer, after each other.
template <int LAYER>
__device__ constexpr int biases_before() {
    if constexpr (LAYER == 0) return 0;
    else return biases_before<LAYER - 1>() + width(LAYER);
}
template <int LAYER>
__device__ constexpr int taped_before() { return biases_before<LAYER>(); }

// Shared memory, in floats. The host computes the same sum.
constexpr int STAGE_INPUTS = Shape<0>::SLAB * PITCH;
constexpr int STAGE = STAGE_INPUTS + (RESIDENT ? 0 : largest_slab<0>());
constexpr int RESIDENT_AT = STAGES * STAGE;
constexpr int VALUES_AT = RESIDENT_AT + (RESIDENT ? weights_before<LAYERS>() : 0);
constexpr int BIASES_AT = VALUES_AT + VALUES;
constexpr int SHARED = BIASES_AT + biases_before<LAYERS>();
static_assert(SHARED * 4 == SHARED_BYTES, "the host's sum");

struct Call {
    const Storage *parameters, *x;
    Storage *y, *tape;
    u32 batch;
    float *shared;
};

// The weights of a slab of a layer, transposed.
template <int LAYER>
__device__ __forceinline__ void copy_weights(const Call &call, float *to, int slab) {
    using S = Shape<LAYER>;
    const int pass = slab / S::SLABS, k = slab % S::SLABS * S::SLAB, column = pass * S::COLUMNS;
    const Storage *from = call.parameters + weights_at(LAYER) + column * S::K + k;
    constexpr bool CHECKED = S::N % S::COLUMNS != 0 || S::K % S::SLAB != 0;
    copy_transposed<S::COLUMNS, S::SLAB, S::K, S::WEIGHTS_PITCH, THREADS, CHECKED>(to, from, S::N - column, S::K - k);
}

template <int LAYER>
__device__ __forceinline__ void copy_weights_of(const Call &call, float *to, int slab) {
    if constexpr (LAYER + 1 < LAYERS) {
        if (slab >= slabs_before<LAYER + 1>()) {
            copy_weights_of<LAYER + 1>(call, to, slab);
            return;
        }
    }
    copy_weights<LAYER>(call, to, slab - slabs_before<LAYER>());
}

// The inputs of a slab of the first layer, for a tile.
__device__ __forceinline__ void copy_inputs(const Call &call, float *to, int slab, u32 tile) {
    using S = Shape<0>;
    const int k = slab % S::SLABS * S::SLAB;
    const u64 first = (u64)tile * SAMPLES;
    const Storage *from = call.x + first * INPUTS + k;
    const u64 left = call.batch - first;
    if (left >= SAMPLES && S::K % S::SLAB == 0) copy_transposed<SAMPLES, S::SLAB, INPUTS, PITCH, THREADS, false>(to, from, 0, 0);
    else copy_transposed<SAMPLES, S::SLAB, INPUTS, PITCH, THREADS, true>(to, from, left < SAMPLES ? (int)left : SAMPLES, S::K - k);
}

// Where the ring stands. Steps are slabs of all tiles of this block, one after the other; only those of the first layer where the weights are
// resident.
struct Ring {
    int filled, used;    // stages
    int slab;            // the next to be copied
    u32 tile;            // of its tile
};
constexpr int STEPS = RESIDENT ? slabs_before<1>() : SLABS;

__device__ __forceinline__ int following(int stage) { return stage + 1 == STAGES ? 0 : stage + 1; }

__device__ __forceinline__ void fill(const Call &call, Ring &ring) {
    if ((u64)ring.tile * SAMPLES < call.batch) {
        float *const to = call.shared + ring.filled * STAGE;
        if (ring.slab < slabs_before<1>()) copy_inputs(call, to, ring.slab, ring.tile);
        if (!RESIDENT) copy_weights_of<0>(call, to + STAGE_INPUTS, ring.slab);
    }
    end_of_group();
    ring.filled = following(ring.filled);
    if (++ring.slab == STEPS) ring.slab = 0, ring.tile += gridDim.x;
}

// The next stage, ready for all threads; the one used last is filled again.
__device__ __forceinline__ const float *next_stage(const Call &call, Ring &ring) {
    wait_for_groups<STAGES - 2>();
    __syncthreads();
    fill(call, ring);
    const float *const stage = call.shared + ring.used * STAGE;
    ring.used = following(ring.used);
    return stage;
}

// The sums of a layer after the products: biases, activation, and where they go.
template <int LAYER>
__device__ __forceinline__ void keep(const Call &call, u64 sample, int column, float4 sums, float4 values) {
    constexpr int N = width(LAYER + 1);
    constexpr bool LAST = LAYER + 1 == LAYERS, FROM_SUMS = !slope_from_output<activation_of<LAYER>()>();
    auto put = [&](Storage *to, float4 v) {
#if STORAGE == STORAGE_F32
        *reinterpret_cast<float4 *>(to) = v;
#else
        *reinterpret_cast<uint2 *>(to) = make_uint2(narrow2(v.x, v.y), narrow2(v.z, v.w));
#endif
    };
    if (LAST) put(call.y + sample * OUTPUTS + column, values);
    if ((!LAST || FROM_SUMS) && call.tape)
        put(call.tape + (u64)taped_before<LAYER>() * call.batch + sample * N + column, FROM_SUMS ? sums : values);
}

// As it is stored.
__device__ __forceinline__ float stored(float x) { return widen(narrow(x)); }

template <int LAYER>
__device__ __forceinline__ void layer(const Call &call, Ring &ring, u32 tile) {
    using S = Shape<LAYER>;
    constexpr bool LAST = LAYER + 1 == LAYERS;
    constexpr int ACTIVATION = activation_of<LAYER>();
    constexpr int DOWN_STEP = S::LANES_DOWN * 4, ACROSS_STEP = S::LANES_ACROSS * 4;
    const int part = threadIdx.x / S::PART, within = threadIdx.x % S::PART, lane = threadIdx.x % 32, warp = within / 32;
    constexpr int WARPS_DOWN = S::DOWN / S::LANES_DOWN;
    const int row = warp % WARPS_DOWN * S::LANES_DOWN * S::ROWS + lane % S::LANES_DOWN * 4;
    const int column = warp / WARPS_DOWN * S::LANES_ACROSS * 8 + lane / S::LANES_DOWN * 4;
    // Where several passes read the same values, the results go elsewhere.
    float *const values = call.shared + VALUES_AT + (LAYER % 2 == 1 ? 0 : VALUES_AFTER_EVEN);
    const float *const below = call.shared + VALUES_AT + (LAYER % 2 == 1 ? VALUES_AFTER_EVEN : 0);
    const float *const biases = call.shared + BIASES_AT + biases_before<LAYER>();
    if (RESIDENT && LAYER > 0) __syncthreads();
    for (int pass = 0; pass < S::PASSES; ++pass) {
        float sums[S::ROWS][8];
#pragma unroll
        for (int i = 0; i < S::ROWS; ++i)
#pragma unroll
            for (int j = 0; j < 8; ++j) sums[i][j] = 0.0f;
#pragma unroll 1
        for (int slab = 0; slab < S::SLABS; ++slab) {
            const float *stage = nullptr;
            if (!RESIDENT || LAYER == 0) stage = next_stage(call, ring);
            const float *const samples = LAYER == 0 ? stage : below + slab * S::SLAB * PITCH;
            const float *const weights =
                RESIDENT ? call.shared + RESIDENT_AT + weights_before<LAYER>() + (pass * S::SLABS + slab) * weights_of_slab<LAYER>()
                         : stage + STAGE_INPUTS;
#pragma unroll 1
            for (int unit = 0; unit < UNITS; ++unit) {
                const int k = (unit * S::SPLIT + part) * 8;
                if (S::K % S::SLAB == 0 || slab * S::SLAB + k < S::K)
                    multiply<S::ROWS, 8, PITCH, DOWN_STEP, S::WEIGHTS_PITCH, ACROSS_STEP>(
                        samples + k * PITCH + row, weights + k * S::WEIGHTS_PITCH + column, sums);
            }
        }
        const u64 first = (u64)tile * SAMPLES;
        const int at = pass * S::COLUMNS + column;
        // The values below are read no more, or not written to.
        if (LAYER > 0 && (!LAST || S::SPLIT > 1)) __syncthreads();
        if constexpr (S::SPLIT == 1) {
#pragma unroll
            for (int j = 0; j < 8; j += 4) {
                const int n = at + j / 4 * ACROSS_STEP;
                if (S::N % S::COLUMNS == 0 || n < S::N) {
                    const float4 bias = *reinterpret_cast<const float4 *>(biases + n);
#pragma unroll
                    for (int i = 0; i < S::ROWS; ++i) {
                        const float4 z = make_float4(sums[i][j] + bias.x, sums[i][j + 1] + bias.y, sums[i][j + 2] + bias.z, sums[i][j + 3] + bias.w);
                        const float4 a = make_float4(stored(activate<ACTIVATION>(z.x)), stored(activate<ACTIVATION>(z.y)),
                                                     stored(activate<ACTIVATION>(z.z)), stored(activate<ACTIVATION>(z.w)));
                        const u64 sample = first + row + i / 4 * DOWN_STEP + i % 4;
                        if (sample < call.batch) keep<LAYER>(call, sample, n, z, a);
                        sums[i][j] = a.x, sums[i][j + 1] = a.y, sums[i][j + 2] = a.z, sums[i][j + 3] = a.w;
                    }
                    if (!LAST) {
#pragma unroll
                        for (int i = 0; i < S::ROWS; i += 4)
#pragma unroll
                            for (int c = 0; c < 4; ++c)
                                *reinterpret_cast<float4 *>(values + (n + c) * PITCH + row + i / 4 * DOWN_STEP) =
                                    make_float4(sums[i][j + c], sums[i + 1][j + c], sums[i + 2][j + c], sums[i + 3][j + c]);
                    }
                }
            }
        } else {
            // The parts are added in order: each thread has its share of the sums, the same in all parts, and adds some.
            constexpr int FOURS = S::ROWS * 2, OWN = FOURS / S::SPLIT;
            static_assert(FOURS % S::SPLIT == 0 && S::PASSES == 1, "whole shares");
            float4 *const parts = reinterpret_cast<float4 *>(call.shared + VALUES_AT);
#pragma unroll
            for (int f = 0; f < FOURS; ++f) {
                const int i = f / 2, j = f % 2 * 4;
                parts[(part * FOURS + f) * S::PART + within] = make_float4(sums[i][j], sums[i][j + 1], sums[i][j + 2], sums[i][j + 3]);
            }
            __syncthreads();
            float4 all[OWN];
#pragma unroll
            for (int o = 0; o < OWN; ++o) {
                const int f = part * OWN + o, n = at + f % 2 * ACROSS_STEP;
                float4 z = *reinterpret_cast<const float4 *>(biases + (S::N % S::COLUMNS == 0 || n < S::N ? n : 0));
#pragma unroll
                for (int p = 0; p < S::SPLIT; ++p) {
                    const float4 v = parts[(p * FOURS + f) * S::PART + within];
                    z.x += v.x, z.y += v.y, z.z += v.z, z.w += v.w;
                }
                const float4 a = make_float4(stored(activate<ACTIVATION>(z.x)), stored(activate<ACTIVATION>(z.y)),
                                             stored(activate<ACTIVATION>(z.z)), stored(activate<ACTIVATION>(z.w)));
                const u64 sample = first + row + f / 2 / 4 * DOWN_STEP + f / 2 % 4;
                if (sample < call.batch && (S::N % S::COLUMNS == 0 || n < S::N)) keep<LAYER>(call, sample, n, z, a);
                all[o] = a;
            }
            if (!LAST) {
                __syncthreads();
#pragma unroll
                for (int o = 0; o < OWN; ++o) {
                    const int f = part * OWN + o, n = at + f % 2 * ACROSS_STEP, m = row + f / 2 / 4 * DOWN_STEP + f / 2 % 4;
                    if (S::N % S::COLUMNS == 0 || n < S::N) {
                        float *const to = values + n * PITCH + m;
                        to[0] = all[o].x, to[PITCH] = all[o].y, to[2 * PITCH] = all[o].z, to[3 * PITCH] = all[o].w;
                    }
                }
            }
        }
    }
    if constexpr (!LAST) layer<LAYER + 1>(call, ring, tile);
}

template <int LAYER>
__device__ __forceinline__ void copy_biases(const Call &call) {
    if constexpr (LAYER < LAYERS) {
        float *const to = call.shared + BIASES_AT + biases_before<LAYER>();
        for (int i = threadIdx.x; i < width(LAYER + 1); i += THREADS) to[i] = widen(call.parameters[biases_at(LAYER) + i]);
        copy_biases<LAYER + 1>(call);
    }
}

template <int LAYER>
__device__ __forceinline__ void copy_all_weights(const Call &call) {
    if constexpr (LAYER < LAYERS) {
#pragma unroll 1
        for (int slab = 0; slab < Shape<LAYER>::PASSES * Shape<LAYER>::SLABS; ++slab)
            copy_weights<LAYER>(call, call.shared + RESIDENT_AT + weights_before<LAYER>() + slab * weights_of_slab<LAYER>(), slab);
        copy_all_weights<LAYER + 1>(call);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
    coopmat_simt_mlp_forward(const Storage *parameters, const Storage *x, Storage *y, Storage *tape, u32 batch) {
    extern __shared__ __align__(16) float shared[];
    const Call call{parameters, x, y, tape, batch, shared};
    copy_biases<0>(call);
    if (RESIDENT) copy_all_weights<0>(call);
    Ring ring{0, 0, 0, blockIdx.x};
#pragma unroll 1
    for (int stage = 0; stage + 1 < STAGES; ++stage) fill(call, ring);
    for (u32 tile = blockIdx.x; (u64)tile * SAMPLES < batch; tile += gridDim.x) layer<0>(call, ring, tile);
}
