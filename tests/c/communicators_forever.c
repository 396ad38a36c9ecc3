// A million communicators made and freed by one process alone, and seventy thousand by several:
// contexts do not run out, it stays fast, memory does not grow.
// run: 1 2 3
// timeout: 60
// hosts
#include "check.h"

enum { GROWTH_KIB_MAX = 4096 };

static void make_and_free(MPI_Comm parent, int count) {
    for (int i = 0; i < count; i++) {
        MPI_Comm comm;
        OK(MPI_Comm_dup(parent, &comm));
        OK(MPI_Comm_free(&comm));
    }
}

int main(void) {
    check_begin();
    make_and_free(MPI_COMM_SELF, 10000);
    make_and_free(MPI_COMM_WORLD, 1000);
    long before = memory_kib("VmRSS");
    make_and_free(MPI_COMM_SELF, check_size == 1 ? 1000000 : 50000);
    make_and_free(MPI_COMM_WORLD, 70000);
    long grown = memory_kib("VmRSS") - before;
    CHECK(grown < GROWTH_KIB_MAX, "memory grew by %ld KiB", grown);
    // Old and new communicators do not mix.
    MPI_Comm comm;
    int value = check_rank, sum = -1;
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    OK(MPI_Allreduce(&value, &sum, 1, MPI_INT, MPI_SUM, comm));
    CHECK_EQ(sum, check_size * (check_size - 1) / 2);
    OK(MPI_Comm_free(&comm));
    return check_end();
}
