/* Calls that programs have in their loops, each by itself: what bench_calls and bench_rma run. */
#ifndef COMBRAY_BENCH_SWEEP_H
#define COMBRAY_BENCH_SWEEP_H

#include "bench.h"

/* What a call works on.  Processes stand in pairs: of 2i and 2i + 1 each is the other's peer. */
struct sweep {
    const struct job *job;
    const struct sweep_call *call;
    MPI_Comm comm;
    int rank, size, peer;
    char *out, *in;                 /* SWEEP_ROOM bytes each */
    MPI_Request requests[64];
    int request_count;              /* of persistent ones, freed by close_requests */
    MPI_Comm other_comm;            /* a topology or an intercommunicator */
    MPI_Datatype type;
    MPI_Op op;
    MPI_Win window;
    char *window_memory;
    MPI_Aint first;                 /* the displacement at which a dynamic window begins */
    unsigned seed;
    bool checking;                  /* this one iteration is verified */
};

enum { SWEEP_ROOM = 1 << 20, SWEEP_TAG = 80 };

/* What must be in `in` after one call, where every process had filled `out` with its own pattern. */
enum sweep_result {
    RESULT_NONE,                    /* the call moves no data, or checks them itself */
    RESULT_OF_PEER,                 /* the first `bytes` of the peer's `out` */
    RESULT_OF_SELF,                 /* of the own */
    RESULT_OF_NEIGHBORS,            /* that of the process before, then that of the one after */
    RESULT_SUMS,                    /* sums over all processes: `out` held doubles */
};

struct sweep_call {
    const char *name;
    size_t bytes;                   /* of one message, block or contribution; 0: none */
    void (*open)(struct sweep *sweep);
    void (*run)(void *sweep, long iterations);
    void (*close)(struct sweep *sweep);
    enum sweep_result result;
    bool alone;                     /* the clock of the first process counts, not the slowest */
};

/* Lists end with an entry without a name. */
extern const struct sweep_call sweep_messages[], sweep_persistent[], sweep_collectives[],
    sweep_datatypes[], sweep_local[], sweep_windows[];

/* Frees the persistent requests. */
void close_requests(struct sweep *sweep);

#endif
