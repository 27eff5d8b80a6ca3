// The ring of slabs, and the products of a layer from it. Inputs go through it on the way forward
// alone: on the way back, what the chain begins with lies where values do.
#include "coopmat/simt/terms/transpose.cu"

constexpr int STAGE_INPUTS = BACKWARD ? 0 : SLAB * PITCH, STAGE = STAGE_INPUTS + (RESIDENT ? 0 : SLAB * widest_pass<0>());
constexpr int RESIDENT_AT = STAGES * STAGE, AFTER_RING = RESIDENT_AT + (RESIDENT ? arranged_before<LAYERS>() : 0);

// Slabs of the first layers that go through the ring.
template <int COUNT>
__device__ constexpr int streamed() {
    return !RESIDENT ? slabs_before<COUNT>() : BACKWARD ? 0 : slabs_before<1>();
}

// Pieces of four terms of a slab that a thread brings of the inputs.
constexpr int FOURS = SLAB / 4, PIECES = (SAMPLES * FOURS + THREADS - 1) / THREADS;

// What a block works on.
struct Pass {
    const Storage *x;
    float *shared;
    u32 batch;
    // Slabs of a tile of samples that go through the ring.
    int slabs;
    // Inputs on their way.
    float4 held[BACKWARD ? 1 : PIECES];
};

// The ring, and the slab that is on its way in registers, if it has inputs.
struct HeldSlabs : Slabs {
    bool held = false;
    int held_slab = 0;
    u32 held_tile = 0;
};

template <int COUNT>
__device__ __forceinline__ void copy_all(float *to, const float *from) {
    static_assert(COUNT % 4 == 0, "16 bytes at a time");
#pragma unroll
    for (int i = 0; i < (COUNT / 4 + THREADS - 1) / THREADS; ++i) {
        const int at = (threadIdx.x + i * THREADS) * 4;
        if (COUNT / 4 % THREADS == 0 || at < COUNT) copy4(to + at, from + at);
    }
}

// The weights of a slab, as they were arranged.
__device__ __forceinline__ void copy_weights(float *to, int slab) {
    with_step_of(slab, [&](auto layer, int own) {
        constexpr int COUNT = SLAB * Shape<layer>::WIDTH;
        copy_all<COUNT>(to, arranged + arranged_before<layer>() + own * COUNT);
    });
}

// Begins to fill the next stage: weights in the background, inputs into registers.
__device__ __forceinline__ void fill(Pass &pass, HeldSlabs &ring) {
    const bool inside = (u64)ring.tile * SAMPLES < pass.batch;
    ring.held = !BACKWARD && inside && ring.slab < slabs_before<1>();
    if (inside) {
        if (!RESIDENT) copy_weights(pass.shared + ring.to_fill * STAGE + STAGE_INPUTS, ring.slab);
        if (!BACKWARD && ring.held) {
            ring.held_slab = ring.slab, ring.held_tile = ring.tile;
            const int term = ring.slab % Shape<0>::SLABS * SLAB;
#pragma unroll
            for (int piece = 0; piece < PIECES; ++piece) {
                const int index = threadIdx.x + piece * THREADS, row = index / FOURS, k = term + index % FOURS * 4;
                const u64 sample = (u64)ring.tile * SAMPLES + row;
                if ((SAMPLES * FOURS % THREADS == 0 || row < SAMPLES) && sample < pass.batch && (Shape<0>::K % SLAB == 0 || k < Shape<0>::K))
                    load4(pass.x + sample * INPUTS + k, pass.held[piece]);
            }
        }
    }
    ring.next(pass.slabs);
}

// What is held goes to the stage that was filled last.
__device__ __forceinline__ void put_held(Pass &pass, HeldSlabs &ring) {
    if (BACKWARD || !ring.held) return;
    float *const stage = pass.shared + ring.before(ring.to_fill) * STAGE;
    const int term = ring.held_slab % Shape<0>::SLABS * SLAB;
#pragma unroll
    for (int piece = 0; piece < PIECES; ++piece) {
        const int index = threadIdx.x + piece * THREADS, row = index / FOURS, own = index % FOURS * 4;
        const u64 sample = (u64)ring.held_tile * SAMPLES + row;
        if ((SAMPLES * FOURS % THREADS == 0 || row < SAMPLES) && sample < pass.batch && (Shape<0>::K % SLAB == 0 || term + own < Shape<0>::K)) {
            const float4 v = pass.held[piece];
            float *const to = stage + own * PITCH + row;
            to[0] = v.x, to[PITCH] = v.y, to[2 * PITCH] = v.z, to[3 * PITCH] = v.w;
        }
    }
    ring.held = false;
}

// The next stage, ready for all threads; the one used last is filled again.
__device__ __forceinline__ const float *next_stage(Pass &pass, HeldSlabs &ring) {
    put_held(pass, ring);
    ring.wait();
    fill(pass, ring);
    const float *const stage = pass.shared + ring.to_use * STAGE;
    ring.used();
    return stage;
}

