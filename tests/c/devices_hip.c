// The program devices.c, with memory that the runtime of HIP copies.
// run: 3
// each: messages collectives windows files packing
// timeout: 60
// preload: libamdhip64.so.6.c
#include "devices.c"
