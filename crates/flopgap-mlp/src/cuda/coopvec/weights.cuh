// Weights on their way from global to shared memory, in the order that products read them.
//
// A slab holds what a warp needs at one step: the weights of a piece of a layer's outputs. STAGES
// slabs lie in shared memory and are replaced by those to come; with STAGES == 0 all of them stay
// there. THREADS is the size of a block.
#include "coopvec/vectors.cuh"
#include "tile/ring.cuh"

// What a warp works on. With all weights at hand, warps go their own ways; otherwise a block goes
// through the weights with as many samples as its warps have.
struct Tiles {
    static constexpr u32 CHUNK = STAGES == 0 ? SAMPLES : SAMPLES * WARPS;
    u32 tile, end, stride;

    __device__ __forceinline__ Tiles(u32 batch) {
        end = (batch + CHUNK - 1) / CHUNK;
        tile = STAGES == 0 ? threadIdx.x / 32 * gridDim.x + blockIdx.x : blockIdx.x;
        stride = STAGES == 0 ? WARPS * gridDim.x : gridDim.x;
    }
    // The first sample of the warp.
    __device__ __forceinline__ u32 first(u32 tile) const { return tile * CHUNK + (STAGES == 0 ? 0 : threadIdx.x / 32 * SAMPLES); }
    // How many tiles it has.
    __device__ __forceinline__ u32 rounds() const { return tile < end ? (end - tile + stride - 1) / stride : 0; }
};

// ---- The order of weights.

// The output that column `column` of tile `tile` of N outputs is.
template <int N>
__device__ __forceinline__ int output_of(int tile, int column) {
    const int begin = tile / 4 * 32, rest = N - begin;
    const int in_piece = tile % 4;
    const int piece = rest >= 32 ? 32 : rest >= 16 && in_piece < 2 ? 16 : 8;
    const int from = piece == 8 ? begin + 8 * in_piece : begin, j = piece == 8 ? 0 : in_piece;
    return from + piece / 4 * (column / 2) + 2 * j + column % 2;
}

// Elements that the weights of N outputs over K inputs take.
constexpr __device__ int elements(int n, int k) { return n * (k + ROW_PADDING); }

// Copies the weights of N outputs over K inputs, whose rows lie LEADING elements apart.
template <int N, int K, int LEADING>
__device__ __forceinline__ void fill(Storage *to, const Storage *from) {
#if STORAGE == STORAGE_F32
    // Row n, which is the i-th of lane quarter t in its piece, lies at place 4i + t of the piece.
    for (int unit = threadIdx.x; unit < N * (K / 4); unit += THREADS) {
        const int n = unit / (K / 4), k = unit % (K / 4) * 4;
        const int begin = n / 32 * 32, rest = N - begin;
        const int piece = rest >= 32 ? 32 : rest >= 16 && n - begin < 16 ? 16 : 8;
        const int first = piece == 8 ? n / 8 * 8 : begin, index = n - first;
        const int place = first + index % (piece / 4) * 4 + index / (piece / 4);
        copy_async<16>(to + place * (K + ROW_PADDING) + k, from + (u64)n * LEADING + k);
    }
#else
    constexpr int FULL = K / 32;
    if constexpr (FULL > 0)
        for (int unit = threadIdx.x; unit < N / 8 * FULL * 32; unit += THREADS) {
            const int lane = unit % 32, k = unit / 32 % FULL * 32, tile = unit / 32 / FULL;
            copy_async<16>(to + tile * 8 * K + k * 8 + lane * 8, from + (u64)output_of<N>(tile, lane / 4) * LEADING + k + lane % 4 * 8);
        }
    if constexpr ((K & 16) != 0)
        for (int unit = threadIdx.x; unit < N / 8 * 32; unit += THREADS) {
            const int lane = unit % 32, k = FULL * 32, tile = unit / 32;
            copy_async<8>(to + tile * 8 * K + k * 8 + lane * 4, from + (u64)output_of<N>(tile, lane / 4) * LEADING + k + lane % 4 * 4);
        }
    if constexpr ((K & 8) != 0)
        for (int unit = threadIdx.x; unit < N / 8 * 32; unit += THREADS) {
            const int lane = unit % 32, k = K / 16 * 16, tile = unit / 32;
            copy_async<4>(to + tile * 8 * K + k * 8 + lane * 2, from + (u64)output_of<N>(tile, lane / 4) * LEADING + k + lane % 4 * 2);
        }
#endif
}

