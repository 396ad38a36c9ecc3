// MPI_THREAD_MULTIPLE: one thread converts handles to integers and back while others make and free
// objects of these kinds, and communicate. Each handle is converted back to its value.
// run: 1 2
// thread
// timeout: 60
#include "check.h"
#include <pthread.h>

enum { ROUNDS = 100000, MESSAGES = 300 };

static int made;
static pthread_barrier_t together;

// Makes and frees an object of each kind.
static void *make(void *unused) {
    pthread_barrier_wait(&together);
    for (int round = 0; round < CHECK_ROUNDS(ROUNDS); round++) {
        MPI_Info info;
        MPI_Datatype type;
        MPI_Request request;
        MPI_Group group;
        char byte = 0;
        MPI_Info_create(&info);
        MPI_Type_contiguous(3, MPI_INT, &type);
        MPI_Send_init(&byte, 1, MPI_CHAR, 0, 1, MPI_COMM_SELF, &request);
        MPI_Comm_group(MPI_COMM_SELF, &group);
        MPI_Group_free(&group);
        MPI_Request_free(&request);
        MPI_Type_free(&type);
        MPI_Info_free(&info);
    }
    __atomic_store_n(&made, 1, __ATOMIC_RELEASE);
    return unused;
}

// Sends messages round in a circle.
static void *communicate(void *unused) {
    int next = (check_rank + 1) % check_size, before = (check_rank + check_size - 1) % check_size;
    for (int round = 0; round < CHECK_ROUNDS(MESSAGES); round++) {
        int out = round, in = -1;
        MPI_Sendrecv(&out, 1, MPI_INT, next, 3, &in, 1, MPI_INT, before, 3, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
        CHECK(in == round, "round %d: %d came", round, in);
    }
    return unused;
}

// Converts as long as objects are made.
static void convert(void) {
    pthread_barrier_wait(&together);
    MPI_Info info;
    MPI_Datatype type;
    MPI_Request kept, begun;
    MPI_Group group;
    char byte = 0;
    MPI_Info_create(&info);
    MPI_Type_contiguous(5, MPI_INT, &type);
    MPI_Recv_init(&byte, 1, MPI_CHAR, 0, 2, MPI_COMM_SELF, &kept);
    MPI_Irecv(&byte, 1, MPI_CHAR, 0, 4, MPI_COMM_SELF, &begun);
    MPI_Comm_group(MPI_COMM_WORLD, &group);
    for (int round = 0; round < CHECK_ROUNDS(ROUNDS) || !__atomic_load_n(&made, __ATOMIC_ACQUIRE); round++) {
        CHECK(MPI_Info_fromint(MPI_Info_toint(info)) == info, "round %d", round);
        CHECK(MPI_Type_fromint(MPI_Type_toint(type)) == type, "round %d", round);
        CHECK(MPI_Request_fromint(MPI_Request_toint(kept)) == kept, "round %d", round);
        CHECK(MPI_Request_fromint(MPI_Request_toint(begun)) == begun, "round %d", round);
        CHECK(MPI_Group_fromint(MPI_Group_toint(group)) == group, "round %d", round);
    }
    MPI_Send(&byte, 1, MPI_CHAR, 0, 4, MPI_COMM_SELF);
    MPI_Wait(&begun, MPI_STATUS_IGNORE);
    MPI_Request_free(&kept);
    MPI_Group_free(&group);
    MPI_Type_free(&type);
    MPI_Info_free(&info);
}

int main(void) {
    int provided;
    MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &provided);
    check_world();
    REQUIRE(provided == MPI_THREAD_MULTIPLE, "level %d", provided);
    pthread_t maker, messenger;
    pthread_barrier_init(&together, NULL, 2);
    pthread_create(&maker, NULL, make, NULL);
    pthread_create(&messenger, NULL, communicate, NULL);
    convert();
    pthread_join(maker, NULL);
    pthread_join(messenger, NULL);
    return check_end();
}
