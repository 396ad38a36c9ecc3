// The program devices_windows.c, with memory that the runtime of HIP copies.
// run: 2
// timeout: 120
// one machine: handles of memory are valid on one machine
// preload: libamdhip64.so.6.c
#define HANDLES_OF_HIP
#include "devices_windows.c"
