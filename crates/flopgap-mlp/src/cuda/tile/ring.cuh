// Pipelines: places in shared memory that are filled ahead of their use, over and over. This file
// alone knows stages, phases and parities. Uses are numbered from 0: use `n` has the place `n %
// STAGES`, and is the turn `n / STAGES` of that place.
#include "tile/ptx/async_copy.cuh"
#include "tile/ptx/barrier.cuh"

// What happens to a place in a turn, unless a kernel names more.
enum { FULL, EMPTY };

// A use of a ring of STAGES places, from its number or from the place and its turn.
template <int STAGES>
struct Use {
    u32 stage, turn;
    bool again;  // the place was used before
    __device__ __forceinline__ Use(u32 number)
        : stage(number % STAGES), turn(number / STAGES), again(number >= STAGES) {}
    __device__ __forceinline__ Use(u32 stage, u32 turn) : stage(stage), turn(turn), again(turn > 0) {}
};

// A barrier for each of EVENTS events in every place, which completes one phase a turn. Parity
// distinguishes a turn from the next only: a thread that waits for a turn must know that the turn
// before is over, by having waited for it or for something after it.
template <int STAGES, int EVENTS = 2>
struct Barriers {
    static constexpr int BYTES = 8 * EVENTS * STAGES;
    typedef ::Use<STAGES> Use;
    u32 at;

    __device__ __forceinline__ u32 of(int event, Use use) const { return at + 8 * (event * STAGES + use.stage); }
    // By one thread, before any use: so many arrivals complete the event in every place.
    __device__ __forceinline__ void init(int event, u32 arrivals) const {
        for (u32 stage = 0; stage < STAGES; ++stage) barrier_init(of(event, Use(stage, 0)), arrivals);
    }
    __device__ __forceinline__ void wait(int event, Use use) const { barrier_wait(of(event, use), use.turn & 1); }
    // Until the event has happened in the turn before, if there was one: the place is free for
    // `use`.
    __device__ __forceinline__ void wait_before(int event, Use use) const {
        if (use.again) barrier_wait(of(event, use), (use.turn & 1) ^ 1);
    }
    __device__ __forceinline__ void arrive(int event, Use use) const { barrier_arrive(of(event, use)); }
};

// The places themselves, PLACE_BYTES each, with their barriers: filled by TMA.
template <int STAGES, int PLACE_BYTES, int EVENTS = 2>
struct Ring : Barriers<STAGES, EVENTS> {
    static constexpr int PLACES_BYTES = STAGES * PLACE_BYTES;
    typedef ::Use<STAGES> Use;
    u32 places;

    __device__ __forceinline__ Ring(u32 places, u32 barriers) : Barriers<STAGES, EVENTS>{barriers}, places(places) {}
    __device__ __forceinline__ static u32 offset(Use use) { return use.stage * PLACE_BYTES; }
    __device__ __forceinline__ u32 place(Use use) const { return places + offset(use); }
    __device__ __forceinline__ u32 full(Use use) const { return this->of(FULL, use); }
    __device__ __forceinline__ u32 empty(Use use) const { return this->of(EMPTY, use); }
    // Waits until the place is free, and announces the bytes that are about to come: the copies
    // name the barrier `full(use)`.
    __device__ __forceinline__ u32 fill(Use use, u32 bytes = PLACE_BYTES) const {
        this->wait_before(EMPTY, use);
        barrier_expect(full(use), bytes);
        return place(use);
    }
    __device__ __forceinline__ void wait_full(Use use) const { this->wait(FULL, use); }
    __device__ __forceinline__ void leave(Use use) const { this->arrive(EMPTY, use); }
};

// Places that all threads of a block fill and use together (cp.async): STAGES - 1 fills are under
// way before the first use. A fill is any copies, then `filled`, which also counts a fill of
// nothing. ASYNC: whether copies are in the background; others are done when all threads have met.
template <int STAGES, bool ASYNC = true>
struct CopyRing {
    // The stages that are filled and used next.
    int to_fill = 0, to_use = 0;

    __device__ __forceinline__ static int after(int stage) { return stage + 1 == STAGES ? 0 : stage + 1; }
    __device__ __forceinline__ static int before(int stage) { return stage == 0 ? STAGES - 1 : stage - 1; }

    __device__ __forceinline__ void filled() {
        if (ASYNC) commit_copies();
        to_fill = after(to_fill);
    }
    // Until `to_use` is full for all threads, and the stage used before is free for the next fill.
    __device__ __forceinline__ void wait() const {
        if (ASYNC) wait_copies<(STAGES > 1 ? STAGES - 2 : 0)>();
        __syncthreads();
    }
    __device__ __forceinline__ void used() { to_use = after(to_use); }
};
