// Intercommunicators: making, splitting, duplicating and merging them; messages and all collective
// operations between two sides of any size; wrong use returns errors.
// run: 1 2 3 5
// hosts
// checkers: address
#include "check.h"

enum { LENGTH_MAX = 2000 };

static MPI_Comm inter;
static int own_side, rank, size, remote_size;

static int value(int side, int from, int at) { return side * 1000000 + from * 10007 + at; }

static int *filled(int length) {
    int *data = malloc(sizeof(int) * (size_t)(length + 1));
    for (int i = 0; i < length; i++) data[i] = value(own_side, rank, i);
    return data;
}

static int *room(int length) {
    int *data = malloc(sizeof(int) * (size_t)(length + 1));
    for (int i = 0; i <= length; i++) data[i] = -1;
    return data;
}

static MPI_Comm make(int first_size, int tag) {
    MPI_Comm local, made;
    own_side = check_rank >= first_size;
    OK(MPI_Comm_split(MPI_COMM_WORLD, own_side, check_rank, &local));
    OK(MPI_Intercomm_create(local, 0, MPI_COMM_WORLD, own_side ? 0 : first_size, tag, &made));
    OK(MPI_Comm_free(&local));
    OK(MPI_Comm_set_errhandler(made, MPI_ERRORS_RETURN));
    OK(MPI_Comm_rank(made, &rank));
    OK(MPI_Comm_size(made, &size));
    OK(MPI_Comm_remote_size(made, &remote_size));
    return made;
}

// The root as each process names it.
static int named_root(int side, int root) {
    if (side != own_side) return root;
    return rank == root ? MPI_ROOT : MPI_PROC_NULL;
}

static void rooted(int side, int root, int n) {
    int name = named_root(side, root), total = n * remote_size, bad = 0;
    int *data = filled(n), *all = room(total), *parts = filled(total), *part = room(n);
    MPI_Request request;

    int *message = name == MPI_ROOT ? data : part;
    OK(MPI_Bcast(name == MPI_PROC_NULL ? NULL : message, n, MPI_INT, name, inter));
    for (int i = 0; name >= 0 && i < n; i++) bad += part[i] != value(side, root, i);
    CHECK(bad == 0, "bcast of %d: %d wrong", n, bad);

    OK(MPI_Igather(data, n, MPI_INT, all, n, MPI_INT, name, inter, &request));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    for (int i = 0; name == MPI_ROOT && i < total; i++)
        bad += all[i] != value(!own_side, i / (n ? n : 1), i % (n ? n : 1));
    CHECK(bad == 0, "gather of %d: %d wrong", n, bad);

    for (int i = 0; i < n; i++) part[i] = -1;
    OK(MPI_Scatter(parts, n, MPI_INT, part, n, MPI_INT, name, inter));
    for (int i = 0; name >= 0 && i < n; i++) bad += part[i] != value(side, root, rank * n + i);
    CHECK(bad == 0, "scatter of %d: %d wrong", n, bad);

    OK(MPI_Reduce(data, part, n, MPI_INT, MPI_SUM, name, inter));
    for (int i = 0; name == MPI_ROOT && i < n; i++) {
        int sum = 0;
        for (int from = 0; from < remote_size; from++) sum += value(!own_side, from, i);
        bad += part[i] != sum;
    }
    CHECK(bad == 0, "reduce of %d: %d wrong", n, bad);
    free(data), free(all), free(parts), free(part);
}

static void everybody(int n) {
    int total = n * remote_size, bad = 0;
    int *data = filled(n), *all = room(total), *parts = filled(total), *part = room(n);
    OK(MPI_Barrier(inter));
    OK(MPI_Allgather(data, n, MPI_INT, all, n, MPI_INT, inter));
    for (int i = 0; i < total; i++) bad += all[i] != value(!own_side, i / n, i % n);
    CHECK(bad == 0, "allgather of %d: %d wrong", n, bad);
    OK(MPI_Alltoall(parts, n, MPI_INT, all, n, MPI_INT, inter));
    for (int i = 0; i < total; i++) bad += all[i] != value(!own_side, i / n, rank * n + i % n);
    CHECK(bad == 0, "alltoall of %d: %d wrong", n, bad);
    OK(MPI_Allreduce(data, part, n, MPI_INT, MPI_MAX, inter));
    for (int i = 0; i < n; i++) bad += part[i] != value(!own_side, remote_size - 1, i);
    CHECK(bad == 0, "allreduce of %d: %d wrong", n, bad);
    free(data), free(all), free(parts), free(part);

    // Both sides contribute as many elements, however they are distributed.
    int elements = size * remote_size, share = remote_size;
    int *operands = filled(elements), *reduced = room(share);
    OK(MPI_Reduce_scatter_block(operands, reduced, share, MPI_INT, MPI_SUM, inter));
    for (int i = 0; i < share; i++) {
        int sum = 0;
        for (int from = 0; from < remote_size; from++) sum += value(!own_side, from, rank * share + i);
        bad += reduced[i] != sum;
    }
    CHECK(bad == 0, "reduce_scatter_block: %d wrong", bad);
    free(operands), free(reduced);
}

