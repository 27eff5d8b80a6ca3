// Reads a buffer that is larger than the second-level cache, so that nothing else stays there. It
// is only read: lines that were written would have to be written back while the next kernel is
// timed.
extern "C" __global__ void evict_cache(const uint4 *buffer, unsigned long long length, unsigned *never) {
    unsigned all = 0;
    const unsigned long long step = (unsigned long long)gridDim.x * blockDim.x;
    for (unsigned long long i = (unsigned long long)blockIdx.x * blockDim.x + threadIdx.x; i < length; i += step) {
        const uint4 four = buffer[i];
        all |= four.x | four.y | four.z | four.w;
    }
    // The buffer is zero: this is never true, but the compiler does not know.
    if (all) *never = all;
}
