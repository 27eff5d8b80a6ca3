// All layers of a warp's samples in registers. The last two layers go together: a piece of the last
// hidden layer is computed, activated, and its part of the outputs is added at once, so that the
// hidden layer never exists as a whole.
//
// ROWS, WARPS, BLOCKS (blocks a multiprocessor), STAGES, CUT (pieces of the last hidden layer),
// AHEAD (where the next inputs wait while the present ones are computed: 0 nowhere, 1 in
// registers), PARKED (how many of the inputs, the first, wait in shared memory until they are
// multiplied, a multiple of 32, so that the others are cut into pieces as the weights are; only
// with one hidden layer).
#include "coopvec/weights.cuh"

constexpr int IN_REGISTERS = INPUTS - PARKED;
static_assert(PARKED == 0 || LAYERS == 2, "only the inputs of the last two layers can be parked");

// A step makes the outputs of a layer in front of the last two, or of those two together: behind a
// piece of the last hidden layer lies what the outputs multiply it by.
struct ForwardSteps {
    static constexpr int STEPS = LAYERS - 1, RUNS_END = LAYERS - 2;
    const Storage *parameters;

    static constexpr __device__ int inputs(int step) { return width(step); }
    static constexpr __device__ int outputs(int step) { return width(step + 1); }
    static constexpr __device__ int cut(int step) { return step == LAYERS - 2 ? CUT : 32; }
    static constexpr __device__ int slab_elements(int step, int piece) {
        return elements(piece, width(step)) + (step == LAYERS - 2 ? elements(OUTPUTS, piece) : 0);
    }
    template <int STEP, int P>
    __device__ __forceinline__ void fill(Storage *to, int of_run, int f) const {
        constexpr int K = width(STEP), N = width(STEP + 1);
        ::fill<P, K, K>(to, parameters + weights_at(STEP) + of_run * (K + 1) * N + f * K);
        if constexpr (STEP == LAYERS - 2) ::fill<OUTPUTS, P, N>(to + elements(P, K), parameters + weights_at(STEP + 1) + f);
    }
};

// Biases lie in shared memory as the numbers of a sample do on the tape.
constexpr int BIASES = tape_at(LAYERS);

// Where a lane's features of a parked piece lie; lanes lie side by side.
__device__ __forceinline__ int parked_at(int k, int row) { return (k / 32 * ROWS + row) * 256; }

template <bool KEEP>
struct ForwardPass {
    Storage *y, *tape;
    u32 batch;
    const float *biases;
    Storage *parked;  // this lane's, of this warp
    Slabs<ForwardSteps> slabs;
    using Steps = Schedule<ForwardSteps>;

    // Keeps a piece of what the backward pass needs of a layer: its outputs, or the sums where the
    // slope does not follow from those.
    template <int LAYER, int P, int W>
    __device__ __forceinline__ void keep(int f, u32 first, const Vectors<P> &outputs, const Sums<W> &sums, int from, int of_run = 0) {
        constexpr int ACTIVATION = activation_of(LAYER), LAST = LAYER == LAYERS - 1;
        if constexpr (KEEP && !(LAST && slope_from_output<ACTIVATION>())) {
            Storage *to = tape + (u64)(tape_at(LAYER) + of_run * width(LAYER + 1)) * batch;
            if constexpr (slope_from_output<ACTIVATION>())
                write_piece<P>(to, width(LAYER + 1), f, first, batch, outputs);
            else
                write_piece<P>(to, width(LAYER + 1), f, first, batch, activated<P, IDENTITY>(sums, from));
        }
    }

    // The outputs of a hidden layer that the network has in front of the last: `of_run` layers
    // after LAYER, with its widths.
    template <int LAYER>
    __device__ __forceinline__ void hidden(const Vectors<LAYER == 0 ? IN_REGISTERS : width(LAYER)> &vectors, Vectors<width(LAYER + 1)> &next,
                                           u32 first, int of_run) {
        constexpr int K = width(LAYER), N = width(LAYER + 1);
        const auto piece = [&](auto cut, int f) {
            constexpr int P = decltype(cut)::SIZE;
            const Storage *weights = slabs.next(Steps::template place<LAYER>(of_run, f));
            Sums<P> sums;
            begin_with(sums, biases + tape_at(LAYER) + of_run * N + f);
            multiply<K>(sums, vectors, weights);
            const Vectors<P> piece = activated<P, HIDDEN_ACTIVATION>(sums, 0);
            keep<LAYER>(f, first, piece, sums, 0, of_run);
#pragma unroll
            for (int r = 0; r < ROWS; ++r)
#pragma unroll
                for (int j = 0; j < P / 8; ++j) next.pair[r][f / 8 + j] = piece.pair[r][j];
        };
        if constexpr (ROLLED > 0)
            each_piece<N>(piece);
        else
            pieces<N>(piece);
    }

