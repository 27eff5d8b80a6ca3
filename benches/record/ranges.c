// Pushes and pops a range a million times, and prints the nanoseconds that a pair took.

#include <nvtx3/nvToolsExt.h>
#include <stdio.h>
#include <time.h>

int main(void) {
    struct timespec begin, end;
    nvtxRangePushA("first");
    nvtxRangePop();
    clock_gettime(CLOCK_MONOTONIC, &begin);
    for (int i = 0; i < 1000000; i++) {
        nvtxRangePushA("transformer block");
        nvtxRangePop();
    }
    clock_gettime(CLOCK_MONOTONIC, &end);
    printf("%.1f ns a pair\n", (end.tv_sec - begin.tv_sec) * 1e3 + (end.tv_nsec - begin.tv_nsec) / 1e6);
    return 0;
}
