/* A random program whose result depends on which message comes first, on how often a call finds
   nothing, and on the order of atomic operations: "order_random SEED [ROUNDS]". Each process prints a
   number into which all of that has gone. tests/order compares the numbers of a recorded run with
   those of its replays. With a third argument process 0 is killed in the end. For scenarios. */
#include <mpi.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MESSAGES_MAX 6
#define WORDS 4

static int rank, size;
static uint64_t state, shared_seed, own_seed;

static uint64_t next_of(uint64_t *seed) {
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    return *seed;
}

/* A number that all processes draw alike. */
static int draw(int below) { return (int)(next_of(&shared_seed) % (uint64_t)below); }

/* A number of this process, which depends on nothing but the seed. */
static int draw_own(int below) { return (int)(next_of(&own_seed) % (uint64_t)below); }

static void mix(uint64_t value) { state = (state ^ value) * 0x9e3779b97f4a7c15u + (state >> 29); }

static void mix_status(const MPI_Status *status) {
    mix((uint64_t)status->MPI_SOURCE << 32 | (uint32_t)status->MPI_TAG);
}

/* Computes for a random time, so that the order of messages varies from run to run. */
static void compute(void) {
    volatile uint64_t sum = 0;
    for (int i = draw_own(2000); i > 0; i--) sum += i;
    if (draw_own(40) == 0) usleep(draw_own(300));
}

/* Receives `count` messages from any process in one of many ways. */
static void receive_any(MPI_Comm comm, int count, int way, int tag) {
    uint64_t got[MESSAGES_MAX * 8];
    MPI_Request requests[MESSAGES_MAX * 8];
    MPI_Status statuses[MESSAGES_MAX * 8];
    int indices[MESSAGES_MAX * 8], flag, done;
    MPI_Message message;
    switch (way) {
    case 0:
        for (int i = 0; i < count; i++) {
            MPI_Recv(&got[0], 1, MPI_UINT64_T, MPI_ANY_SOURCE, tag, comm, &statuses[0]);
            mix(got[0]);
            mix_status(&statuses[0]);
        }
        return;
    case 1:
        for (int i = 0; i < count; i++) {
            int polls = 0;
            for (flag = 0; !flag; polls++)
                MPI_Iprobe(MPI_ANY_SOURCE, tag, comm, &flag, &statuses[0]);
            mix(polls);
            MPI_Recv(&got[0], 1, MPI_UINT64_T, statuses[0].MPI_SOURCE, statuses[0].MPI_TAG, comm,
                     MPI_STATUS_IGNORE);
            mix(got[0]);
            mix_status(&statuses[0]);
        }
        return;
    case 2:
        for (int i = 0; i < count; i++) {
            if (draw_own(2)) {
                MPI_Mprobe(MPI_ANY_SOURCE, tag, comm, &message, &statuses[0]);
            } else {
                for (flag = 0; !flag;)
                    MPI_Improbe(MPI_ANY_SOURCE, tag, comm, &flag, &message, &statuses[0]);
            }
            MPI_Mrecv(&got[0], 1, MPI_UINT64_T, &message, MPI_STATUS_IGNORE);
            mix(got[0]);
            mix_status(&statuses[0]);
        }
        return;
    case 3:
        for (int i = 0; i < count; i++) {
            MPI_Probe(MPI_ANY_SOURCE, tag, comm, &statuses[0]);
            MPI_Recv(&got[0], 1, MPI_UINT64_T, statuses[0].MPI_SOURCE, statuses[0].MPI_TAG, comm,
                     MPI_STATUS_IGNORE);
            mix(got[0]);
            mix_status(&statuses[0]);
        }
        return;
    case 4: {
        MPI_Request persistent;
        MPI_Recv_init(&got[0], 1, MPI_UINT64_T, MPI_ANY_SOURCE, tag, comm, &persistent);
        for (int i = 0; i < count; i++) {
            MPI_Start(&persistent);
            for (flag = 0; !flag;) {
                MPI_Test(&persistent, &flag, &statuses[0]);
                mix(flag);
            }
            mix(got[0]);
            mix_status(&statuses[0]);
        }
        MPI_Request_free(&persistent);
        return;
    }
    }
    for (int i = 0; i < count; i++)
        MPI_Irecv(&got[i], 1, MPI_UINT64_T, MPI_ANY_SOURCE, tag, comm, &requests[i]);
    switch (way) {
    case 5:
        for (int i = 0; i < count; i++) {
            MPI_Waitany(count, requests, &indices[0], &statuses[0]);
            mix(indices[0]);
            mix(got[indices[0]]);
            mix_status(&statuses[0]);
        }
        return;
    case 6:
    case 7:
        for (int left = count; left > 0; left -= done) {
            if (way == 6)
                MPI_Waitsome(count, requests, &done, indices, statuses);
            else
                MPI_Testsome(count, requests, &done, indices, statuses);
            mix(done);
            for (int i = 0; i < done; i++) {
                mix(indices[i]);
                mix(got[indices[i]]);
                mix_status(&statuses[i]);
            }
        }
        return;
    case 8:
        for (int left = count; left > 0;) {
            MPI_Testany(count, requests, &indices[0], &flag, &statuses[0]);
            mix(flag);
            if (flag) {
                mix(indices[0]);
                mix(got[indices[0]]);
                mix_status(&statuses[0]);
                left--;
            }
        }
        return;
    case 9:
        for (int i = 0; i < count; i++) {
            for (flag = 0; !flag;) MPI_Request_get_status(requests[i], &flag, &statuses[0]);
            MPI_Wait(&requests[i], &statuses[0]);
            mix(got[i]);
            mix_status(&statuses[0]);
        }
        return;
    default:
        for (flag = 0; !flag;) {
            MPI_Testall(count, requests, &flag, statuses);
            mix(flag);
        }
        for (int i = 0; i < count; i++) {
            mix(got[i]);
            mix_status(&statuses[i]);
        }
    }
}