// ---- Pieces of a width.

// How many pieces a width has that is cut into pieces of CUT (32, or 16 where registers are short).
constexpr __device__ int pieces_of(int width, int cut = 32) {
    return width / cut + (cut == 32 ? width / 16 & 1 : 0) + (width / 8 & 1);
}

// f(Piece<P>, first feature) for the piece-th piece of W, known at run time.
template <int W, int CUT = 32, class F>
__device__ __forceinline__ void piece_at(int piece, F f) {
    constexpr int WHOLE = W / CUT, REST = W % CUT, FROM = W / CUT * CUT;
    if (piece < WHOLE) return f(Piece<CUT>{}, piece * CUT);
    if constexpr (REST == 16) f(Piece<16>{}, FROM);
    if constexpr (REST == 8) f(Piece<8>{}, FROM);
    if constexpr (REST == 24) {
        if (piece == WHOLE)
            f(Piece<16>{}, FROM);
        else
            f(Piece<8>{}, FROM + 16);
    }
}

// All pieces of a width, one after the other: f(Piece<P>, first feature), where no register is
// indexed by the feature.
template <int W, int CUT = 32, class F>
__device__ __forceinline__ void each_piece(F f) {
    constexpr int REST = W % CUT, FROM = W / CUT * CUT;
#pragma unroll 1
    for (int i = 0; i < FROM; i += CUT) f(Piece<CUT>{}, i);
    if constexpr ((REST & 16) != 0) f(Piece<16>{}, FROM);
    if constexpr ((REST & 8) != 0) f(Piece<8>{}, W - 8);
}

// ---- Steps through the layers, and the slabs that they read.

// `Steps` says: how many there are (STEPS), before which one a run must end (RUNS_END), and of a
// step its `inputs(step)` and `outputs(step)`, the pieces its outputs are cut into (`cut(step)`),
// and what a slab has for one (`slab_elements(step, piece)`). `fill<STEP, P>(to, of_run, feature)`
// brings the slab of a piece of P outputs.
template <class Steps>
struct Schedule : Steps {
    // Where the slab of a piece lies among those of its step, if all stay, and where they end.
    static constexpr __device__ int within(int step, int feature) {
        const int cut = Steps::cut(step);
        return feature / cut * Steps::slab_elements(step, cut) +
               (cut == 32 && (feature & 16) != 0 ? Steps::slab_elements(step, 16) : 0);
    }
    static constexpr __device__ int end(int step) {
        const int cut = Steps::cut(step), w = Steps::outputs(step), last = w & 8 ? 8 : w & 16 && cut == 32 ? 16 : cut;
        return within(step, w - last) + Steps::slab_elements(step, last);
    }
    static constexpr __device__ int begin(int step) { return step == 0 ? 0 : begin(step - 1) + end(step - 1); }
    // The slab of a piece that begins at `feature`, `of_run` steps further on with the same widths.
    template <int STEP>
    static __device__ __forceinline__ int place(int of_run, int feature) {
        constexpr int BEGIN = begin(STEP), EACH = end(STEP);
        return BEGIN + of_run * EACH + within(STEP, feature);
    }
    static constexpr __device__ int pieces(int step) { return pieces_of(Steps::outputs(step), Steps::cut(step)); }
    // How many slabs there are before a step, and how large one is at most.
    static constexpr __device__ int slabs(int step = Steps::STEPS) { return step == 0 ? 0 : slabs(step - 1) + pieces(step - 1); }
    static constexpr __device__ int most(int steps = Steps::STEPS) {
        if (steps == 0) return 0;
        const int rest = most(steps - 1), w = Steps::outputs(steps - 1), cut = Steps::cut(steps - 1);
        const int here = Steps::slab_elements(steps - 1, w >= cut ? cut : w >= 16 ? 16 : 8);
        return here > rest ? here : rest;
    }
    // Steps from this one on that have its widths: they share their code where there would be too
    // much of it.
    static constexpr __device__ int run_end(int step) {
        int end = step + 1;
        if (ROLLED > 0)
            while (end < Steps::RUNS_END && Steps::inputs(end) == Steps::inputs(step) && Steps::outputs(end) == Steps::outputs(step))
                ++end;
        return end;
    }

