// Threads read variables while others are inside MPI, at the lowest and at the highest level of
// thread support. Reading a variable that cannot be read from outside returns an error.
// run: 2
// each: single multiple
// thread
// checkers: threads
#include "check.h"
#include <pthread.h>

enum { ROUNDS = 20000 };

static int stop;

static void *watch(void *unused) {
    int count, provided, reads = 0;
    MPI_T_pvar_session session;
    MPI_T_pvar_handle handles[200];
    (void)unused;
    OK(MPI_T_init_thread(MPI_THREAD_MULTIPLE, &provided));
    OK(MPI_T_pvar_get_num(&count));
    OK(MPI_T_pvar_session_create(&session));
    for (int index = 0; index < count; index++) {
        int n;
        OK(MPI_T_pvar_handle_alloc(session, index, NULL, &handles[index], &n));
    }
    MPI_T_pvar_start(session, MPI_T_PVAR_ALL_HANDLES);
    // At least once: the others may have ended before this thread came so far.
    do {
        for (int index = 0; index < count; index++) {
            unsigned long long value;
            int code = MPI_T_pvar_read(session, handles[index], &value);
            CHECK(code == MPI_SUCCESS || code == MPI_T_ERR_NOT_ACCESSIBLE, "%d", code);
            reads += code == MPI_SUCCESS;
        }
        usleep(100);
    } while (!__atomic_load_n(&stop, __ATOMIC_ACQUIRE));
    CHECK(reads > 0, "%d", reads);
    OK(MPI_T_pvar_session_free(&session));
    OK(MPI_T_finalize());
    return NULL;
}

int main(int argc, char **argv) {
    int provided, value = 0;
    int multiple = argc > 1 && strcmp(argv[1], "multiple") == 0;
    pthread_t threads[2];
    MPI_Init_thread(NULL, NULL, multiple ? MPI_THREAD_MULTIPLE : MPI_THREAD_FUNNELED, &provided);
    check_world();
    for (int i = 0; i < 2; i++) pthread_create(&threads[i], NULL, watch, NULL);
    for (int i = 0; i < ROUNDS; i++)
        OK(MPI_Sendrecv_replace(&value, 1, MPI_INT, 1 - check_rank, 0, 1 - check_rank, 0,
                                MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    __atomic_store_n(&stop, 1, __ATOMIC_RELEASE);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
    return check_end();
}
