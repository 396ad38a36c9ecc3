// Communicators that functions of the program free while a call of the library uses them: the call
// goes on as if they were there, and they are gone afterwards. Also many that are made, used and
// freed.
// run: 1 2 4
// checkers: address memory
#include "check.h"

enum { ROUNDS = CHECK_ROUNDS(2000), ALIVE = 20 };

static MPI_Comm victim;
static int called;

static int free_victim_at_copy(MPI_Comm comm, int key, void *state, void *value, void *copy, int *flag) {
    (void)key, (void)state, (void)value, (void)copy;
    CHECK(comm == victim, "another communicator is copied");
    OK(MPI_Comm_free(&victim));
    called++;
    *flag = 0;
    return MPI_SUCCESS;
}

static int free_victim_at_delete(MPI_Comm comm, int key, void *value, void *state) {
    (void)comm, (void)key, (void)value, (void)state;
    if (victim == MPI_COMM_NULL) return MPI_SUCCESS;
    MPI_Comm once = victim;
    victim = MPI_COMM_NULL;
    OK(MPI_Comm_free(&once));
    called++;
    return MPI_SUCCESS;
}

static void free_victim_at_error(MPI_Comm *comm, int *code, ...) {
    (void)code;
    CHECK(*comm == victim, "the error is of another communicator");
    OK(MPI_Comm_free(&victim));
    called++;
}

static void use(MPI_Comm comm) {
    int one = 1, sum = 0, rank = -1, size = -1;
    OK(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comm));
    OK(MPI_Comm_rank(comm, &rank));
    OK(MPI_Comm_size(comm, &size));
    CHECK(sum == check_size && rank == check_rank && size == check_size, "sum %d, rank %d, size %d", sum,
          rank, size);
    int next = (rank + 1) % size, before = (rank + size - 1) % size, got = -1;
    OK(MPI_Sendrecv(&rank, 1, MPI_INT, next, 5, &got, 1, MPI_INT, before, 5, comm, MPI_STATUS_IGNORE));
    CHECK_EQ(got, before);
}

static void freed_while_it_is_copied(void) {
    int key;
    MPI_Comm copy;
    OK(MPI_Comm_create_keyval(free_victim_at_copy, MPI_COMM_NULL_DELETE_FN, &key, NULL));
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &victim));
    OK(MPI_Comm_set_attr(victim, key, &key));
    use(victim);
    called = 0;
    OK(MPI_Comm_dup(victim, &copy));
    CHECK_EQ(called, 1);
    use(copy);
    OK(MPI_Comm_free(&copy));
    OK(MPI_Comm_free_keyval(&key));
}

static void freed_while_an_attribute_is_deleted(void) {
    int key;
    OK(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, free_victim_at_delete, &key, NULL));
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &victim));
    MPI_Comm known = victim;
    OK(MPI_Comm_set_attr(victim, key, &key));
    use(victim);
    called = 0;
    int rank = -1, code = MPI_Comm_delete_attr(known, key);
    CHECK(code == MPI_SUCCESS && called == 1, "code %d, called %d times", code, called);
    if (check_is_combray) EXPECT_ERROR(MPI_Comm_rank(known, &rank), MPI_ERR_COMM, "freed");
    OK(MPI_Comm_free_keyval(&key));
}

static void freed_by_its_error_handler(void) {
    MPI_Errhandler handler;
    OK(MPI_Comm_create_errhandler(free_victim_at_error, &handler));
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &victim));
    OK(MPI_Comm_set_errhandler(victim, handler));
    use(victim);
    called = 0;
    int code = MPI_Send(&code, 1, MPI_INT, check_size + 7, 0, victim), class = -1;
    MPI_Error_class(code, &class);
    CHECK(class == MPI_ERR_RANK && called == 1, "class %d, called %d times", class, called);
    CHECK(victim == MPI_COMM_NULL, "it is still there");
    OK(MPI_Errhandler_free(&handler));
}

// A handle that was used lately and freed is refused, also where another one has its place.
static void many_come_and_go(void) {
    MPI_Comm alive[ALIVE];
    for (int i = 0; i < ALIVE; i++) OK(MPI_Comm_dup(MPI_COMM_WORLD, &alive[i]));
    for (int round = 0; round < ROUNDS; round++) {
        int i = round * 7 % ALIVE, rank = -1;
        use(alive[(round + 3) % ALIVE]);
        MPI_Comm former = alive[i];
        OK(MPI_Comm_free(&alive[i]));
        if (check_is_combray && round % 50 == 0)
            EXPECT_ERROR(MPI_Comm_rank(former, &rank), MPI_ERR_COMM, "freed");
        OK(MPI_Comm_dup(MPI_COMM_WORLD, &alive[i]));
        if (check_is_combray && round % 50 == 0)
            EXPECT_ERROR(MPI_Comm_size(former, &rank), MPI_ERR_COMM, "freed");
        use(alive[i]);
    }
    for (int i = 0; i < ALIVE; i++) OK(MPI_Comm_free(&alive[i]));
}

int main(void) {
    check_begin();
    for (int turn = 0; turn < 3; turn++) {
        freed_while_it_is_copied();
        if (check_is_combray) freed_while_an_attribute_is_deleted();
        freed_by_its_error_handler();
    }
    many_come_and_go();
    return check_end();
}
