// The gradients before every activation ("deltas") and by the inputs, layer by layer from the last,
// for a tile of SAMPLES samples in one kernel, after the weights were arranged: the chain of the
// forward pass the other way. Deltas go to global memory, too, where the gradients by the
// parameters are computed from them.
#include "coopmat/simt/terms/ring.cuh"

#include "tile/ptx/memory.cuh"

static_assert(AFTER_RING == VALUES_AT, "the host's sum");

struct Call {
    const Storage *y, *dy, *tape;
    Storage *dx, *deltas;
};

// Deltas of a layer of COUNT numbers, to global memory and to `values`: its gradients, which lie at
// `gradients` as rows or else in `values` already, times the slopes of its activation, from what
// was kept of it. ACROSS neighboring threads have fours of one sample.
template <int ACTIVATION, int COUNT, bool FROM_VALUES>
__device__ __forceinline__ void make_deltas(const Pass &pass, u64 first, const Storage *gradients, const Storage *kept, Storage *deltas, float *values) {
    constexpr int ACROSS = COUNT % 32 == 0 ? 8 : 2, DOWN = THREADS / ACROSS;
    constexpr int PIECES = SAMPLES * COUNT / 4, ROUNDS = (PIECES + THREADS - 1) / THREADS, AT_ONCE = ROUNDS < 4 ? ROUNDS : 4;
    static_assert(DOWN % SAMPLES == 0 || SAMPLES % DOWN == 0, "powers of two");
    // Every piece is a constant away from the thread's first.
    constexpr auto row = [](int r) { return r * DOWN % SAMPLES; };
    constexpr auto number = [](int r) { return r * DOWN / SAMPLES * ACROSS * 4; };
    const int thread = own_thread(), m = thread / ACROSS % SAMPLES, n = (thread / ACROSS / SAMPLES * ACROSS + thread % ACROSS) * 4;
    const u64 at = (first + m) * COUNT + n;
    gradients += at, kept += at, deltas += at, values += n * PITCH + m;
    const int left = first + SAMPLES <= pass.batch ? SAMPLES : (int)(pass.batch - first) - m;
#pragma unroll
    for (int round = 0; round < ROUNDS; round += AT_ONCE) {
        float4 of[AT_ONCE], by[FROM_VALUES ? 1 : AT_ONCE];
        const auto there = [&](int r) { return (PIECES % THREADS == 0 || n + number(r) < COUNT) && row(r) < left; };
#pragma unroll
        for (int i = 0; i < AT_ONCE; ++i) {
            const int r = round + i, away = row(r) * COUNT + number(r);
            if (r < ROUNDS && there(r)) {
                load4(kept + away, of[i]);
                if (!FROM_VALUES) load4(gradients + away, by[FROM_VALUES ? 0 : i]);
            }
        }
#pragma unroll
        for (int i = 0; i < AT_ONCE; ++i) {
            const int r = round + i, away = row(r) * COUNT + number(r);
            if (r < ROUNDS && there(r)) {
                float *const to = values + number(r) * PITCH + row(r);
                const float4 gradient = FROM_VALUES ? make_float4(to[0], to[PITCH], to[2 * PITCH], to[3 * PITCH]) : by[FROM_VALUES ? 0 : i];
                const float4 delta = times(gradient, slopes_of<ACTIVATION>(of[i]));
                store4(deltas + away, delta);
                to[0] = delta.x, to[PITCH] = delta.y, to[2 * PITCH] = delta.z, to[3 * PITCH] = delta.w;
            }
        }
    }
}

// Rows of a tile of samples that are read later, on their way to the second-level cache.
template <int COUNT>
__device__ __forceinline__ void prefetch(const Storage *from, u64 first, u32 batch) {
    constexpr int LINE = 128 / sizeof(Storage), LINES = SAMPLES * COUNT / LINE;
    const Storage *const end = from + (u64)batch * COUNT;
    from += first * COUNT;
#pragma unroll 4
    for (int i = own_thread(); i < LINES; i += THREADS)
        if (from + i * LINE < end) prefetch_to_l2(from + i * LINE);
}

