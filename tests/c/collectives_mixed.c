// Random sequences of collectives on several communicators, with point-to-point messages in flight
// that use equal ranks and tags: contexts must never mix. No barriers between, so fast ranks run
// ahead. Also: a barrier holds until the last process has come.
// run: 2 3 5
// timeout: 60
// hosts
// checkers: address
#include "check.h"

enum { STEPS = 1500, COMMS = 4, PENDING = 8 };
static MPI_Comm comms[COMMS];

static void one_collective(MPI_Comm comm, Random *random) {
    int rank, size, sum = 0, mine, all[64] = {0};
    int kind = random_below(random, 6), salt = random_below(random, 1000);
    int root_draw = random_below(random, 1 << 20);
    if (comm == MPI_COMM_NULL) return;
    OK(MPI_Comm_rank(comm, &rank));
    OK(MPI_Comm_size(comm, &size));
    int root = root_draw % size;
    mine = rank * 3 + salt;
    switch (kind) {
    case 0:
        OK(MPI_Bcast(&mine, 1, MPI_INT, root, comm));
        CHECK_EQ(mine, root * 3 + salt);
        break;
    case 1:
        OK(MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, comm));
        CHECK_EQ(sum, size * salt + 3 * size * (size - 1) / 2);
        break;
    case 2:
        OK(MPI_Reduce(&mine, &sum, 1, MPI_INT, MPI_MAX, root, comm));
        if (rank == root) CHECK_EQ(sum, (size - 1) * 3 + salt);
        break;
    case 3:
        OK(MPI_Gather(&mine, 1, MPI_INT, all, 1, MPI_INT, root, comm));
        for (int i = 0; i < size && rank == root; i++) CHECK_EQ(all[i], i * 3 + salt);
        break;
    case 4:
        OK(MPI_Alltoall(MPI_IN_PLACE, 0, MPI_INT, all, 1, MPI_INT, comm));
        break;
    default:
        OK(MPI_Exscan(&mine, &sum, 1, MPI_INT, MPI_SUM, comm));
        if (rank > 0) CHECK_EQ(sum, rank * salt + 3 * rank * (rank - 1) / 2);
    }
}

static void sequence(uint64_t seed) {
    Random random = random_from(seed);
    static int out[PENDING], in[PENDING];
    MPI_Request requests[2 * PENDING];
    int next = (check_rank + 1) % check_size, before = (check_rank + check_size - 1) % check_size;
    for (int i = 0; i < PENDING; i++) {
        out[i] = check_rank * 100 + i;
        OK(MPI_Irecv(&in[i], 1, MPI_INT, i % 2 ? MPI_ANY_SOURCE : before, i, MPI_COMM_WORLD,
                     &requests[i]));
    }
    for (int step = 0; step < STEPS; step++) {
        one_collective(comms[random_below(&random, COMMS)], &random);
        if (step % (STEPS / PENDING) == 0 && step / (STEPS / PENDING) < PENDING) {
            int i = step / (STEPS / PENDING);
            OK(MPI_Isend(&out[i], 1, MPI_INT, next, i, MPI_COMM_WORLD, &requests[PENDING + i]));
        }
    }
    OK(MPI_Waitall(2 * PENDING, requests, MPI_STATUSES_IGNORE));
    for (int i = 0; i < PENDING; i++) CHECK_EQ(in[i], before * 100 + i);
}

static void barrier_holds(void) {
    for (int last = 0; last < check_size; last++) {
        // Rank `last` leaves the first barrier, and begins to sleep, after this moment. Each
        // process reads its own clock.
        double start = MPI_Wtime(), late = 0.05;
        OK(MPI_Barrier(MPI_COMM_WORLD));
        if (check_rank == last) usleep((useconds_t)(late * 1e6));
        OK(MPI_Barrier(MPI_COMM_WORLD));
        CHECK(MPI_Wtime() - start > late * 0.9, "left the barrier before rank %d came", last);
    }
}

int main(void) {
    check_begin();
    comms[0] = MPI_COMM_WORLD;
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &comms[1]));
    OK(MPI_Comm_split(MPI_COMM_WORLD, check_rank % 2, -check_rank, &comms[2]));
    OK(MPI_Comm_split(MPI_COMM_WORLD, check_rank == 0 ? MPI_UNDEFINED : 1, 0, &comms[3]));
    sequence(1);
    sequence(2);
    barrier_holds();
    for (int i = 1; i < COMMS; i++)
        if (comms[i] != MPI_COMM_NULL) OK(MPI_Comm_free(&comms[i]));
    return check_end();
}
