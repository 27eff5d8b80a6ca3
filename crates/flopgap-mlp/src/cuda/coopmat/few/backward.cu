// Gradients of few samples, a launch for each layer from the last on, whose blocks have tiles of
// two kinds: of the gradients by what the layer took (before the activation below, or by the
// inputs), and of the gradients by its parameters, which one block sums over all samples. The tiles
// are small, so that all multiprocessors have one.
#include "coopmat/few/operands.cuh"
#if STORAGE == STORAGE_F32
#include "coopmat/few/single.cuh"
#else
#include "coopmat/few/half.cuh"
#endif

template <int LAYER>
struct Step {
    static constexpr int IN = width(LAYER), OUT = width(LAYER + 1);
    static constexpr bool LAST = LAYER + 1 == LAYERS;
    // delta W: samples x inputs, the sum over outputs. delta^T a: outputs x inputs, the sum over
    // samples.
    using Below = Product<below_m(LAYER), below_n(LAYER), below_warp_m(LAYER), below_warp_n(LAYER), true, false>;
    using Gradient = Product<gradient_m(LAYER), gradient_n(LAYER), gradient_warp_m(LAYER), gradient_warp_n(LAYER), false, false>;
    static constexpr int BELOW_ACROSS = (IN + Below::N - 1) / Below::N, GRADIENTS_ACROSS = (IN + Gradient::N - 1) / Gradient::N;
    static constexpr int GRADIENTS = (OUT + Gradient::M - 1) / Gradient::M * GRADIENTS_ACROSS;
};

struct Call {
    const Storage *parameters, *x, *y, *dy, *tape;
    Storage *dx, *deltas;
    float *gradients;
    u32 batch;
};

// Slabs in shared memory at a time: one more than there are, or what fits.
template <class P>
__device__ constexpr int stages(int inner) {
    const int all = (inner + P::SLAB - 1) / P::SLAB + 1, most = SHARED / P::STAGE;
    return all < most ? all : most;
}

// Sums a tile over `slabs` slabs. `left(to, slab, count)` and `right(...)` bring slabs; the right
// operand is there before the launches before this one have ended, if RIGHT_EARLY; `begun` runs
// when they have. LEFT_MADE: the left one is not copied in the background.
template <bool LEFT_MADE, bool RIGHT_EARLY, int STAGES, class P, class Left, class Right, class Begun>
__device__ __forceinline__ void sum(P &product, bool with_biases, int slabs, Left left, Right right, Begun begun) {
    static_assert(STAGES >= 2, "two slabs fit shared memory");
    const u32 base = shared_address(shared);
    const int ahead = min(slabs, STAGES - 1);
    if (!RIGHT_EARLY) wait_and_let_next_begin();
    right(base + P::RIGHT_AT, 0, ahead);
    if (RIGHT_EARLY) wait_and_let_next_begin();
    begun();
    if constexpr (LEFT_MADE) {
        left(base, 0, ahead);
        commit_copies();
#pragma unroll
        for (int stage = 1; stage < STAGES - 1; ++stage) commit_copies();
    } else {
        for (int stage = 0; stage < STAGES - 1; ++stage) {
            if (stage < ahead) left(base + stage * P::STAGE, stage, 1);
            commit_copies();
        }
    }
    product.clear();
    CopyRing<STAGES> ring{STAGES - 1, 0};
#pragma unroll 1
    for (int slab = 0; slab < slabs; ++slab) {
        ring.wait();
        if (slab + STAGES - 1 < slabs) {
            left(base + ring.to_fill * P::STAGE, slab + STAGES - 1, 1);
            right(base + ring.to_fill * P::STAGE + P::RIGHT_AT, slab + STAGES - 1, 1);
        }
        ring.filled();
        product.add(base + ring.to_use * P::STAGE, with_biases);
        ring.used();
    }
    wait_copies<0>();
    __syncthreads();
}

