// Making communicators: dup, split with keys and MPI_UNDEFINED, create, create_group, split_type,
// compare, names, infos; wrong arguments; a duplicate's messages stay apart.
// run: 1 2 3 5
// hosts
// checkers: address
#include "check.h"

static void duplicates(void) {
    MPI_Comm copy;
    MPI_Request request;
    int result, value = check_rank, got = -1;
    int next = (check_rank + 1) % check_size, before = (check_rank + check_size - 1) % check_size;
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &copy));
    OK(MPI_Comm_compare(MPI_COMM_WORLD, copy, &result));
    CHECK_EQ(result, MPI_CONGRUENT);
    OK(MPI_Comm_compare(copy, copy, &result));
    CHECK_EQ(result, MPI_IDENT);
    // Equal ranks and tag on both: each receive gets its own communicator's message.
    int on_copy = 1000 + check_rank, got_copy = -1;
    MPI_Request sends[2];
    OK(MPI_Isend(&value, 1, MPI_INT, next, 0, MPI_COMM_WORLD, &sends[0]));
    OK(MPI_Isend(&on_copy, 1, MPI_INT, next, 0, copy, &sends[1]));
    OK(MPI_Recv(&got_copy, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, copy, MPI_STATUS_IGNORE));
    OK(MPI_Recv(&got, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    OK(MPI_Waitall(2, sends, MPI_STATUSES_IGNORE));
    CHECK_EQ(got, before);
    CHECK_EQ(got_copy, 1000 + before);
    // Freed while a receive is pending on it: the message still arrives.
    OK(MPI_Irecv(&got, 1, MPI_INT, before, 4, copy, &request));
    OK(MPI_Send(&value, 1, MPI_INT, next, 4, copy));
    OK(MPI_Comm_free(&copy));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    CHECK_EQ(got, before);
}

static void splits(void) {
    MPI_Comm part;
    int rank, size, sum;
    OK(MPI_Comm_split(MPI_COMM_WORLD, check_rank % 2, -check_rank, &part));
    OK(MPI_Comm_rank(part, &rank));
    OK(MPI_Comm_size(part, &size));
    int parity = check_rank % 2, expected_size = (check_size + 1 - parity) / 2;
    CHECK_EQ(size, expected_size);
    // Keys are descending: the order is turned round.
    CHECK_EQ(rank, expected_size - 1 - check_rank / 2);
    OK(MPI_Allreduce(&check_rank, &sum, 1, MPI_INT, MPI_SUM, part));
    CHECK_EQ(sum, expected_size * (expected_size - 1) + parity * expected_size);
    OK(MPI_Comm_free(&part));
    // Equal keys keep the old order.
    OK(MPI_Comm_split(MPI_COMM_WORLD, 5, 5, &part));
    OK(MPI_Comm_rank(part, &rank));
    CHECK_EQ(rank, check_rank);
    OK(MPI_Comm_free(&part));
    OK(MPI_Comm_split(MPI_COMM_WORLD, check_rank == 0 ? MPI_UNDEFINED : 0, 0, &part));
    CHECK((part == MPI_COMM_NULL) == (check_rank == 0), "only rank 0 has none");
    if (part != MPI_COMM_NULL) OK(MPI_Comm_free(&part));
    OK(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, -check_rank, MPI_INFO_NULL, &part));
    OK(MPI_Comm_size(part, &size));
    OK(MPI_Comm_rank(part, &rank));
    // Those of this machine, the highest rank first.
    int before = check_size;
    for (int i = 0; i < size; i++) {
        int other = check_rank;
        OK(MPI_Bcast(&other, 1, MPI_INT, i, part));
        CHECK(other < before, "rank %d of the part is %d, after %d", i, other, before);
        CHECK((i == rank) == (other == check_rank));
        before = other;
    }
    OK(MPI_Comm_free(&part));
    OK(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_UNDEFINED, 0, MPI_INFO_NULL, &part));
    CHECK(part == MPI_COMM_NULL, "MPI_UNDEFINED gives none");
}

