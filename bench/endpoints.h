// What the benchmarks of endpoints and of other libraries share.
#ifndef ENDPOINTS_H
#define ENDPOINTS_H

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { BYTES = 64, CONNECTIONS_MAX = 4096 };

#define SURE(condition)                                                                            \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "line %d: %s is false (%s)\n", __LINE__, #condition, strerror(errno));  \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec / 1e9;
}

// Writes a text to a file that appears complete.
static void publish(const char *file, const char *text) {
    char draft[4096];
    snprintf(draft, sizeof draft, "%s.draft", file);
    FILE *out = fopen(draft, "w");
    SURE(out && fputs(text, out) >= 0 && fclose(out) == 0 && rename(draft, file) == 0);
}

#endif
