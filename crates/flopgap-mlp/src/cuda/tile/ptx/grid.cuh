// Kernels one after the other, which overlap from Hopper on where they are launched so.

// What was launched before has ended: nothing that others write or read is touched in front of
// this.
__device__ __forceinline__ void wait_for_kernel_before() {
#if ARCHITECTURE >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// The next kernel may come to the multiprocessors that this one leaves free, or that its blocks
// leave.
__device__ __forceinline__ void let_next_kernel_begin() {
#if ARCHITECTURE >= 900
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

// The one, then the other.
__device__ __forceinline__ void wait_and_let_next_begin() {
    wait_for_kernel_before();
    let_next_kernel_begin();
}
