// Pipelines: places in shared memory that are filled ahead of their use, over and over. This file alone
// knows stages, phases and parities. Uses are numbered from 0: use `n` has the place `n % STAGES`, and is
// the turn `n / STAGES` of that place.
#include "tile/ptx/async_copy.cuh"
#include "tile/ptx/barrier.cuh"

// What happens to a place in a turn, unless a kernel names more.
enum { FULL, EMPTY };

// Places that copies with barriers fill (TMA). Each has a barrier for each of EVENTS events, which
// completes one phase a turn. Parity tells a turn from the next only: whoever waits for a turn must know
// that the turn before is over, by having waited for it or for something after it.
template <int STAGES, int EVENTS = 2>
struct Barriers {
    static constexpr int BYTES = 8 * EVENTS * STAGES;
    u32 at;

    __device__ __forceinline__ u32 of(int event, u32 use) const {
        return at + 8 * (event * STAGES + use % STAGES);
    }
    // By one thread, before any use: so many arrivals complete the event in every place.
    __device__ __forceinline__ void init(int event, u32 arrivals) const {
        for (int stage = 0; stage < STAGES; ++stage) barrier_init(of(event, stage), arrivals);
    }
    __device__ __forceinline__ void wait(int event, u32 use) const {
        barrier_wait(of(event, use), use / STAGES & 1);
    }
    // Until the event has happened in the turn before, if there was one: the place is free for `use`.
    __device__ __forceinline__ void wait_before(int event, u32 use) const {
        if (use >= STAGES) barrier_wait(of(event, use), (use / STAGES & 1) ^ 1);
    }
    __device__ __forceinline__ void arrive(int event, u32 use) const { barrier_arrive(of(event, use)); }
};

// The places themselves, PLACE_BYTES each, with their barriers.
template <int STAGES, int PLACE_BYTES, int EVENTS = 2>
struct Ring : Barriers<STAGES, EVENTS> {
    using Base = Barriers<STAGES, EVENTS>;
    u32 places;

    __device__ __forceinline__ Ring(u32 places, u32 barriers) : Base{barriers}, places(places) {}
    __device__ __forceinline__ u32 place(u32 use) const { return places + use % STAGES * PLACE_BYTES; }
    __device__ __forceinline__ u32 full(u32 use) const { return this->of(FULL, use); }
    __device__ __forceinline__ u32 empty(u32 use) const { return this->of(EMPTY, use); }
    // Waits until the place is free, and announces so many bytes that are about to come: the copies name
    // the barrier `full(use)`.
    __device__ __forceinline__ u32 fill(u32 use, u32 bytes) const {
        this->wait_before(EMPTY, use);
        barrier_expect(full(use), bytes);
        return place(use);
    }
    __device__ __forceinline__ void wait_full(u32 use) const { this->wait(FULL, use); }
    __device__ __forceinline__ void leave(u32 use) const { this->arrive(EMPTY, use); }
};

// Places that all threads of a block fill and use together (cp.async): STAGES - 1 fills are under way
// before the first use. A fill is any copies, then `filled`, which also counts a fill of nothing.
template <int STAGES>
struct CopyRing {
    // The stages that are filled and used next.
    int to_fill = 0, to_use = 0;

    __device__ __forceinline__ static int after(int stage) { return stage + 1 == STAGES ? 0 : stage + 1; }
    __device__ __forceinline__ static int before(int stage) { return stage == 0 ? STAGES - 1 : stage - 1; }

    __device__ __forceinline__ void filled() {
        commit_copies();
        to_fill = after(to_fill);
    }
    // Until `to_use` is full for all threads, and the stage used before is free for the next fill.
    __device__ __forceinline__ void wait() const {
        wait_copies<(STAGES > 1 ? STAGES - 2 : 0)>();
        __syncthreads();
    }
    __device__ __forceinline__ void used() { to_use = after(to_use); }
};
