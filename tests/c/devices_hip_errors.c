// The program devices_errors.c, with the functions of the runtime of HIP.
// run: 2
// each: memory
// timeout: 120
// one machine: the functions for handles are called on one machine only
// preload: libamdhip64.so.6.c
#define ERROR_PREFIX "hipError"
static const char *const of_memory[] = {
    "hipDrvPointerGetAttributes", "hipGetDevice", "hipSetDevice", "hipStreamCreateWithFlags", "hipStreamSynchronize",
    "hipEventCreateWithFlags", "hipEventRecord", "hipEventQuery", "hipEventSynchronize", "hipEventDestroy",
    "hipMemcpyAsync", "hipMemcpy2DAsync", "hipMemGetAddressRange", "hipIpcGetMemHandle", "hipIpcOpenMemHandle",
    "hipIpcCloseMemHandle", "hipHostRegister", "hipHostUnregister", 0,
};
#include "devices_errors.c"