__device__ __forceinline__ void begin_ring(Pass &pass, HeldSlabs &ring) {
    if (RESIDENT) copy_all<arranged_before<LAYERS>()>(pass.shared + RESIDENT_AT, arranged);
    if constexpr (RESIDENT && BACKWARD) {
        if (BACKGROUND) commit_copies(), wait_copies<0>();
    } else {
#pragma unroll 1
        for (int stage = 0; stage + 1 < STAGES; ++stage) {
            put_held(pass, ring);
            fill(pass, ring);
        }
    }
}

// COUNT numbers, AT_ONCE neighbors at a time, STRIDE apart.
template <int COUNT, int AT_ONCE, int STRIDE>
__device__ __forceinline__ void read(float (&to)[COUNT], const float *from) {
#pragma unroll
    for (int i = 0; i < COUNT; i += AT_ONCE) {
        const float *const place = from + i / AT_ONCE * STRIDE;
        if constexpr (AT_ONCE == 4) {
            const float4 v = *reinterpret_cast<const float4 *>(place);
            to[i] = v.x, to[i + 1] = v.y, to[i + 2] = v.z, to[i + 3] = v.w;
        } else if constexpr (AT_ONCE == 2) {
            const float2 v = *reinterpret_cast<const float2 *>(place);
            to[i] = v.x, to[i + 1] = v.y;
        } else to[i] = *place;
    }
}

// The sums of one output to a column of values.
template <typename S>
__device__ __forceinline__ void write_column(float *to, const float (&sums)[S::ROWS][S::COLUMNS], int j) {
#pragma unroll
    for (int i = 0; i < S::ROWS; i += S::DOWN_AT_ONCE) {
        if constexpr (S::DOWN_AT_ONCE == 4)
            *reinterpret_cast<float4 *>(to + S::row(i)) = make_float4(sums[i][j], sums[i + 1][j], sums[i + 2][j], sums[i + 3][j]);
        else if constexpr (S::DOWN_AT_ONCE == 2) *reinterpret_cast<float2 *>(to + S::row(i)) = make_float2(sums[i][j], sums[i + 1][j]);
        else to[S::row(i)] = sums[i][j];
    }
}

// A thread's numbers of a layer to rows in global memory.
template <int LAYER>
__device__ __forceinline__ void put(Storage *to, u64 first, u32 batch, int output, const float (&numbers)[Shape<LAYER>::ROWS][Shape<LAYER>::COLUMNS]) {
    using S = Shape<LAYER>;
    const u64 sample = first + S::first_row();
    to += sample * S::N + output;
#pragma unroll
    for (int i = 0; i < S::ROWS; ++i)
        if (sample + S::row(i) < batch) {
#pragma unroll
            for (int j = 0; j < S::COLUMNS; ++j)
                if (S::N % S::WIDTH == 0 || output + j * LANES_ACROSS < S::N) to[S::row(i) * S::N + j * LANES_ACROSS] = narrow(numbers[i][j]);
        }
}

// The sums of a pass of a layer, whose stage or values below are `from` on.
template <int LAYER>
__device__ __forceinline__ void product(Pass &pass, HeldSlabs &ring, int number, float (&sums)[Shape<LAYER>::ROWS][Shape<LAYER>::COLUMNS]) {
    using S = Shape<LAYER>;
    constexpr int GROUPS = S::K / GROUP, GROUPS_OF_SLAB = SLAB / GROUP;
    constexpr bool INPUTS_FROM_RING = LAYER == 0 && !BACKWARD, FROM_RING = INPUTS_FROM_RING || !RESIDENT;
    const int row = S::first_row(), weight = S::first_weight();
    float a[2][S::ROWS], b[2][S::COLUMNS];
    const float *left = pass.shared + values_at(LAYER - 1) + row;
    const float *right = pass.shared + RESIDENT_AT + arranged_before<LAYER>() + number * S::SLABS * SLAB * S::WIDTH + weight;
    const auto begin_slab = [&] {
        const float *const stage = next_stage(pass, ring);
        if (INPUTS_FROM_RING) left = stage + row;
        if (!RESIDENT) right = stage + STAGE_INPUTS + weight;
    };
    const auto read_both = [&](int term, int buffer) {
        read<S::ROWS, S::DOWN_AT_ONCE, LANES_DOWN * S::DOWN_AT_ONCE>(a[buffer], left + term * PITCH);
        read<S::COLUMNS, S::ACROSS_AT_ONCE, LANES_ACROSS * S::ACROSS_AT_ONCE>(b[buffer], right + term * S::WIDTH);
    };
    if (FROM_RING) begin_slab();
    read_both(0, 0);
#pragma unroll 1
    for (int group = 0; group < GROUPS; ++group) {
#pragma unroll
        for (int term = 0; term < GROUP; ++term) {
            // The factors of the next term are read while this one's are multiplied, also from slab
            // to slab.
            if (term + 1 < GROUP) read_both(term + 1, (term + 1) % 2);
            else if (group + 1 < GROUPS) {
                left += GROUP * PITCH, right += GROUP * S::WIDTH;
                if (FROM_RING && (group + 1) % GROUPS_OF_SLAB == 0) begin_slab();
                read_both(0, 0);
            }
            multiply(a[term % 2], b[term % 2], sums);
        }
    }
}