template <int STEP>
__device__ __forceinline__ void step(Pass &pass, HeldSlabs &ring, const Call &call, u64 first) {
    using S = Shape<STEP>;
    constexpr int LAYER = LAYERS - 1 - STEP;
    constexpr bool LAST = LAYER == 0;
    if (LAST && !call.dx) return;
    float *const values = pass.shared + values_at(STEP);
    const Storage *const kept = layer_of<LAYER - 1>(call.tape, pass.batch);
    if (!LAST) prefetch<S::N>(kept, first, pass.batch);
    if (RESIDENT) __syncthreads();
#pragma unroll 1
    for (int number = 0; number < S::PASSES; ++number) {
        float sums[S::ROWS][S::COLUMNS] = {};
        product<STEP>(pass, ring, number, sums);
        const int output = number * S::WIDTH + S::first_output();
        if constexpr (LAST) put<STEP>(call.dx, first, pass.batch, output, sums);
        else {
            // The results take the place of the values above, when all threads have read those.
            if (VALUES_OF_EVEN == 0) __syncthreads();
#pragma unroll
            for (int j = 0; j < S::COLUMNS; ++j)
                if (S::N % S::WIDTH == 0 || output + j * LANES_ACROSS < S::N) {
                    // One by one: sums that are stored as one have registers in order, whose banks
                    // are then those of the factors that go with them.
                    float *const column = values + (output + j * LANES_ACROSS) * PITCH + S::first_row();
#pragma unroll
                    for (int i = 0; i < S::ROWS; ++i) column[S::row(i)] = sums[i][j];
                }
        }
    }
    if constexpr (!LAST) {
        __syncthreads();
        make_deltas<activation_of(LAYER - 1), S::N, true>(pass, first, nullptr, kept, layer_of<LAYER - 1>(call.deltas, pass.batch), values);
        step<STEP + 1>(pass, ring, call, first);
    }
}

// The deltas of the outputs.
__device__ __forceinline__ void begin(const Pass &pass, const Call &call, u64 first) {
    const Storage *const kept = kept_of_outputs(call.y, call.tape, pass.batch);
    make_deltas<OUTPUT_ACTIVATION, OUTPUTS, false>(pass, first, call.dy, kept, layer_of<LAYERS - 1>(call.deltas, pass.batch), pass.shared + values_at(-1));
    const u64 next = first + (u64)gridDim.x * SAMPLES;
    prefetch<OUTPUTS>(call.dy, next, pass.batch);
    prefetch<OUTPUTS>(kept, next, pass.batch);
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
    coopmat_simt_mlp_backward_terms(const Storage *y, const Storage *dy, const Storage *tape, Storage *dx, Storage *deltas, u32 batch) {
    extern __shared__ __align__(16) float shared[];
    const Call call{y, dy, tape, dx, deltas};
    // Without the gradients by the inputs, the last step is left out.
    Pass pass{nullptr, shared, batch, dx ? streamed<LAYERS>() : streamed<LAYERS - 1>(), {}};
    HeldSlabs ring;
    if (!RESIDENT && pass.slabs == 0) {
        // A single layer, and its gradients by the inputs are not wanted.
        for (u32 tile = blockIdx.x; (u64)tile * SAMPLES < batch; tile += gridDim.x) begin(pass, call, (u64)tile * SAMPLES);
        return;
    }
    begin_ring(pass, ring);
    for (u32 tile = blockIdx.x; (u64)tile * SAMPLES < batch; tile += gridDim.x) {
        // The last tile's values are read no more.
        __syncthreads();
        begin(pass, call, (u64)tile * SAMPLES);
        step<0>(pass, ring, call, (u64)tile * SAMPLES);
    }
}