static void from_groups(void) {
    MPI_Group world, odd;
    MPI_Comm made;
    int ranks[64], count = 0, rank, result;
    OK(MPI_Comm_group(MPI_COMM_WORLD, &world));
    for (int i = check_size - 1; i >= 0; i--)
        if (i % 2 == 0) ranks[count++] = i;
    OK(MPI_Group_incl(world, count, ranks, &odd));
    OK(MPI_Comm_create(MPI_COMM_WORLD, odd, &made));
    if (check_rank % 2 == 0) {
        OK(MPI_Comm_rank(made, &rank));
        CHECK_EQ(ranks[rank], check_rank);
        OK(MPI_Comm_compare(made, MPI_COMM_WORLD, &result));
        CHECK_EQ(result, check_size == 1 ? MPI_CONGRUENT : MPI_UNEQUAL);
        OK(MPI_Barrier(made));
        OK(MPI_Comm_free(&made));
        // Only the members call: the others need not.
        OK(MPI_Comm_create_group(MPI_COMM_WORLD, odd, 77, &made));
        OK(MPI_Comm_rank(made, &rank));
        CHECK_EQ(ranks[rank], check_rank);
        OK(MPI_Barrier(made));
        OK(MPI_Comm_free(&made));
    } else {
        CHECK(made == MPI_COMM_NULL, "not a member");
    }
    OK(MPI_Comm_create(MPI_COMM_WORLD, MPI_GROUP_EMPTY, &made));
    CHECK(made == MPI_COMM_NULL, "nobody is a member");
    OK(MPI_Group_free(&odd));
    OK(MPI_Group_free(&world));
}

static void similar(void) {
    MPI_Comm turned;
    int result;
    OK(MPI_Comm_split(MPI_COMM_WORLD, 0, check_size - check_rank, &turned));
    OK(MPI_Comm_compare(MPI_COMM_WORLD, turned, &result));
    CHECK_EQ(result, check_size == 1 ? MPI_CONGRUENT : MPI_SIMILAR);
    OK(MPI_Comm_free(&turned));
}

static void names_and_infos(void) {
    char name[MPI_MAX_OBJECT_NAME], value[64];
    MPI_Comm copy;
    MPI_Info info;
    int length, found, buffer_length = sizeof value, flag;
    OK(MPI_Comm_get_name(MPI_COMM_SELF, name, &length));
    CHECK(!strcmp(name, "MPI_COMM_SELF"), "%s", name);
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &copy));
    OK(MPI_Comm_get_name(copy, name, &length));
    CHECK_EQ(length, 0);
    OK(MPI_Comm_set_name(copy, "the copy"));
    OK(MPI_Comm_get_name(copy, name, &length));
    CHECK(!strcmp(name, "the copy") && length == 8, "%s", name);
    char longest[MPI_MAX_OBJECT_NAME + 40];
    memset(longest, 'x', sizeof longest - 1);
    longest[sizeof longest - 1] = 0;
    // A name that is too long is cut, never written past its end.
    MPI_Comm_set_name(copy, longest);
    OK(MPI_Comm_get_name(copy, name, &length));
    CHECK(length < MPI_MAX_OBJECT_NAME && length == (int)strlen(name), "%d", length);
    OK(MPI_Comm_test_inter(copy, &flag));
    CHECK_EQ(flag, 0);
    OK(MPI_Comm_free(&copy));
    OK(MPI_Info_create(&info));
    OK(MPI_Info_set(info, "mpi_assert_no_any_tag", "true"));
    OK(MPI_Comm_dup_with_info(MPI_COMM_WORLD, info, &copy));
    OK(MPI_Info_free(&info));
    OK(MPI_Comm_get_info(copy, &info));
    OK(MPI_Info_get_string(info, "mpi_assert_no_any_tag", &buffer_length, value, &found));
    OK(MPI_Info_free(&info));
    OK(MPI_Comm_free(&copy));
}

static void wrong_arguments(void) {
    MPI_Comm made;
    MPI_Group world;
    if (check_is_combray)
        EXPECT_ERROR(MPI_Comm_split(MPI_COMM_WORLD, -5, 0, &made), MPI_ERR_ARG, "color", "-5");
    EXPECT_ERROR(MPI_Comm_split_type(MPI_COMM_WORLD, 12345, 0, MPI_INFO_NULL, &made), MPI_ERR_ARG,
                 "split_type", "12345");
    OK(MPI_Comm_group(MPI_COMM_WORLD, &world));
    EXPECT_ERROR(MPI_Comm_create(MPI_COMM_SELF, MPI_GROUP_NULL, &made), MPI_ERR_GROUP, "group");
    EXPECT_ERROR(MPI_Comm_create_group(MPI_COMM_WORLD, world, -1, &made), MPI_ERR_TAG, "tag", "-1");
    OK(MPI_Group_free(&world));
}

int main(void) {
    check_begin();
    duplicates();
    splits();
    from_groups();
    similar();
    names_and_infos();
    wrong_arguments();
    OK(MPI_Barrier(MPI_COMM_WORLD));
    return check_end();
}
