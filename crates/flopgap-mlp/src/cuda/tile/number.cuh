// Numbers as a network stores them (STORAGE: 32, or 16 bits that are only ever widened and
// narrowed), alone, in pairs, and 16 bytes at a time.
#include "tile/ptx/convert.cuh"

#if STORAGE == STORAGE_F32
typedef float Storage;
__device__ __forceinline__ float widen(Storage x) { return x; }
__device__ __forceinline__ Storage narrow(float x) { return x; }
#else
struct Storage {
    u16 bits;
};
#if STORAGE == STORAGE_F16
__device__ __forceinline__ float widen(Storage x) { return widen_f16(x.bits); }
__device__ __forceinline__ Storage narrow(float x) { return Storage{narrow_f16(x)}; }
__device__ __forceinline__ u32 narrow2(float low, float high) { return narrow_pair<false>(low, high); }
#else
__device__ __forceinline__ float widen(Storage x) { return widen_bf16(x.bits); }
__device__ __forceinline__ Storage narrow(float x) { return Storage{narrow_bf16(x)}; }
__device__ __forceinline__ u32 narrow2(float low, float high) { return narrow_pair<true>(low, high); }
#endif
__device__ __forceinline__ float widen_low(u32 pair) { return widen(Storage{(u16)pair}); }
__device__ __forceinline__ float widen_high(u32 pair) { return widen(Storage{(u16)(pair >> 16)}); }
#endif

// A number that is known when it is compiled, for functions that are given one.
template <int VALUE>
struct Known {
    __device__ constexpr operator int() const { return VALUE; }
};

// A number as it comes back from where it is stored.
__device__ __forceinline__ float stored(float x) { return widen(narrow(x)); }

// Two neighbors.
__device__ __forceinline__ void load2(const Storage *from, float &first, float &second) {
#if STORAGE == STORAGE_F32
    const float2 pair = *reinterpret_cast<const float2 *>(from);
    first = pair.x, second = pair.y;
#else
    const u32 pair = *reinterpret_cast<const u32 *>(from);
    first = widen_low(pair), second = widen_high(pair);
#endif
}

__device__ __forceinline__ void store2(Storage *to, float first, float second) {
#if STORAGE == STORAGE_F32
    *reinterpret_cast<float2 *>(to) = make_float2(first, second);
#else
    *reinterpret_cast<u32 *>(to) = narrow2(first, second);
#endif
}

// Four neighbors.
__device__ __forceinline__ void load4(const Storage *from, float4 &v) {
#if STORAGE == STORAGE_F32
    v = *reinterpret_cast<const float4 *>(from);
#else
    const uint2 pair = *reinterpret_cast<const uint2 *>(from);
    v = make_float4(widen_low(pair.x), widen_high(pair.x), widen_low(pair.y), widen_high(pair.y));
#endif
}

__device__ __forceinline__ void store4(Storage *to, float4 v) {
#if STORAGE == STORAGE_F32
    *reinterpret_cast<float4 *>(to) = v;
#else
    *reinterpret_cast<uint2 *>(to) = make_uint2(narrow2(v.x, v.y), narrow2(v.z, v.w));
#endif
}

// Numbers in 16 bytes.
constexpr int UNIT = 16 / (int)sizeof(Storage);

struct Numbers {
    float value[UNIT];
    __device__ __forceinline__ explicit Numbers(uint4 v) {
#if STORAGE == STORAGE_F32
        value[0] = __uint_as_float(v.x), value[1] = __uint_as_float(v.y);
        value[2] = __uint_as_float(v.z), value[3] = __uint_as_float(v.w);
#else
        value[0] = widen_low(v.x), value[1] = widen_high(v.x), value[2] = widen_low(v.y), value[3] = widen_high(v.y);
        value[4] = widen_low(v.z), value[5] = widen_high(v.z), value[6] = widen_low(v.w), value[7] = widen_high(v.w);
#endif
    }
    __device__ __forceinline__ uint4 stored() const {
#if STORAGE == STORAGE_F32
        return make_uint4(__float_as_uint(value[0]), __float_as_uint(value[1]), __float_as_uint(value[2]),
                          __float_as_uint(value[3]));
#else
        return make_uint4(narrow2(value[0], value[1]), narrow2(value[2], value[3]), narrow2(value[4], value[5]),
                          narrow2(value[6], value[7]));
#endif
    }
};
