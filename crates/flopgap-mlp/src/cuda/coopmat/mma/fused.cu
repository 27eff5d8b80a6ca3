// The backward pass of a network with one hidden layer, all of it: the hidden layer is computed
// again from the inputs, the gradients of the parameters stay in registers while a block goes
// through its tiles of samples. Nothing is kept by the forward pass.
#include "coopmat/mma/sums.cuh"

static_assert(slope_from_output<HIDDEN_ACTIVATION>() && slope_from_output<OUTPUT_ACTIVATION>(), "sums are not kept");

constexpr int IN = width(0), HIDDEN = width(1), OUT = width(2);
constexpr int IN_PITCH = pitch(IN), HIDDEN_PITCH = pitch(HIDDEN), OUT_PITCH = pitch(OUT);

// ---- Shared memory, in elements. The inputs, the gradients by the outputs and the outputs come
// for the next tile while one is computed.

constexpr int FIRST_WEIGHTS = 0;
constexpr int SECOND_WEIGHTS = FIRST_WEIGHTS + round_up(HIDDEN, 16) * IN_PITCH;
constexpr int INPUTS_AT = SECOND_WEIGHTS + round_up(OUT, 16) * HIDDEN_PITCH;
constexpr int ACTIVATIONS_AT = INPUTS_AT + 2 * TILE * IN_PITCH;
constexpr int DELTAS_AT = ACTIVATIONS_AT + TILE * HIDDEN_PITCH;
constexpr int OUTPUTS_AT = DELTAS_AT + TILE * HIDDEN_PITCH;

template <int COLUMNS>
using Share = WarpShare<TILE, COLUMNS>;

// Adds the product of TILE rows at `left` and weights at `right`, which lie by rows of the result
// (transposed: by rows of the inner dimension).
template <int INNER, int COLUMNS, bool TRANSPOSED, int LEFT_PITCH, int RIGHT_PITCH>
__device__ __forceinline__ void add_product(typename Share<COLUMNS>::Array &sums, u32 left, u32 right) {
    using Mine = Share<COLUMNS>;
    constexpr int STEPS = round_up(INNER, 16) / 16;
    left += Mine::row() * LEFT_PITCH * 2 + lane_offset<true>(LEFT_PITCH * 2);
    right += (TRANSPOSED ? Mine::column() : Mine::column() * RIGHT_PITCH) * 2 + lane_offset<TRANSPOSED>(RIGHT_PITCH * 2);
    const int pieces = (COLUMNS - Mine::column() + 15) / 16;
    in_steps<Mine::MT, Mine::NT, STEPS>(
        [&](auto &fragments, int k) {
            fragments.template load<false, TRANSPOSED, LEFT_PITCH, RIGHT_PITCH, Mine::GUARDED>(
                left + k * 32, right + (TRANSPOSED ? k * 16 * RIGHT_PITCH * 2 : k * 32), pieces);
        },
        [&](const auto &fragments) { fragments.template add_product<Mine::GUARDED>(sums, pieces); });
}

// How warps share a layer's gradients: all of them are held, in at most MOST registers of a thread.
__device__ constexpr int registers_of(int m, int n) { return m * n / 32; }
__device__ constexpr int best_split(int inputs, int outputs, int most, bool of_outputs) {
    int best_out = 0, best_in = 0, least = 0;
    for (int out = 1; out <= WARPS; out *= 2)
        for (int in = 1; in * out <= WARPS; in *= 2) {
            const int m = round_up((outputs + out - 1) / out, 16), n = round_up((inputs + in - 1) / in, 16);
            const int cost = m * out * n * in / 64 * (m + n) * 64 / (m * n);
            if (WARPS / out / in > TILE / 16) continue;
            if (registers_of(m, n) <= most && (best_out == 0 || cost < least)) best_out = out, best_in = in, least = cost;
        }
    return of_outputs ? best_out : best_in;
}

template <int IN_WIDTH, int OUT_WIDTH, int MOST>
struct Split {
    static constexpr int INPUTS = IN_WIDTH, OUTPUTS = OUT_WIDTH;
    static constexpr int ALONG_OUT = best_split(INPUTS, OUTPUTS, MOST, true), ALONG_IN = best_split(INPUTS, OUTPUTS, MOST, false);
    static_assert(ALONG_OUT > 0, "the gradients of a layer do not fit the registers");
    static constexpr int ALONG_SAMPLES = WARPS / ALONG_OUT / ALONG_IN;
    static_assert(TILE / 16 % ALONG_SAMPLES == 0, "every warp has samples of the tile, and the same number");
    static constexpr int M = round_up((OUTPUTS + ALONG_OUT - 1) / ALONG_OUT, 16), N = round_up((INPUTS + ALONG_IN - 1) / ALONG_IN, 16);
    static constexpr int TILE_OUT = M * ALONG_OUT, TILE_IN = N * ALONG_IN;

