// Ten thousand communicators made and freed, and as many datatypes, groups, infos, requests:
// contexts are given back, memory does not grow. Then a thousand at once.
// run: 2 3
// timeout: 60
#include "check.h"

enum { MADE = 10000, AT_ONCE = 1000, GROWTH_KIB_MAX = 6144 };

static void make_and_free(int round) {
    MPI_Comm comm;
    int mine = round, sum = 0;
    if (round % 3 == 0)
        OK(MPI_Comm_split(MPI_COMM_WORLD, check_rank % 2, 0, &comm));
    else
        OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    if (round % 100 == 0) {
        int size;
        OK(MPI_Comm_size(comm, &size));
        OK(MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, comm));
        CHECK_EQ(sum, round * size);
    }
    OK(MPI_Comm_free(&comm));
}

static void local_objects(void) {
    MPI_Datatype type;
    MPI_Group group;
    MPI_Info info;
    MPI_Request request;
    int value;
    OK(MPI_Type_vector(5, 2, 3, MPI_INT, &type));
    OK(MPI_Type_commit(&type));
    OK(MPI_Type_free(&type));
    OK(MPI_Comm_group(MPI_COMM_WORLD, &group));
    OK(MPI_Group_free(&group));
    OK(MPI_Info_create(&info));
    OK(MPI_Info_set(info, "key", "value"));
    OK(MPI_Info_free(&info));
    OK(MPI_Recv_init(&value, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, &request));
    OK(MPI_Request_free(&request));
}

int main(void) {
    check_begin();
    for (int i = 0; i < MADE / 10; i++) {
        make_and_free(i);
        local_objects();
    }
    long before = memory_kib("VmRSS");
    for (int i = 0; i < MADE; i++) {
        make_and_free(i);
        local_objects();
    }
    long grown = memory_kib("VmRSS") - before;
    CHECK(grown < GROWTH_KIB_MAX, "%d objects made and freed left %ld KiB", MADE, grown);
    static MPI_Comm comms[AT_ONCE];
    for (int i = 0; i < AT_ONCE; i++) OK(MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]));
    for (int i = 0; i < AT_ONCE; i += 37) {
        int mine = i, sum = 0;
        OK(MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, comms[i]));
        CHECK_EQ(sum, i * check_size);
    }
    for (int i = AT_ONCE - 1; i >= 0; i--) OK(MPI_Comm_free(&comms[i]));
    return check_end();
}
