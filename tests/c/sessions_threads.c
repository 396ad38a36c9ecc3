// Sessions of several threads: begun at once, communicators founded at once with different strings
// in any order, used at once; levels of thread support are returned.
// run: 1 2 3
// each: sessions world
// thread
// hosts
// checkers: threads
#include "check.h"
#include <pthread.h>

enum { THREADS = 4, TURNS = 30 };

static void check_level(MPI_Session session, const char *expected) {
    MPI_Info used;
    char level[40] = "";
    int flag = 0, room = sizeof level;
    OK(MPI_Session_get_info(session, &used));
    OK(MPI_Info_get_string(used, "thread_level", &room, level, &flag));
    CHECK(flag && !strcmp(level, expected), "the level is %s, expected %s", level, expected);
    OK(MPI_Info_free(&used));
}

static void *part(void *number) {
    int mine = (int)(intptr_t)number;
    for (int turn = 0; turn < TURNS; turn++) {
        MPI_Session session;
        MPI_Info info;
        MPI_Group group;
        MPI_Comm comm;
        char tag[40];
        int rank, size, sum = -1;
        OK(MPI_Info_create(&info));
        OK(MPI_Info_set(info, "thread_level", "MPI_THREAD_MULTIPLE"));
        OK(MPI_Session_init(info, MPI_ERRORS_RETURN, &session));
        OK(MPI_Info_free(&info));
        check_level(session, "MPI_THREAD_MULTIPLE");
        OK(MPI_Group_from_session_pset(session, "mpi://WORLD", &group));
        snprintf(tag, sizeof tag, "thread %d", mine);
        OK(MPI_Comm_create_from_group(group, tag, MPI_INFO_NULL, MPI_ERRORS_RETURN, &comm));
        OK(MPI_Comm_rank(comm, &rank));
        OK(MPI_Comm_size(comm, &size));
        rank = rank * 100 + mine;
        OK(MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, comm));
        CHECK_EQ(sum, 100 * size * (size - 1) / 2 + mine * size);
        OK(MPI_Comm_free(&comm));
        OK(MPI_Group_free(&group));
        OK(MPI_Session_finalize(&session));
    }
    return NULL;
}

int main(int argc, char **argv) {
    int in_world = argc > 1 && !strcmp(argv[1], "world"), provided;
    pthread_t threads[THREADS];
    if (in_world) {
        OK(MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided));
        check_world();
    }
    for (intptr_t i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, part, (void *)i);
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    if (in_world) return check_end();
    return check_failures != 0;
}
