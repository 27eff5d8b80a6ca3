// The floor of a recorder on CUPTI: the kinds and functions that flopgap records, into buffers that
// are thrown away. Built as a shared library and named by CUDA_INJECTION64_PATH.

#include <cupti.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define SIZE (2 << 20)
#define COUNT(of) (sizeof(of) / sizeof *(of))

// As SILENT in crates/flopgap-record/src/format.rs.
static const char *silent[] = {
    "cuCtxGet", "cuDeviceGet", "cuDevicePrimaryCtxGetState", "cuDeviceTotalMem", "cuDriverGetVersion",
    "cuFuncGetAttribute", "cuOccupancyMaxActiveBlocks", "cuPointerGetAttribute", "cudaDeviceGetAttribute",
    "cudaDeviceGetStreamPriorityRange", "cudaDriverGetVersion", "cudaFuncGetAttributes",
    "cudaFuncSetAttribute", "cudaGetDevice_", "cudaGetDeviceCount", "cudaGetLastError",
    "cudaGetSymbolAddress", "cudaOccupancyMaxActiveBlocks", "cudaPeekAtLastError",
    "cudaPointerGetAttributes", "cudaRuntimeGetVersion", "cuKernelGetName",
};

static void CUPTIAPI requested(uint8_t **buffer, size_t *size, size_t *records) {
    *buffer = calloc(1, SIZE);
    *size = SIZE;
    *records = 0;
}

static void CUPTIAPI completed(CUcontext context, uint32_t stream, uint8_t *buffer, size_t size, size_t valid) {
    free(buffer);
}

static void quiet(CUpti_CallbackDomain domain, CUptiResult (*enable)(CUpti_CallbackId, uint8_t)) {
    for (uint32_t number = 1; number < 1500; number++) {
        const char *name = NULL;
        if (cuptiGetCallbackName(domain, number, &name) != CUPTI_SUCCESS || !name) continue;
        for (size_t i = 0; i < COUNT(silent); i++) {
            if (!strncmp(name, silent[i], strlen(silent[i]))) enable(number, 0);
        }
    }
}

int InitializeInjection(void) {
    CUpti_ActivityKind kinds[] = {
        CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, CUPTI_ACTIVITY_KIND_MEMCPY, CUPTI_ACTIVITY_KIND_MEMCPY2,
        CUPTI_ACTIVITY_KIND_MEMSET, CUPTI_ACTIVITY_KIND_RUNTIME, CUPTI_ACTIVITY_KIND_DRIVER,
        CUPTI_ACTIVITY_KIND_SYNCHRONIZATION, CUPTI_ACTIVITY_KIND_OVERHEAD,
    };
    size_t size = 1;
    uint8_t yes = 1;
    cuptiActivitySetAttribute(CUPTI_ACTIVITY_ATTR_ZEROED_OUT_ACTIVITY_BUFFER, &size, &yes);
    cuptiActivityRegisterCallbacks(requested, completed);
    for (size_t i = 0; i < COUNT(kinds); i++) cuptiActivityEnable(kinds[i]);
    if (getenv("FLOOR_WHOLE_GRAPHS")) cuptiActivityEnable(CUPTI_ACTIVITY_KIND_GRAPH_TRACE);
    quiet(CUPTI_CB_DOMAIN_RUNTIME_API, cuptiActivityEnableRuntimeApi);
    quiet(CUPTI_CB_DOMAIN_DRIVER_API, cuptiActivityEnableDriverApi);
    return 1;
}
