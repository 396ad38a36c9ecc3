// Programs that hang, each for another reason, which the argument names. The output of `combray ps`
// for each is in tests/scenarios/hangs.py. They wait until they are ended.
// thread
#include <mpi.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int rank, size;
static MPI_Comm world = MPI_COMM_WORLD;

static void receive(int source, int tag, MPI_Comm communicator) {
    int value;
    MPI_Recv(&value, 1, MPI_INT, source, tag, communicator, MPI_STATUS_IGNORE);
}

static void send(int target, int tag, MPI_Comm communicator) {
    int value = rank;
    MPI_Send(&value, 1, MPI_INT, target, tag, communicator);
}

// Both receive before they send.
static void crossed(void) {
    if (rank < 2) {
        receive(1 - rank, 1, world);
        send(1 - rank, 1, world);
    }
}

// Each waits for the one before it, around.
static void ring(void) {
    receive((rank + size - 1) % size, 2, world);
    send((rank + 1) % size, 2, world);
}

// Both send more than can be buffered.
static void large_sends(void) {
    int count = 4 << 20;
    char *data = malloc(count);
    memset(data, 1, count);
    if (rank < 2) {
        MPI_Send(data, count, MPI_CHAR, 1 - rank, 3, world);
        MPI_Recv(data, count, MPI_CHAR, 1 - rank, 3, world, MPI_STATUS_IGNORE);
    }
    free(data);
}

// The message has another tag.
static void tag(void) {
    if (rank == 0) {
        receive(1, 5, world);
    } else if (rank == 1) {
        send(0, 6, world);
    }
    MPI_Barrier(world);
}

// The message went by another communicator.
static void communicator(void) {
    MPI_Comm other;
    MPI_Comm_dup(world, &other);
    MPI_Comm_set_name(other, "library");
    if (rank == 0) {
        receive(1, 5, other);
    } else if (rank == 1) {
        send(0, 5, world);
    }
    MPI_Barrier(world);
}

// No process sends to rank 0, as all others have gone on to the end. A receive would end the job.
static void left(void) {
    if (rank == 0) {
        MPI_Probe(1, 7, world, MPI_STATUS_IGNORE);
    }
}

// One waits for a message of a rank that computes.
static void computes(void) {
    if (rank == 1) {
        volatile double x = 1;
        for (;;) {
            x = x * 1.0000001;
        }
    }
    receive(1, 8, world);
}

// Rank 1 waits for a message before the operation that the others are in.
static void late_member(void) {
    if (rank == 1) {
        receive(0, 9, world);
    }
    MPI_Barrier(world);
}

// One computes before the operation that the others are in.
static void computing_member(void) {
    double sum = 0, own = rank;
    if (rank == 2) {
        sleep(1000);
    }
    MPI_Allreduce(&own, &sum, 1, MPI_DOUBLE, MPI_SUM, world);
}

// Two libraries, with communicators of their own, called in another order.
static void libraries(void) {
    MPI_Comm first, second;
    MPI_Comm_dup(world, &first);
    MPI_Comm_dup(world, &second);
    MPI_Comm_set_name(first, "solver");
    MPI_Comm_set_name(second, "output");
    MPI_Barrier(rank == 0 ? first : second);
    MPI_Barrier(rank == 0 ? second : first);
}

// A request that no process completes.
static void request(void) {
    if (rank == 0) {
        int value;
        MPI_Request requests[2];
        MPI_Irecv(&value, 1, MPI_INT, 1, 10, world, &requests[0]);
        MPI_Irecv(&value, 1, MPI_INT, 1, 11, world, &requests[1]);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    } else if (rank == 1) {
        send(0, 10, world);
    }
    MPI_Barrier(world);
}

// A synchronous send that no process receives.
static void synchronous(void) {
    if (rank == 0) {
        int value = 1;
        MPI_Ssend(&value, 1, MPI_INT, 1, 12, world);
    }
    MPI_Barrier(world);
}

// A probe for a message that does not come.
static void probe(void) {
    if (rank == 0) {
        MPI_Status status;
        MPI_Probe(1, 13, world, &status);
    }
    MPI_Barrier(world);
}

// All wait for any source.
static void anybody(void) {
    receive(MPI_ANY_SOURCE, 14, world);
}

// All wait for rank 0, which probes for a message from itself again and again.
static void polls(void) {
    int flag = 0;
    while (rank == 0 && !flag) {
        MPI_Iprobe(MPI_ANY_SOURCE, 15, world, &flag, MPI_STATUS_IGNORE);
    }
    receive(0, 15, world);
}

// Locks of two windows in another order.
static void locks(void) {
    int value[2] = {0, 0};
    MPI_Win first, second;
    MPI_Win_create(&value[0], sizeof(int), 1, MPI_INFO_NULL, world, &first);
    MPI_Win_create(&value[1], sizeof(int), 1, MPI_INFO_NULL, world, &second);
    if (rank < 2) {
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, rank == 0 ? first : second);
        MPI_Win_flush(0, rank == 0 ? first : second);
        sleep(1);
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, rank == 0 ? second : first);
        MPI_Win_flush(0, rank == 0 ? second : first);
    }
    MPI_Barrier(world);
}

// A chain, at whose end a process computes.
static void chain(void) {
    if (rank == size - 1) {
        sleep(1000);
    }
    receive(rank + 1, 16, world);
    send(rank - 1, 16, world);
}