static void gather_messages(MPI_Comm comm) {
    int target = draw(size), each = 1 + draw(MESSAGES_MAX), way = draw(11), any_tag = draw(2);
    int tags = any_tag ? 3 : 1;
    if (rank == target) {
        /* A receive whose message never comes. */
        uint64_t unused;
        MPI_Request never = MPI_REQUEST_NULL;
        if (!any_tag)
            MPI_Irecv(&unused, 1, MPI_UINT64_T, MPI_ANY_SOURCE, 77, comm, &never);
        receive_any(comm, each * (size - 1), way, any_tag ? MPI_ANY_TAG : 0);
        if (never != MPI_REQUEST_NULL) {
            MPI_Cancel(&never);
            MPI_Wait(&never, MPI_STATUS_IGNORE);
        }
    } else {
        for (int i = 0; i < each; i++) {
            compute();
            MPI_Send(&state, 1, MPI_UINT64_T, target, draw_own(tags), comm);
        }
    }
    /* Otherwise a receive of the next round could get a message of this one. */
    MPI_Barrier(comm);
}

static MPI_Win make_window(int kind, uint64_t **part, MPI_Aint *addresses) {
    MPI_Win win;
    MPI_Aint bytes = WORDS * sizeof(uint64_t), own = 0;
    if (kind == 0) {
        MPI_Win_allocate(bytes, 8, MPI_INFO_NULL, MPI_COMM_WORLD, part, &win);
    } else if (kind == 1) {
        *part = malloc(bytes);
        MPI_Win_create(*part, bytes, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    } else if (kind == 2) {
        MPI_Win_allocate_shared(bytes, 8, MPI_INFO_NULL, MPI_COMM_WORLD, part, &win);
    } else {
        *part = malloc(bytes);
        MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &win);
        MPI_Win_attach(win, *part, bytes);
        MPI_Get_address(*part, &own);
    }
    for (int i = 0; i < WORDS; i++) (*part)[i] = 1000 * rank + i;
    MPI_Allgather(&own, 1, MPI_AINT, addresses, 1, MPI_AINT, MPI_COMM_WORLD);
    return win;
}

