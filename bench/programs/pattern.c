/* Test data: a library that corrupts or misplaces bytes must not get a figure. */
#define _POSIX_C_SOURCE 200112L
#include "bench.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

void *buffer_new(const struct job *job, size_t bytes)
{
    void *buffer = NULL;
    if (posix_memalign(&buffer, 4096, bytes ? bytes : 1) != 0)
        job_fail(job, "no memory for a buffer of %zu bytes; give smaller --sizes", bytes);
    memset(buffer, 0, bytes ? bytes : 1);
    return buffer;
}

/* Differs between neighbours, between blocks of 256 bytes, pages, and messages. */
static unsigned char pattern_byte(size_t index, unsigned seed)
{
    uint32_t mixed = (uint32_t)index * 2654435761u + seed * 40503u;
    return (unsigned char)(mixed >> 24 ^ mixed >> 11);
}

void pattern_fill(void *buffer, size_t bytes, unsigned seed)
{
    unsigned char *cursor = buffer;
    for (size_t i = 0; i < bytes; i++)
        cursor[i] = pattern_byte(i, seed);
}

void pattern_expect_part(const struct job *job, const void *buffer, size_t first, size_t bytes,
                         unsigned seed)
{
    const unsigned char *cursor = buffer;
    for (size_t i = first; i < first + bytes; i++) {
        if (cursor[i] != pattern_byte(i, seed))
            job_fail(job, "wrong data: byte %zu is 0x%02x, expected 0x%02x", i, cursor[i],
                     pattern_byte(i, seed));
    }
}

void pattern_expect(const struct job *job, const void *buffer, size_t bytes, unsigned seed)
{
    pattern_expect_part(job, buffer, 0, bytes, seed);
}

void expect_constant(const struct job *job, const void *buffer, size_t first, size_t bytes,
                     unsigned char value)
{
    const unsigned char *cursor = buffer;
    for (size_t i = first; i < first + bytes; i++) {
        if (cursor[i] != value)
            job_fail(job, "byte %zu lies in a gap of the receive buffer, yet was overwritten", i);
    }
}