// Numbers that a thread has of a finished tile: the parts of the warps that shared the inner
// dimension, added in their order.
template <class P, int COUNT>
__device__ __forceinline__ void total(float (&sum)[COUNT], int row, int column) {
    const float *from = (const float *)shared + row * P::PARTIAL_PITCH + column;
#pragma unroll
    for (int i = 0; i < COUNT; ++i) sum[i] = 0.0f;
#pragma unroll
    for (int group = 0; group < P::GROUPS; ++group)
#pragma unroll
        for (int i = 0; i < COUNT; i += 4) {
            const float4 v = *(const float4 *)(from + group * P::M * P::PARTIAL_PITCH + i);
            sum[i] += v.x, sum[i + 1] += v.y, sum[i + 2] += v.z, sum[i + 3] += v.w;
        }
}

// The gradients before the activation of a layer.
template <int LAYER>
__device__ __forceinline__ Matrix deltas_of(const Call &call) {
    constexpr bool LAST = LAYER + 1 == LAYERS;
    const int rows = (int)call.batch, width_ = width(LAYER + 1);
    if (LAST) return Matrix{call.dy, kept_of_outputs(call.y, call.tape, call.batch), width_, rows, width_};
    return Matrix{layer_of<LAYER>(call.deltas, call.batch), nullptr, width_, rows, width_};
}

// How a factor comes to shared memory: copied as it lies, or made on its way.
template <bool MADE, class Making>
struct Factor {
    using From = Making;
};
template <class Making>
struct Factor<false, Making> {
    using From = Copied;
};

// A tile of the gradients by what the layer took.
template <int LAYER>
__device__ __forceinline__ void below(const Call &call, int tile) {
    using S = Step<LAYER>;
    using P = typename S::Below;
    using From = typename Factor<S::LAST, Deltas<OUTPUT_ACTIVATION>>::From;
    constexpr int STAGES = stages<P>(S::OUT), PER_ROW = P::N / UNIT, ITEMS = (P::M * PER_ROW + THREADS - 1) / THREADS;
    const int first = tile / S::BELOW_ACROSS * P::M, column0 = tile % S::BELOW_ACROSS * P::N;
    const Matrix deltas = deltas_of<LAYER>(call), weights{call.parameters + weights_at(LAYER), nullptr, S::IN, S::OUT, S::IN};
    const u64 kept = (u64)tape_at(LAYER - 1) * call.batch;
    uint4 slopes[ITEMS];
    const auto item = [&](int i, int &row, int &column) {
        const int index = threadIdx.x + i * THREADS;
        row = index / PER_ROW, column = index % PER_ROW * UNIT;
        return row < P::M && first + row < (int)call.batch && column0 + column < S::IN;
    };
    P product;
    sum<From::MADE, !S::LAST, STAGES>(
        product, false, (S::OUT + P::SLAB - 1) / P::SLAB,
        [&](u32 to, int slab, int count) {
            fetch<From, P::LEFT_ROWS, P::LEFT_COLUMNS, P::LEFT_PITCH, P::STAGE, 0, P::SLAB>(to, deltas, first, slab * P::SLAB, count);
        },
        [&](u32 to, int slab, int count) {
            fetch<Copied, P::RIGHT_ROWS, P::RIGHT_COLUMNS, P::RIGHT_PITCH, P::STAGE, P::SLAB, 0>(to, weights, slab * P::SLAB, column0, count);
        },
        [&] {
            // What the slopes follow from comes with the operands.
#pragma unroll
            for (int i = 0; i < (LAYER > 0 ? ITEMS : 0); ++i) {
                int row, column;
                slopes[i] = make_uint4(0, 0, 0, 0);
                if (item(i, row, column)) slopes[i] = *(const uint4 *)(call.tape + kept + (u64)(first + row) * S::IN + column0 + column);
            }
        });
    product.put((float *)shared);
    __syncthreads();
    Storage *to = LAYER == 0 ? call.dx : call.deltas + kept;
#pragma unroll
    for (int i = 0; i < ITEMS; ++i) {
        int row, column;
        if (!item(i, row, column)) continue;
        Numbers found(make_uint4(0, 0, 0, 0));
        total<P>(found.value, row, column);
        if constexpr (LAYER > 0) {
            const Numbers at(slopes[i]);
#pragma unroll
            for (int e = 0; e < UNIT; ++e) found.value[e] *= slope_at_kept<HIDDEN_ACTIVATION>(at.value[e]);
        }
        *(uint4 *)(to + (u64)(first + row) * S::IN + column0 + column) = found.stored();
    }
}

