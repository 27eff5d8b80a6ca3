// The gradients before every activation ("deltas") and by the inputs, layer by layer from the last,
// for a tile of SAMPLES samples: the chain of the forward pass the other way. Weights are read as
// they lie: the inner sum is over their rows. Deltas go to global memory, too, where the gradients
// by the parameters are computed from them.
#include "coopmat/simt/shape.cuh"

static_assert(!RESIDENT, "weights go through the ring");

constexpr int STAGE = SLAB * widest_pass<0>();
static_assert(STAGES * STAGE == VALUES_AT, "the host's sum");

struct Call {
    const Storage *parameters, *y, *dy, *tape;
    Storage *dx, *deltas;
    u32 batch;
    float *shared;
};

// The weights of a slab.
__device__ __forceinline__ void copy_weights(const Call &call, float *to, int slab) {
    with_step_of(slab, [&](auto step, int own) {
        using S = Shape<step>;
        const int row = own % S::SLABS * SLAB, column = own / S::SLABS * S::WIDTH;
        const Storage *from = call.parameters + weights_at(LAYERS - 1 - step) + (u64)row * S::N + column;
        copy_rows<SLAB, S::WIDTH, S::N, S::WIDTH, THREADS, S::N % S::WIDTH != 0 || S::K % SLAB != 0>(to, from, S::K - row, S::N - column);
    });
}

__device__ __forceinline__ void fill(const Call &call, Slabs &ring) {
    if ((u64)ring.tile * SAMPLES < call.batch) copy_weights(call, call.shared + ring.to_fill * STAGE, ring.slab);
    // Without the gradients by the inputs, the last step is left out.
    ring.next(call.dx ? slabs_before<LAYERS>() : slabs_before<LAYERS - 1>());
}

__device__ __forceinline__ const float *next_stage(const Call &call, Slabs &ring) {
    ring.wait();
    fill(call, ring);
    const float *const stage = call.shared + ring.to_use * STAGE;
    ring.used();
    return stage;
}

// The deltas of the outputs.
__device__ __forceinline__ void begin(const Call &call, u64 first) {
    const Storage *const of = kept_of_outputs(call.y, call.tape, call.batch);
#pragma unroll 4
    for (int i = threadIdx.x; i < SAMPLES * OUTPUTS / 4; i += THREADS) {
        const int m = i / (OUTPUTS / 4), n = i % (OUTPUTS / 4) * 4;
        if (first + m >= call.batch) break;
        const u64 at = (first + m) * OUTPUTS + n;
        float4 dy;
        load4(call.dy + at, dy);
        const float4 delta = times(dy, slopes<OUTPUT_ACTIVATION>(of + at));
        store4(layer_of<LAYERS - 1>(call.deltas, call.batch) + at, delta);
        *reinterpret_cast<float4 *>(call.shared + values_at(-1) + m * samples_pitch(OUTPUTS) + n) = delta;
    }
}

template <int STEP>
__device__ __forceinline__ void step(const Call &call, Slabs &ring, u64 first) {
    using S = Shape<STEP>;
    constexpr int LAYER = LAYERS - 1 - STEP;
    constexpr bool LAST = LAYER == 0;
    constexpr int ABOVE_PITCH = samples_pitch(S::K), PITCH = samples_pitch(S::N), FOURS = LANES_ACROSS * 4;
    static_assert(S::COLUMNS % 4 == 0, "outputs in fours");
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int row = warp % S::DOWN * LANES_DOWN * S::ROWS + lane / LANES_ACROSS;
    const int column = warp / S::DOWN * LANES_ACROSS * S::COLUMNS + lane % LANES_ACROSS * 4;
    const float *const above = call.shared + values_at(STEP - 1);
    float *const values = call.shared + values_at(STEP);
    if (LAST && !call.dx) return;
#pragma unroll 1
    for (int pass = 0; pass < S::PASSES; ++pass) {
        float sums[S::ROWS][S::COLUMNS] = {};
#pragma unroll 1
        for (int slab = 0; slab < S::SLABS; ++slab) {
            const float *const stage = next_stage(call, ring);
#pragma unroll 1
            for (int k = 0; k < SLAB; k += 8)
                if (S::K % SLAB == 0 || slab * SLAB + k < S::K)
                    multiply_columns<8, S::ROWS, S::COLUMNS, LANES_DOWN * ABOVE_PITCH, S::WIDTH, FOURS>(
                        above + row * ABOVE_PITCH + slab * SLAB + k, stage + k * S::WIDTH + column, sums);
        }
        // The results take the place of the values above, when all threads have read those.
        if (!LAST && VALUES_OF_EVEN == 0) __syncthreads();
        const int n = pass * S::WIDTH + column;
#pragma unroll
        for (int i = 0; i < S::ROWS; ++i) {
            const int m = row + i * LANES_DOWN;
            if (first + m >= call.batch) break;
#pragma unroll
            for (int j = 0; j < S::COLUMNS; j += 4) {
                const int at = n + j / 4 * FOURS;
                if (S::N % S::WIDTH != 0 && at >= S::N) continue;
                const float4 sum = make_float4(sums[i][j], sums[i][j + 1], sums[i][j + 2], sums[i][j + 3]);
                if constexpr (LAST) store4(call.dx + (first + m) * INPUTS + at, sum);
                else {
                    const u64 place = (u64)tape_at(LAYER - 1) * call.batch + (first + m) * S::N + at;
                    const float4 delta = times(sum, slopes<activation_of(LAYER - 1)>(call.tape + place));
                    store4(call.deltas + place, delta);
                    *reinterpret_cast<float4 *>(values + m * PITCH + at) = delta;
                }
            }
        }
    }
    if constexpr (!LAST) step<STEP + 1>(call, ring, first);
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
    coopmat_simt_mlp_backward(const Storage *parameters, const Storage *y, const Storage *dy, const Storage *tape, Storage *dx,
                              Storage *deltas, u32 batch) {
    extern __shared__ __align__(16) float shared[];
    const Call call{parameters, y, dy, tape, dx, deltas, batch, shared};
    Slabs ring;
#pragma unroll 1
    for (int stage = 0; stage + 1 < STAGES; ++stage) fill(call, ring);
    for (u32 tile = blockIdx.x; (u64)tile * SAMPLES < batch; tile += gridDim.x) {
        // The last tile's values are read no more.
        __syncthreads();
        begin(call, (u64)tile * SAMPLES);
        step<0>(call, ring, (u64)tile * SAMPLES);
    }
}
