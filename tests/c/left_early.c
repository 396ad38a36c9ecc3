// Processes that wait for others which are in MPI_Finalize: the job ends with the reason.
// Arguments: what rank 0 or 1 waits for, and "near" or "far". With "late" and "underway" the
// messages come, though late, as with "stream"; with "cancelled" another thread ends the wait. The
// processes print that they are done then. With "late-end" rank 0 only comes late to MPI_Finalize.
// Started by tests/scenarios/disagreements.py and traces.py, and tests/cluster/rails.py.
// thread
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LARGE = 1000000, MESSAGES = 2000, SMALL = 250 };

static int rank;

static void create_from_group(void) {
    MPI_Session session;
    MPI_Group group;
    MPI_Comm made;
    MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &session);
    MPI_Group_from_session_pset(session, "mpi://WORLD", &group);
    MPI_Comm_create_from_group(group, "left", MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &made);
    printf("rank %d has made a communicator\n", rank);
}

static void *cancel(void *request) {
    sleep(3);
    MPI_Cancel(request);
    return NULL;
}

static void wait_until_cancelled(int *data) {
    pthread_t canceller;
    MPI_Request request;
    MPI_Status status;
    int is_cancelled;
    MPI_Irecv(data, 1, MPI_INT, 1, 7, MPI_COMM_WORLD, &request);
    MPI_Request same = request;
    pthread_create(&canceller, NULL, cancel, &same);
    MPI_Wait(&request, &status);
    pthread_join(canceller, NULL);
    MPI_Test_cancelled(&status, &is_cancelled);
    if (!is_cancelled) MPI_Abort(MPI_COMM_WORLD, 3);
}

// The last of many messages is on its way for long when its sender is in MPI_Finalize.
static void stream(int *data) {
    MPI_Request request;
    for (int i = 0; rank == 1 && i < MESSAGES; i++) {
        MPI_Isend(data, SMALL, MPI_INT, 0, i == MESSAGES - 1 ? 8 : 7, MPI_COMM_WORLD, &request);
        MPI_Request_free(&request);
    }
    for (int i = 0; rank == 0 && i < MESSAGES; i++)
        MPI_Recv(data, SMALL, MPI_INT, 1, i == 0 ? 8 : 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    printf("rank %d is done\n", rank);
}

int main(int argc, char **argv) {
    static int data[LARGE];
    const char *how = argc > 1 ? argv[1] : "", *name = getenv("COMBRAY_RANK");
    if (argc > 2 && !strcmp(argv[2], "far") && name) setenv("COMBRAY_NODE", name, 1);
    int threads = !strcmp(how, "threads") || !strcmp(how, "cancelled") ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE;
    MPI_Init_thread(&argc, &argv, threads, &threads);
    MPI_Comm world = MPI_COMM_WORLD;
    MPI_Request requests[2];
    MPI_Comm_rank(world, &rank);
    if (!strcmp(how, "receive") || !strcmp(how, "threads")) {
        if (rank == 0) MPI_Recv(data, 1, MPI_INT, 1, 7, world, MPI_STATUS_IGNORE);
    } else if (!strcmp(how, "other-tag")) {
        if (rank == 0) MPI_Recv(data, 1, MPI_INT, 1, 7, world, MPI_STATUS_IGNORE);
        if (rank == 1) MPI_Send(data, 1, MPI_INT, 0, 8, world);
    } else if (!strcmp(how, "any")) {
        if (rank == 0) MPI_Recv(data, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, world, MPI_STATUS_IGNORE);
    } else if (!strcmp(how, "all")) {
        if (rank == 0) {
            for (int i = 0; i < 2; i++) MPI_Irecv(data + i, 1, MPI_INT, i + 1, 7, world, requests + i);
            MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
        }
        if (rank == 1) MPI_Send(data, 1, MPI_INT, 0, 7, world);
    } else if (!strcmp(how, "leads")) {
        if (rank == 0) create_from_group();
    } else if (!strcmp(how, "follows")) {
        if (rank == 1) create_from_group();
    } else if (!strcmp(how, "late")) {
        // One waits for a process that computes, one for a process that waits in another call.
        if (rank == 1) sleep(3);
        if (rank == 1) MPI_Send(data, 1, MPI_INT, 0, 7, world);
        if (rank == 0) MPI_Recv(data, 1, MPI_INT, MPI_ANY_SOURCE, 7, world, MPI_STATUS_IGNORE);
        if (rank == 0) MPI_Send(data, 1, MPI_INT, 2, 7, world);
        if (rank == 2) MPI_Recv(data, 1, MPI_INT, 0, 7, world, MPI_STATUS_IGNORE);
        printf("rank %d is done\n", rank);
    } else if (!strcmp(how, "underway")) {
        // The sender is in MPI_Finalize when the receive is posted.
        if (rank == 1) {
            MPI_Isend(data, LARGE, MPI_INT, 0, 7, world, requests);
            MPI_Request_free(requests);
        }
        if (rank == 0) sleep(3);
        if (rank == 0) MPI_Recv(data, LARGE, MPI_INT, 1, 7, world, MPI_STATUS_IGNORE);
        printf("rank %d is done\n", rank);
    } else if (!strcmp(how, "stream")) {
        stream(data);
    } else if (!strcmp(how, "cancelled")) {
        if (rank == 0) wait_until_cancelled(data);
        printf("rank %d is done\n", rank);
    } else if (!strcmp(how, "late-end")) {
        MPI_Barrier(world);
        if (rank == 0) sleep(14);
    }
    MPI_Finalize();
    return 0;
}
