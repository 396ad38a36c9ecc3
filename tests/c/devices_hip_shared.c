// The program devices_shared.c, with memory that the runtime of HIP copies: it has handles for its
// usual memory only.
// run: 2
// each: kinds many
// timeout: 120
// one machine: handles of memory are valid on one machine
// preload: libamdhip64.so.6.c
#define HANDLES_OF_HIP
#include "devices_shared.c"
