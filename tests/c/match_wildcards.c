// Exact and wildcard receives posted together in one queue: an arriving message goes to the first
// posted receive that matches, whether exact or not. Messages come one after another, so the model
// is a plain walk along the posted receives.
// run: 2
// hosts
// checkers: address
#include "check.h"

enum { ROUNDS = 200, POSTED = 40, TAGS = 3 };

static int values[POSTED], sources[POSTED], tags[POSTED], model[POSTED];
static MPI_Request requests[POSTED];

static void one_round(uint64_t seed) {
    Random random = random_from(seed);
    int sequence[POSTED], count = 0;
    for (int i = 0; i < POSTED; i++) {
        sources[i] = random_below(&random, 2) ? 0 : MPI_ANY_SOURCE;
        tags[i] = random_below(&random, 3) ? random_below(&random, TAGS) : MPI_ANY_TAG;
        model[i] = values[i] = -1;
    }
    // Random messages while some receive still takes them.
    for (int tries = 0; tries < 4 * POSTED; tries++) {
        int tag = random_below(&random, TAGS), i = 0;
        while (i < POSTED && (model[i] >= 0 || (tags[i] != MPI_ANY_TAG && tags[i] != tag))) i++;
        if (i == POSTED) continue;
        model[i] = count;
        sequence[count++] = tag;
    }
    if (check_rank == 0) {
        OK(MPI_Barrier(MPI_COMM_WORLD));
        for (int i = 0; i < count; i++)
            OK(MPI_Send(&i, 1, MPI_INT, 1, sequence[i], MPI_COMM_WORLD));
        OK(MPI_Barrier(MPI_COMM_WORLD));
        return;
    }
    for (int i = 0; i < POSTED; i++)
        OK(MPI_Irecv(&values[i], 1, MPI_INT, sources[i], tags[i], MPI_COMM_WORLD, &requests[i]));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    for (int i = 0; i < POSTED; i++) {
        MPI_Status status;
        int cancelled;
        if (model[i] < 0) OK(MPI_Cancel(&requests[i]));
        OK(MPI_Wait(&requests[i], &status));
        OK(MPI_Test_cancelled(&status, &cancelled));
        CHECK_EQ(cancelled, model[i] < 0);
        CHECK(values[i] == model[i], "seed %d, receive %d (source %d, tag %d): message %d, not %d",
              (int)seed, i, sources[i], tags[i], values[i], model[i]);
    }
}

int main(void) {
    check_begin();
    for (uint64_t seed = 1; seed <= ROUNDS; seed++) one_round(seed);
    return check_end();
}
