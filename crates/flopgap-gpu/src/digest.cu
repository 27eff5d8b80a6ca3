// A 64-bit number of an array: the sum over its elements of a hash of their place and bits, which
// does not depend on the order of the sum. Elements have 1, 2, 4 or 8 bytes. As `digest_of` in
// `digest.rs`.

typedef unsigned long long u64;

__device__ u64 mixed(u64 z) {
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ z >> 27) * 0x94d049bb133111ebull;
    return z ^ z >> 31;
}

template <class Element>
__device__ void digest(const Element *elements, u64 length, u64 *sum) {
    u64 own = 0;
    const u64 step = (u64)gridDim.x * blockDim.x;
    for (u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x; i < length; i += step)
        own += mixed(mixed(i + 0x9e3779b97f4a7c15ull) + elements[i]);
    atomicAdd(sum, own);
}

extern "C" __global__ void digest_1(const unsigned char *elements, u64 length, u64 *sum) { digest(elements, length, sum); }
extern "C" __global__ void digest_2(const unsigned short *elements, u64 length, u64 *sum) { digest(elements, length, sum); }
extern "C" __global__ void digest_4(const unsigned *elements, u64 length, u64 *sum) { digest(elements, length, sum); }
extern "C" __global__ void digest_8(const u64 *elements, u64 length, u64 *sum) { digest(elements, length, sum); }