static void change_windows(int may_share) {
    uint64_t *part, old, given, compare;
    MPI_Aint addresses[64];
    int kind = draw(4), exclusive = draw(3) == 0, actions = 1 + draw(12);
    if (kind == 2 && !may_share) kind = 0;
    MPI_Win win = make_window(kind, &part, addresses);
    if (!exclusive) MPI_Win_lock_all(0, win);
    for (int i = 0; i < actions; i++) {
        int target = draw_own(size), word = draw_own(WORDS);
        MPI_Aint place = kind == 3 ? MPI_Aint_add(addresses[target], 8 * word) : word;
        compute();
        given = state % 1000;
        if (exclusive) {
            MPI_Win_lock(MPI_LOCK_EXCLUSIVE, target, 0, win);
            MPI_Get(&old, 1, MPI_UINT64_T, target, place, 1, MPI_UINT64_T, win);
            MPI_Win_flush(target, win);
            mix(old);
            given = old * 3 + rank;
            MPI_Put(&given, 1, MPI_UINT64_T, target, place, 1, MPI_UINT64_T, win);
            MPI_Win_unlock(target, win);
            continue;
        }
        switch (draw_own(5)) {
        case 0:
            MPI_Fetch_and_op(&given, &old, MPI_UINT64_T, target, place, MPI_SUM, win);
            break;
        case 1:
            MPI_Fetch_and_op(&given, &old, MPI_UINT64_T, target, place, MPI_REPLACE, win);
            break;
        case 2:
            compare = 1000 * target + word;
            MPI_Compare_and_swap(&given, &compare, &old, MPI_UINT64_T, target, place, win);
            break;
        case 3: {
            MPI_Request request;
            int flag = 0;
            MPI_Rget_accumulate(&given, 1, MPI_UINT64_T, &old, 1, MPI_UINT64_T, target, place, 1,
                                MPI_UINT64_T, MPI_BXOR, win, &request);
            while (!flag) MPI_Test(&request, &flag, MPI_STATUS_IGNORE);
            break;
        }
        default:
            old = 0;
            for (int j = draw_own(3); j >= 0; j--)
                MPI_Accumulate(&given, 1, MPI_UINT64_T, target, place, 1, MPI_UINT64_T, MPI_SUM,
                               win);
        }
        MPI_Win_flush(target, win);
        mix(old);
    }
    if (!exclusive) MPI_Win_unlock_all(win);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, win);
    for (int i = 0; i < WORDS; i++) mix(part[i]);
    MPI_Win_unlock(rank, win);
    MPI_Win_free(&win);
    if (kind == 1 || kind == 3) free(part);
}

/* All processes wait for others with MPI_Win_test, MPI_Sendrecv and tests of collective calls. */
static void test_others(MPI_Comm comm) {
    int flag, next = (rank + 1) % size;
    uint64_t got = 0, sum = 0;
    MPI_Request request;
    MPI_Status status;
    compute();
    MPI_Sendrecv(&state, 1, MPI_UINT64_T, next, 5, &got, 1, MPI_UINT64_T, MPI_ANY_SOURCE, 5, comm,
                 &status);
    mix(got);
    MPI_Iallreduce(&state, &sum, 1, MPI_UINT64_T, MPI_SUM, comm, &request);
    for (flag = 0; !flag;) {
        MPI_Test(&request, &flag, MPI_STATUS_IGNORE);
        mix(flag);
    }
    mix(sum);
}

int main(int argc, char **argv) {
    int rounds = argc > 2 ? atoi(argv[2]) : 12, node_size;
    MPI_Comm node, copy;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    shared_seed = (argc > 1 ? strtoull(argv[1], NULL, 10) : 1) * 0x9e3779b97f4a7c15u + 1;
    own_seed = shared_seed ^ (uint64_t)(rank + 1) << 32;
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
    MPI_Comm_size(node, &node_size);
    MPI_Comm_free(&node);
    for (int round = 0; round < rounds; round++) {
        int kind = draw(6);
        if (kind == 0) {
            MPI_Comm_dup(MPI_COMM_WORLD, &copy);
            gather_messages(copy);
            MPI_Comm_free(&copy);
        } else if (kind <= 2) {
            gather_messages(MPI_COMM_WORLD);
        } else if (kind <= 4) {
            change_windows(node_size == size);
        } else {
            test_others(MPI_COMM_WORLD);
        }
    }
    printf("rank %d: %016llx\n", rank, (unsigned long long)state);
    fflush(stdout);
    if (argc > 3 && rank == 0) raise(SIGKILL);
    MPI_Finalize();
    return 0;
}