static void persistent(void) {
    int mine = 0, sum = 0;
    MPI_Request request;
    OK(MPI_Allreduce_init(&mine, &sum, 1, MPI_INT, MPI_SUM, inter, MPI_INFO_NULL, &request));
    for (int turn = 0; turn < 10; turn++) {
        mine = turn + own_side;
        OK(MPI_Start(&request));
        OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        CHECK_EQ(sum, remote_size * (turn + !own_side));
    }
    OK(MPI_Request_free(&request));
}

static void messages(void) {
    int sent = value(own_side, rank, 7), got = -1;
    MPI_Status status;
    if (rank < remote_size) {
        OK(MPI_Sendrecv(&sent, 1, MPI_INT, rank, 3, &got, 1, MPI_INT, MPI_ANY_SOURCE, 3, inter, &status));
        CHECK_EQ(got, value(!own_side, rank, 7));
        CHECK_EQ(status.MPI_SOURCE, rank);
    }
    EXPECT_ERROR(MPI_Send(&sent, 1, MPI_INT, remote_size, 0, inter), MPI_ERR_RANK, "dest");
}

static void relatives(void) {
    MPI_Comm copy, merged, split, passing;
    MPI_Request request;
    int result, is_inter, merged_rank;
    OK(MPI_Comm_test_inter(inter, &is_inter));
    CHECK(is_inter);
    OK(MPI_Comm_dup(inter, &copy));
    OK(MPI_Comm_compare(inter, copy, &result));
    CHECK_EQ(result, MPI_CONGRUENT);
    OK(MPI_Comm_idup(inter, &passing, &request));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    OK(MPI_Barrier(passing));
    OK(MPI_Comm_free(&passing));
    for (int high = 0; high < 2; high++) {
        OK(MPI_Intercomm_merge(copy, own_side == high, &merged));
        OK(MPI_Comm_rank(merged, &merged_rank));
        CHECK_EQ(merged_rank, own_side == high ? remote_size + rank : rank);
        OK(MPI_Barrier(merged));
        OK(MPI_Comm_free(&merged));
    }
    // Each process with the process of equal rank on the other side.
    OK(MPI_Comm_split(copy, rank, 0, &split));
    if (rank < remote_size) {
        int there, got = -1;
        OK(MPI_Comm_remote_size(split, &there));
        CHECK_EQ(there, 1);
        OK(MPI_Allreduce(&rank, &got, 1, MPI_INT, MPI_SUM, split));
        CHECK_EQ(got, rank);
        OK(MPI_Comm_free(&split));
    } else {
        CHECK(split == MPI_COMM_NULL);
    }
    OK(MPI_Comm_free(&copy));
}

static void wrong_use(void) {
    int data = 0, got = 0;
    MPI_Comm made, local;
    EXPECT_ERROR(MPI_Scan(&data, &got, 1, MPI_INT, MPI_SUM, inter), MPI_ERR_COMM, "order");
    EXPECT_ERROR(MPI_Allreduce(MPI_IN_PLACE, &got, 1, MPI_INT, MPI_SUM, inter), MPI_ERR_BUFFER,
                 "MPI_IN_PLACE");
    EXPECT_ERROR(MPI_Bcast(&data, 1, MPI_INT, remote_size, inter), MPI_ERR_ROOT, "root");
    EXPECT_ERROR(MPI_Bcast(&data, 1, MPI_INT, MPI_ROOT, MPI_COMM_WORLD), MPI_ERR_ROOT, "MPI_ROOT");
    EXPECT_ERROR(MPI_Intercomm_create(inter, 0, MPI_COMM_WORLD, 0, 0, &made), MPI_ERR_COMM,
                 "intercommunicator");
    EXPECT_ERROR(MPI_Intercomm_merge(MPI_COMM_WORLD, 0, &made), MPI_ERR_COMM, "merge");
    OK(MPI_Comm_split(MPI_COMM_WORLD, check_rank, 0, &local));
    OK(MPI_Comm_set_errhandler(local, MPI_ERRORS_RETURN));
    EXPECT_ERROR(MPI_Intercomm_create(local, 1, MPI_COMM_WORLD, 0, 0, &made), MPI_ERR_RANK,
                 "local_leader");
    EXPECT_ERROR(MPI_Intercomm_create(local, 0, MPI_COMM_WORLD, check_size, 0, &made), MPI_ERR_RANK);
    // The processes are on both sides.
    EXPECT_ERROR(MPI_Intercomm_create(local, 0, MPI_COMM_WORLD, check_rank, 0, &made), MPI_ERR_COMM,
                 "in both groups");
    OK(MPI_Comm_free(&local));
}

int main(void) {
    check_begin();
    for (int first = 1; first < check_size; first++) {
        inter = make(first, first);
        int lengths[] = {0, 1, 33, LENGTH_MAX};
        for (int l = 0; l < 4; l++) {
            for (int side = 0; side < 2; side++)
                for (int root = 0; root < (side == own_side ? size : remote_size); root++)
                    rooted(side, root, lengths[l]);
            if (lengths[l]) everybody(lengths[l]);
        }
        persistent();
        messages();
        relatives();
        if (first == 1) wrong_use();
        OK(MPI_Comm_free(&inter));
    }
    return check_end();
}