    static __device__ __forceinline__ int in_warp() { return (int)(threadIdx.x / 32) % ALONG_IN; }
    static __device__ __forceinline__ int out_warp() { return (int)(threadIdx.x / 32) / ALONG_IN % ALONG_OUT; }
    static __device__ __forceinline__ int turn() { return (int)(threadIdx.x / 32) / (ALONG_IN * ALONG_OUT); }
};

template <class S>
struct Gradients {
    Sums32 acc[S::M / 16][S::N / 8], bias[biases_of<S>()];

    __device__ __forceinline__ Gradients() { clear(bias), clear(acc); }

    // The gradients before the activation at `deltas`, the inputs of the layer at `inputs`, both by
    // samples.
    __device__ __forceinline__ void add(u32 deltas, u32 inputs) {
        constexpr int STEPS = TILE / 16 / S::ALONG_SAMPLES, DELTAS_PITCH = pitch(S::OUTPUTS), INPUTS_PITCH = pitch(S::INPUTS);
        const u32 left = deltas + (S::turn() * 16 * DELTAS_PITCH + S::out_warp() * S::M) * 2 + lane_offset<false>(DELTAS_PITCH * 2);
        const u32 right = inputs + (S::turn() * 16 * INPUTS_PITCH + S::in_warp() * S::N) * 2 + lane_offset<true>(INPUTS_PITCH * 2);
        in_steps<S::M / 16, S::N / 8, STEPS>(
            [&](auto &fragments, int k) {
                const int rows = k * 16 * S::ALONG_SAMPLES;
                fragments.template load<true, true, DELTAS_PITCH, INPUTS_PITCH, false>(left + rows * DELTAS_PITCH * 2,
                                                                                      right + rows * INPUTS_PITCH * 2, 0);
            },
            [&](const auto &fragments) { add_gradients<S>(acc, bias, fragments, S::in_warp(), true); });
    }

    __device__ __forceinline__ void write(float *sums) const { flush<S>(acc, bias, S::in_warp(), S::out_warp(), S::turn(), 0, 0, sums); }
};

