/* What the blocking collectives that are measured have in common; see collectives.c. */
#ifndef COMBRAY_BENCH_COLLECTIVE_H
#define COMBRAY_BENCH_COLLECTIVE_H

#include "bench.h"

/*
 * One collective at one size.  In the regular forms every process contributes or gets a block of
 * `units`; in those with a count for each process, even ranks half a block and odd ones one and a
 * half.  A unit is a byte or, where numbers are added up, a double.
 */
struct collective {
    const struct job *job;
    char *send_buffer, *receive_buffer;     /* room for a block of every process, and one more */
    int units;                              /* of one block */
    size_t unit_bytes;
    int *counts, *displacements;            /* by rank, in units */
    int *pair_counts, *pair_displacements;  /* what this process exchanges with each rank */
    int turn;                               /* counts the iterations, chooses the root */
};

struct collective_kind {
    const char *name;                       /* NULL ends a list of kinds */
    void (*run)(void *, long);
    void (*check)(void *);
    bool sized;                             /* moves data at all */
    bool numeric;                           /* works on doubles */
};

/* rooted.c, exchanging.c and reducing.c: lists of kinds, ended by one without a name. */
extern const struct collective_kind rooted_collectives[];
extern const struct collective_kind exchanging_collectives[];
extern const struct collective_kind reducing_collectives[];

/* The root of this iteration: it goes round. */
int next_root(struct collective *collective);

/* Fills the units from `first_unit` of the send buffer with this process's pattern of `block`. */
void fill_block(struct collective *collective, size_t first_unit, size_t units, int block);
/* Makes what was in the receive buffer unlike anything that is sent. */
void spoil_receive_buffer(struct collective *collective);
/* Expects at `first_unit` of the receive buffer the pattern of (process, block). */
void expect_block(const struct collective *collective, size_t first_unit, size_t units,
                  int process, int block);

#endif
