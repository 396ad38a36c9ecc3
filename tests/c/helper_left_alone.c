// A nonblocking exchange of short messages wakes no helper: once its own messages have left, only
// the messages of others are missing, and no other process waits for this one. So the helper is not
// woken, which would interrupt the program again and again.
// run: 2 3
// one machine: the messages of other machines wake helpers
#include "check.h"

#include <dirent.h>

enum { OPERATIONS = 20000 };

// How often the thread of this process with that name has slept; -1: there is none.
static long sleeps_of_helper(void) {
    long found = -1;
    DIR *folder = opendir("/proc/self/task");
    REQUIRE(folder, "/proc/self/task cannot be read");
    for (struct dirent *entry; (entry = readdir(folder));) {
        char path[300], line[200];
        snprintf(path, sizeof path, "/proc/self/task/%s/status", entry->d_name);
        FILE *file = fopen(path, "r");
        if (!file) continue;
        int is_helper = 0;
        while (fgets(line, sizeof line, file)) {
            long count;
            if (strstr(line, "Name:") == line) is_helper = strstr(line, "combray-helper") != NULL;
            if (is_helper && sscanf(line, "voluntary_ctxt_switches: %ld", &count) == 1)
                found = count;
        }
        fclose(file);
    }
    closedir(folder);
    return found;
}

static void exchange(MPI_Comm ring) {
    long out[2] = {check_rank, check_rank}, in[2] = {-1, -1};
    MPI_Request request;
    OK(MPI_Ineighbor_alltoall(out, 1, MPI_LONG, in, 1, MPI_LONG, ring, &request));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    CHECK_EQ(in[0], (check_rank + check_size - 1) % check_size);
    CHECK_EQ(in[1], (check_rank + 1) % check_size);
}

int main(void) {
    check_begin();
    int periodic = 1;
    MPI_Comm ring;
    OK(MPI_Cart_create(MPI_COMM_WORLD, 1, &check_size, &periodic, 0, &ring));
    for (int i = 0; i < OPERATIONS / 10; i++) exchange(ring);
    long before = sleeps_of_helper();
    double start = MPI_Wtime();
    for (int i = 0; i < OPERATIONS; i++) exchange(ring);
    double milliseconds = (MPI_Wtime() - start) * 1e3;
    long slept = sleeps_of_helper() - before;
    // It polls by itself once in some milliseconds; if woken, it would sleep 312 times more at
    // least.
    CHECK(before < 0 || slept < 30 + milliseconds, "the helper slept %ld times in %.0f ms", slept,
          milliseconds);
    OK(MPI_Comm_free(&ring));
    return check_end();
}
