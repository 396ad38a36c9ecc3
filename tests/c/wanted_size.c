// How many processes the user asks for (combray_wanted_size): nothing without a request, and errors
// of the call. With an argument, waits until so many are asked for, and prints what it was told.
// run: 1 3
// combray.h
#include "check.h"
#include <combray.h>
#include <time.h>

static void check_without_request(void) {
    int processes = -1;
    MPI_Info hints;
    CHECK(combray_wanted_size(MPI_COMM_WORLD, &processes, &hints) == MPI_SUCCESS);
    CHECK(processes == 0 && hints == MPI_INFO_NULL);
    CHECK(class_of(combray_wanted_size(MPI_COMM_NULL, &processes, &hints)) == MPI_ERR_COMM);
    CHECK(class_of(combray_wanted_size(MPI_COMM_WORLD, NULL, &hints)) == MPI_ERR_ARG);
    CHECK(class_of(combray_wanted_size(MPI_COMM_WORLD, &processes, NULL)) == MPI_ERR_ARG);
    if (check_size > 1) {
        MPI_Comm half, both;
        MPI_Comm_split(MPI_COMM_WORLD, check_rank > 0, check_rank, &half);
        MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, check_rank > 0 ? 0 : 1, 1, &both);
        CHECK(class_of(combray_wanted_size(both, &processes, &hints)) == MPI_ERR_COMM);
        CHECK(combray_wanted_size(half, &processes, &hints) == MPI_SUCCESS && processes == 0);
        MPI_Comm_free(&both);
        MPI_Comm_free(&half);
    }
}

// Ends when the user has asked for `last` processes.
static void wait_for(int last) {
    int processes, before = 0;
    for (;;) {
        MPI_Info hints;
        CHECK(combray_wanted_size(MPI_COMM_WORLD, &processes, &hints) == MPI_SUCCESS);
        if (processes != before) {
            char hosts[MPI_MAX_INFO_VAL] = "no host";
            int length = sizeof hosts, is_set;
            if (hints != MPI_INFO_NULL) MPI_Info_get_string(hints, "host", &length, hosts, &is_set);
            printf("rank %d: %d processes on %s\n", check_rank, processes, hosts);
            fflush(stdout);
        }
        before = processes;
        if (hints != MPI_INFO_NULL) MPI_Info_free(&hints);
        if (processes == last) break;
        nanosleep(&(struct timespec){0, 10000000}, NULL);
    }
}

int main(int argc, char **argv) {
    check_begin();
    if (argc > 1)
        wait_for(atoi(argv[1]));
    else
        check_without_request();
    return check_end();
}