// A tile of the gradients by the parameters.
template <int LAYER>
__device__ __forceinline__ void gradient(const Call &call, int tile) {
    using S = Step<LAYER>;
    using P = typename S::Gradient;
    using From = typename Factor<S::LAST, Deltas<OUTPUT_ACTIVATION>>::From;
    using Inputs = typename Factor<(LAYER > 0 && !slope_from_output<HIDDEN_ACTIVATION>()), Activated<HIDDEN_ACTIVATION>>::From;
    constexpr int STAGES = stages<P>(NOMINAL_BATCH);
    const int out0 = tile / S::GRADIENTS_ACROSS * P::M, in0 = tile % S::GRADIENTS_ACROSS * P::N;
    const Storage *taken = LAYER == 0 ? call.x : layer_of<LAYER - 1>(call.tape, call.batch);
    const Matrix deltas = deltas_of<LAYER>(call), inputs{taken, nullptr, S::IN, (int)call.batch, S::IN};
    const auto left = [&](u32 to, int slab, int count) {
        fetch<From, P::LEFT_ROWS, P::LEFT_COLUMNS, P::LEFT_PITCH, P::STAGE, P::SLAB, 0>(to, deltas, slab * P::SLAB, out0, count);
    };
    const auto right = [&](u32 to, int slab, int count) {
        fetch<Inputs, P::RIGHT_ROWS, P::RIGHT_COLUMNS, P::RIGHT_PITCH, P::STAGE, P::SLAB, 0>(to, inputs, slab * P::SLAB, in0, count);
    };
    P product;
    const int slabs = ((int)call.batch + P::SLAB - 1) / P::SLAB;
    float *partial = (float *)shared;
    sum<From::MADE, !S::LAST, STAGES>(product, in0 == 0, slabs, left, right, [] {});
    if (in0 == 0) product.put_biases(partial);
    product.put(partial);
    __syncthreads();
    float *to = call.gradients + weights_at(LAYER);
    for (int index = threadIdx.x; index < P::M * (P::N / 4); index += THREADS) {
        const int row = index / (P::N / 4), column = index % (P::N / 4) * 4;
        if (out0 + row >= S::OUT || in0 + column >= S::IN) continue;
        float found[4];
        total<P>(found, row, column);
        *(float4 *)(to + (u64)(out0 + row) * S::IN + in0 + column) = make_float4(found[0], found[1], found[2], found[3]);
    }
    if (in0 == 0 && threadIdx.x < P::M && out0 + (int)threadIdx.x < S::OUT) {
        float found = 0.0f;
#pragma unroll
        for (int part = 0; part < P::BIAS_PARTS; ++part) found += partial[P::BIASES_AT + part * P::M + threadIdx.x];
        call.gradients[biases_at(LAYER) + out0 + threadIdx.x] = found;
    }
}

template <int LAYER>
__device__ __forceinline__ void step(const Call &call, int layer) {
    if (layer == LAYER) {
        if ((int)blockIdx.x < Step<LAYER>::GRADIENTS) gradient<LAYER>(call, blockIdx.x);
        else below<LAYER>(call, blockIdx.x - Step<LAYER>::GRADIENTS);
        return;
    }
    if constexpr (LAYER > 0) step<LAYER - 1>(call, layer);
}

// Blocks: the tiles of the gradients by the parameters of `layer`, then those of the gradients by
// what it took, if they are wanted. On sm_90 and later launched with programmatic overlap.
// `deltas`: the gradients before the activations of the hidden layers, as the tape lies.
extern "C" __global__ void __launch_bounds__(THREADS, 1)
    coopmat_mlp_backward_few(const Storage *parameters, const Storage *x, const Storage *y, const Storage *dy, const Storage *tape, Storage *dx,
                             Storage *deltas, float *gradients, u32 batch, u32 layer) {
    step<LAYERS - 1>(Call{parameters, x, y, dy, tape, dx, deltas, gradients, batch}, (int)layer);
}
