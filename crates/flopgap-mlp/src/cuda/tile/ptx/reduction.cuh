// Additions to global memory by any number of threads, in whatever order they come: several
// neighbors at once where the architecture has that (`to` at a multiple of their size).

__device__ __forceinline__ void add_atomically(float *to, float x) { atomicAdd(to, x); }

__device__ __forceinline__ void add_atomically(float *to, float x, float y) {
#if ARCHITECTURE >= 900
    asm volatile("red.relaxed.gpu.global.add.v2.f32 [%0], {%1, %2};" ::"l"(to), "f"(x), "f"(y) : "memory");
#else
    atomicAdd(to, x), atomicAdd(to + 1, y);
#endif
}

__device__ __forceinline__ void add_atomically(float *to, float x, float y, float z, float w) {
#if ARCHITECTURE >= 900
    asm volatile("red.relaxed.gpu.global.add.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(to), "f"(x), "f"(y), "f"(z), "f"(w)
                 : "memory");
#else
    add_atomically(to, x, y), add_atomically(to + 2, z, w);
#endif
}
