// Numbers of 16 bits, as their bits, and of 32.

typedef unsigned int u32;
typedef unsigned long long u64;
typedef unsigned short u16;

__device__ __forceinline__ float widen_f16(u16 bits) {
    float wide;
    asm("cvt.f32.f16 %0, %1;" : "=f"(wide) : "h"(bits));
    return wide;
}

__device__ __forceinline__ float widen_bf16(u16 bits) { return __uint_as_float((u32)bits << 16); }

// To nearest, ties to even; NaN stays NaN.
__device__ __forceinline__ u16 narrow_f16(float x) {
    u16 bits;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(x));
    return bits;
}

__device__ __forceinline__ u16 narrow_bf16(float x) {
#if ARCHITECTURE >= 800
    u16 narrow;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(narrow) : "f"(x));
    return narrow;
#else
    const u32 bits = __float_as_uint(x);
    return x != x ? 0x7fff : (u16)((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
#endif
}

// Two of them in one register, the first in the low half: what the tensor cores take.
template <bool BF16>
__device__ __forceinline__ u32 narrow_pair(float low, float high) {
#if ARCHITECTURE >= 800
    u32 pair;
    if constexpr (BF16)
        asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
    else
        asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
    return pair;
#else
    return (u32)(BF16 ? narrow_bf16(low) : narrow_f16(low)) | (u32)(BF16 ? narrow_bf16(high) : narrow_f16(high)) << 16;
#endif
}