    // f(Piece<P>, step, of_run, first feature) for a slab, known at run time; `step` as a Piece.
    template <int STEP = 0, class F>
    static __device__ __forceinline__ void piece_of(int slab, F f) {
        constexpr int EACH = pieces(STEP), END = run_end(STEP);
        if constexpr (END < Steps::STEPS)
            if (slab >= EACH * (END - STEP)) return piece_of<END>(slab - EACH * (END - STEP), f);
        const int of_run = END == STEP + 1 ? 0 : slab / EACH;
        piece_at<Steps::outputs(STEP), Steps::cut(STEP)>(slab - of_run * EACH,
                                                         [&](auto cut, int feature) { f(cut, Piece<STEP>{}, of_run, feature); });
    }
    static __device__ __forceinline__ int place_of(int slab) {
        int found = 0;
        piece_of(slab, [&](auto, auto step, int of_run, int feature) { found = place<decltype(step)::SIZE>(of_run, feature); });
        return found;
    }
    __device__ __forceinline__ void fill_slab(Storage *to, int slab) const {
        piece_of(slab, [&](auto cut, auto step, int of_run, int feature) {
            this->template fill<decltype(step)::SIZE, decltype(cut)::SIZE>(to, of_run, feature);
        });
    }
};

template <class Steps>
struct Slabs {
    using Schedule = ::Schedule<Steps>;
    static constexpr int SLABS = Schedule::slabs(), MOST = Schedule::most();
    Storage *shared;
    Schedule schedule;
    CopyRing<STAGES> ring;
    // The next slab to be filled, and how many are still to be.
    int slab = 0;
    u32 left = 0;

    // `rounds`: how often all slabs are read.
    __device__ __forceinline__ void start(u32 rounds) {
        if constexpr (STAGES == 0) {
            for (int i = 0; i < SLABS; ++i) schedule.fill_slab(shared + Schedule::place_of(i), i);
            commit_copies();
        } else {
            left = rounds * SLABS;
            for (int i = 0; i < STAGES - 1; ++i) fill_next();
        }
    }

    // With all slabs in shared memory: waits for them.
    __device__ __forceinline__ void finish() {
        if constexpr (STAGES == 0) {
            wait_copies<0>();
            __syncthreads();
        }
    }

    __device__ __forceinline__ void fill_next() {
        if (left > 0) {
            schedule.fill_slab(shared + ring.to_fill * MOST, slab);
            slab = slab + 1 == SLABS ? 0 : slab + 1;
            left -= 1;
        }
        ring.filled();
    }

    // The slab that lies at `at` if all stay. All threads of the block ask for the same slabs in
    // the order of the schedule.
    __device__ __forceinline__ const Storage *next(int at) {
        if constexpr (STAGES == 0) return shared + at;
        ring.wait();
        // The address comes last: before the copies it takes a register over them, which spilled on
        // sm_75.
        const int use = ring.to_use;
        ring.used();
        fill_next();
        return shared + use * MOST;
    }
};