    template <int LAYER>
    __device__ __forceinline__ void from(const Vectors<LAYER == 0 ? IN_REGISTERS : width(LAYER)> &vectors, u32 first) {
        constexpr int K = width(LAYER), N = width(LAYER + 1), END = Steps::run_end(LAYER);
        if constexpr (LAYER < LAYERS - 2) {
            Vectors<N> next;
            hidden<LAYER>(vectors, next, first, 0);
            if constexpr (END > LAYER + 1) {
#pragma unroll 1
                for (int of_run = 1; of_run < END - LAYER; ++of_run) {
                    const Vectors<N> present = next;
                    hidden<LAYER>(present, next, first, of_run);
                }
            }
            from<END>(next, first);
        } else {
            Sums<OUTPUTS> outputs;
            begin_with(outputs, biases + tape_at(LAYER + 1));
            each_piece<N, CUT>([&](auto cut, int f) {
                constexpr int P = decltype(cut)::SIZE;
                const Storage *weights = slabs.next(Steps::template place<LAYER>(0, f));
                Sums<P> sums;
                begin_with(sums, biases + tape_at(LAYER) + f);
                multiply<K>(sums, vectors, weights, PARKED);
                pieces<PARKED>([&](auto, int k) {
                    Vectors<32> some;
#pragma unroll
                    for (int r = 0; r < ROWS; ++r) read<32, false>(some.pair[r], parked + parked_at(k, r));
                    multiply<K>(sums, some, weights, k);
                });
                const Vectors<P> hidden = activated<P, HIDDEN_ACTIVATION>(sums, 0);
                keep<LAYER>(f, first, hidden, sums, 0);
                multiply<P>(outputs, hidden, weights + elements(P, K));
            });
            pieces<OUTPUTS>([&](auto cut, int f) {
                constexpr int P = decltype(cut)::SIZE;
                const Vectors<P> piece = activated<P, OUTPUT_ACTIVATION>(outputs, f);
                write_piece<P>(y, OUTPUTS, f, first, batch, piece);
                keep<LAYERS - 1>(f, first, piece, outputs, f);
            });
        }
    }
};

template <bool KEEP>
__device__ __forceinline__ void forward(const Storage *parameters, const Storage *x, Storage *y, Storage *tape, u32 batch) {
    extern __shared__ uint4 shared[];
    float *biases = (float *)shared;
    wait_and_let_next_begin();
    const u32 warp = threadIdx.x / 32;
    Storage *parked = (Storage *)(biases + BIASES) + warp * (SAMPLES * PARKED);
    Storage *slabs = (Storage *)(biases + BIASES) + WARPS * (SAMPLES * PARKED);
    ForwardPass<KEEP> pass{y, tape, batch, biases, parked + lane() * 8, {slabs, {parameters}}};
    const Tiles tiles(batch);
    pass.slabs.start(tiles.rounds());
#pragma unroll
    for (int layer = 0; layer < LAYERS; ++layer)
        for (int i = threadIdx.x; i < width(layer + 1); i += THREADS)
            biases[tape_at(layer) + i] = widen(parameters[biases_at(layer) + i]);
    Vectors<IN_REGISTERS> inputs;
    if (AHEAD && tiles.tile < tiles.end) read_rows<INPUTS>(inputs, x, tiles.first(tiles.tile), batch);
    pass.slabs.finish();
    __syncthreads();
#pragma unroll 1
    for (u32 tile = tiles.tile; tile < tiles.end; tile += tiles.stride) {
        const u32 first = tiles.first(tile);
        pieces<PARKED>([&](auto, int k) {
            Vectors<32> some;
            read_piece<32>(some, x, INPUTS, k, first, batch);
#pragma unroll
            for (int r = 0; r < ROWS; ++r) write<32>(pass.parked + parked_at(k, r), some.pair[r]);
        });
        if constexpr (AHEAD) {
            const Vectors<IN_REGISTERS> present = inputs;
            if (tile + tiles.stride < tiles.end) read_rows<INPUTS>(inputs, x, tiles.first(tile + tiles.stride), batch);
            pass.template from<0>(present, first);
        } else {
            read_rows<INPUTS>(inputs, x + PARKED, first, batch);
            pass.template from<0>(inputs, first);
        }
    }
}

// Each kernel is compiled by itself, side by side with the other: KERNEL says which.
#if KERNEL == 0
extern "C" __global__ __launch_bounds__(THREADS, BLOCKS) void coopvec_mlp_forward(const Storage *parameters, const Storage *x, Storage *y,
                                                                                  u32 batch) {
    forward<false>(parameters, x, y, nullptr, batch);
}
#elif KERNEL == 1
extern "C" __global__ __launch_bounds__(THREADS, BLOCKS) void coopvec_mlp_forward_train(const Storage *parameters, const Storage *x, Storage *y,
                                                                                        Storage *tape, u32 batch) {
    forward<true>(parameters, x, y, tape, batch);
}
#endif
