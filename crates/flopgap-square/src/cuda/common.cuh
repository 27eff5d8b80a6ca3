// What all kernels share: the sigmoid and its gradient, in 32-bit floats; loads that stay where
// they are; overlapping launches.

typedef unsigned long long u64;

__device__ __forceinline__ float sigmoid(float z) { return 1.0f / (1.0f + expf(-z)); }
// Through the sigmoid back, from what it gave. The same where the gradient is 1.
__device__ __forceinline__ float backward(float gradient, float y) { return gradient * (1.0f - y) * y; }
__device__ __forceinline__ float backward_of_sum(float y) { return (1.0f - y) * y; }

__device__ __forceinline__ float4 add(float4 a, float4 b) { return make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w); }

// Loads that stay where they are written. The compiler moves a plain load of the next stage behind
// the arithmetic of this one, and the whole latency of the memory is then waited for in every
// stage.
__device__ __forceinline__ float4 load4_now(const float *at, bool inside) {
    float4 v;
    asm volatile(
        "{\n.reg .pred inside;\nsetp.ne.u32 inside, %5, 0;\n"
        "mov.f32 %0, 0f00000000;\nmov.f32 %1, 0f00000000;\nmov.f32 %2, 0f00000000;\nmov.f32 %3, 0f00000000;\n"
        "@inside ld.global.v4.f32 {%0, %1, %2, %3}, [%4];\n}"
        : "=&f"(v.x), "=&f"(v.y), "=&f"(v.z), "=&f"(v.w)
        : "l"(at), "r"((unsigned)inside)
        : "memory");
    return v;
}

__device__ __forceinline__ float load_now(const float *at, bool inside) {
    float v;
    asm volatile(
        "{\n.reg .pred inside;\nsetp.ne.u32 inside, %2, 0;\nmov.f32 %0, 0f00000000;\n@inside ld.global.f32 %0, [%1];\n}"
        : "=&f"(v)
        : "l"(at), "r"((unsigned)inside)
        : "memory");
    return v;
}

// Programmatic dependent launch, where the host asked for it; nothing otherwise.
__device__ __forceinline__ void allow_next() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

__device__ __forceinline__ void wait_for_previous() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