// An operation that was begun and that one has not begun.
static void nonblocking(void) {
    MPI_Request request;
    if (rank == 1) {
        receive(0, 17, world);
    }
    MPI_Ibarrier(world, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
}

// Rank 1 stops itself.
static void stopped(void) {
    if (rank == 1) {
        kill(getpid(), SIGSTOP);
    }
    receive(1, 18, world);
}

static void *other_thread(void *unused) {
    receive(1, 20, world);
    return unused;
}

// Two threads of one process wait, each for a message of its own.
static void threads(void) {
    if (rank == 0) {
        pthread_t other;
        pthread_create(&other, NULL, other_thread, NULL);
        receive(1, 21, world);
        pthread_join(other, NULL);
    }
    MPI_Barrier(world);
}

// Two of four sends that were begun are never received.
static void begun_sends(void) {
    int count = 1 << 20;
    char *data = calloc(4, count);
    MPI_Request requests[4];
    if (rank == 0) {
        for (int i = 0; i < 4; i++) {
            MPI_Isend(data + i * count, count, MPI_CHAR, 1, 30 + i, world, &requests[i]);
        }
        int done = 0, index;
        while (done < 4) {
            MPI_Waitany(4, requests, &index, MPI_STATUS_IGNORE);
            done++;
        }
    } else if (rank == 1) {
        MPI_Recv(data, count, MPI_CHAR, 0, 30, world, MPI_STATUS_IGNORE);
        MPI_Recv(data, count, MPI_CHAR, 0, 31, world, MPI_STATUS_IGNORE);
    }
    MPI_Barrier(world);
    free(data);
}

// The send failed, as there was no room, and rank 1 has ignored the returned error.
static void unsent(void) {
    double data[4000] = {0};
    MPI_Comm_set_errhandler(world, MPI_ERRORS_RETURN);
    if (rank == 1) {
        char *buffer = malloc(1000);
        MPI_Buffer_attach(buffer, 1000);
        MPI_Bsend(data, 4000, MPI_DOUBLE, 0, 5, world); // unsent: here
        receive(0, 6, world);
        MPI_Buffer_detach(&buffer, &(int){0});
        free(buffer);
    } else if (rank == 0) {
        MPI_Recv(data, 4000, MPI_DOUBLE, 1, 5, world, MPI_STATUS_IGNORE);
        send(1, 6, world);
    }
    MPI_Barrier(world);
}

// Rank 1 has called the operation, which failed, has ignored the returned error, and has gone on.
static void refused(void) {
    int value = 0, sum;
    MPI_Comm_set_errhandler(world, MPI_ERRORS_RETURN);
    MPI_Allreduce(&value, &sum, rank == 1 ? -1 : 1, MPI_INT, MPI_SUM, world);
    if (rank == 1) {
        receive(0, 40, world);
    }
}

// No other job connects to the port.
static void accepted(void) {
    char port[MPI_MAX_PORT_NAME] = "";
    MPI_Comm other;
    if (rank == 0) {
        MPI_Open_port(MPI_INFO_NULL, port);
    }
    MPI_Comm_accept(port, MPI_INFO_NULL, 0, world, &other);
}

// The process that has opened the port does not accept.
static void connected(void) {
    char port[MPI_MAX_PORT_NAME] = "";
    MPI_Comm other;
    if (rank == 0) {
        MPI_Open_port(MPI_INFO_NULL, port);
    }
    MPI_Bcast(port, MPI_MAX_PORT_NAME, MPI_CHAR, 0, world);
    if (rank == 1) {
        MPI_Comm_connect(port, MPI_INFO_NULL, 0, MPI_COMM_SELF, &other);
    }
    sleep(1000);
}

// The spawned processes are no MPI programs.
static void spawned(void) {
    char *words[] = {"1000", NULL};
    MPI_Comm other;
    MPI_Comm_spawn("sleep", words, 2, MPI_INFO_NULL, 0, world, &other, MPI_ERRCODES_IGNORE);
}

static const struct {
    const char *name;
    void (*run)(void);
} hangs[] = {
    {"crossed", crossed}, {"ring", ring}, {"large_sends", large_sends}, {"tag", tag},
    {"communicator", communicator}, {"left", left}, {"computes", computes},
    {"late_member", late_member}, {"computing_member", computing_member},
    {"libraries", libraries}, {"request", request}, {"synchronous", synchronous},
    {"probe", probe}, {"anybody", anybody}, {"polls", polls}, {"locks", locks}, {"chain", chain},
    {"nonblocking", nonblocking}, {"stopped", stopped}, {"threads", threads},
    {"begun_sends", begun_sends}, {"unsent", unsent}, {"refused", refused},
    {"accepted", accepted}, {"connected", connected}, {"spawned", spawned},
};

int main(int argc, char **argv) {
    int level = argc == 2 && strcmp(argv[1], "threads") == 0 ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE;
    MPI_Init_thread(&argc, &argv, level, &level);
    MPI_Comm_rank(world, &rank);
    MPI_Comm_size(world, &size);
    for (size_t i = 0; argc == 2 && i < sizeof hangs / sizeof *hangs; i++) {
        if (strcmp(argv[1], hangs[i].name) == 0) {
            hangs[i].run();
            MPI_Finalize();
            return 0;
        }
    }
    fprintf(stderr, "usage: hangs NAME\n");
    MPI_Abort(world, 2);
}