// `dx` may be null. `found`: the gradients that each block finds, or, atomically, the gradients
// themselves.
extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
    coopmat_mlp_backward_mma_fused(const Storage *parameters, const Storage *x, const Storage *y, const Storage *dy, Storage *dx, float *found, u32 batch) {
    const u32 base = shared_address(shared), tiles = (batch + TILE - 1) / TILE;
    const int t = threadIdx.x & 3;
    copy_part<round_up(IN, 16), IN_PITCH>(base + FIRST_WEIGHTS * 2, parameters + weights_at(0), IN, round_up(HIDDEN, 16), HIDDEN, IN);
    copy_part<round_up(HIDDEN, 16), HIDDEN_PITCH>(base + SECOND_WEIGHTS * 2, parameters + weights_at(1), HIDDEN, round_up(OUT, 16), OUT, HIDDEN);
    // Where what comes from outside lies, by the parity of the tile: inputs, gradients by the
    // outputs, outputs.
    const auto inputs = [&](int parity) { return base + (INPUTS_AT + parity * TILE * IN_PITCH) * 2; };
    const auto gradients = [&](int parity) { return base + (OUTPUTS_AT + parity * TILE * OUT_PITCH) * 2; };
    const auto outputs = [&](int parity) { return base + (OUTPUTS_AT + (2 + parity) * TILE * OUT_PITCH) * 2; };
    const auto copy = [&](u32 tile, int parity) {
        if (tile < tiles) {
            const u64 first = (u64)tile * TILE;
            const int there = (int)(batch - first);
            copy_tile<TILE, round_up(IN, 16), IN_PITCH, IN>(inputs(parity), x + first * IN, there, IN);
            copy_tile<TILE, round_up(OUT, 16), OUT_PITCH, OUT>(gradients(parity), dy + first * OUT, there, OUT);
            if constexpr (OUTPUT_ACTIVATION != IDENTITY)
                copy_tile<TILE, round_up(OUT, 16), OUT_PITCH, OUT>(outputs(parity), y + first * OUT, there, OUT);
        }
        commit_copies();
    };
    Gradients<Split<IN, HIDDEN, MOST_FIRST>> first_gradients;
    Gradients<Split<HIDDEN, OUT, MOST_SECOND>> second_gradients;
    const u32 activations = base + ACTIVATIONS_AT * 2, deltas = base + DELTAS_AT * 2;
    copy(blockIdx.x, 0);
    u32 parity = 0;
#pragma unroll 1
    for (u32 tile = blockIdx.x; tile < tiles; tile += gridDim.x, parity ^= 1) {
        const u64 first = (u64)tile * TILE;
        wait_copies<0>();
        __syncthreads();
        copy(tile + gridDim.x, parity ^ 1);
        // The gradients before the activation of the outputs, in place.
        if constexpr (OUTPUT_ACTIVATION != IDENTITY) {
#pragma unroll 1
            for (int i = threadIdx.x; i < TILE * (OUT / 2); i += THREADS) {
                const int at = (i / (OUT / 2) * OUT_PITCH + i % (OUT / 2) * 2) * 2;
                const u32 d = load_shared(gradients(parity) + at);
                store_shared(gradients(parity) + at, times_slope<OUTPUT_ACTIVATION>(widen_low(d), widen_high(d), load_shared(outputs(parity) + at)));
            }
        }
        {
            typename Share<HIDDEN>::Array sums;
            Share<HIDDEN>::begin_with(sums, parameters + biases_at(0), Share<HIDDEN>::column());
            add_product<IN, HIDDEN, false, IN_PITCH, IN_PITCH>(sums, inputs(parity), base + FIRST_WEIGHTS * 2);
            Share<HIDDEN>::for_every_row(sums, Share<HIDDEN>::column(), HIDDEN, [&](int row, int column, const Sums &one, const Sums &two, int half) {
                const u32 to = activations + (row * HIDDEN_PITCH + column + 2 * t) * 2;
                const bool there = HIDDEN % 16 == 0 || column + 8 < HIDDEN;
                store_shared(to, activate2<HIDDEN_ACTIVATION>(one.low(half), one.high(half)));
                store_shared(to + 16, there ? activate2<HIDDEN_ACTIVATION>(two.low(half), two.high(half)) : 0);
            });
        }
        __syncthreads();
        {
            typename Share<HIDDEN>::Array sums;
            clear(sums);
            add_product<OUT, HIDDEN, true, OUT_PITCH, HIDDEN_PITCH>(sums, gradients(parity), base + SECOND_WEIGHTS * 2);
            Share<HIDDEN>::for_every_row(sums, Share<HIDDEN>::column(), HIDDEN, [&](int row, int column, const Sums &one, const Sums &two, int half) {
                const int at = (row * HIDDEN_PITCH + column + 2 * t) * 2;
                const bool there = HIDDEN % 16 == 0 || column + 8 < HIDDEN;
                store_shared(deltas + at, times_slope<HIDDEN_ACTIVATION>(one.low(half), one.high(half), load_shared(activations + at)));
                store_shared(deltas + at + 16,
                           there ? times_slope<HIDDEN_ACTIVATION>(two.low(half), two.high(half), load_shared(activations + at + 16)) : 0);
            });
        }
        second_gradients.add(gradients(parity), activations);
        __syncthreads();
        if (dx) {
            typename Share<IN>::Array sums;
            clear(sums);
            add_product<HIDDEN, IN, true, HIDDEN_PITCH, IN_PITCH>(sums, deltas, base + FIRST_WEIGHTS * 2);
            Share<IN>::for_every_row(sums, Share<IN>::column(), IN, [&](int row, int column, const Sums &one, const Sums &two, int half) {
                store_row(dx + (first + row) * IN + column, narrow2(one.low(half), one.high(half)), narrow2(two.low(half), two.high(half)), IN - column,
                          first + row < batch);
            });
        }
        first_gradients.add(deltas, inputs(parity));
    }
    wait_copies<0>();
    __syncthreads();
    float *sums = ATOMIC ? found : found + (u64)blockIdx.x * PARAMETERS;
    first_gradients.write(sums + weights_at(0));
    __syncthreads();
    second_gradients.write(sums + weights_at(1));
}
