// Groups against plain sets: union, intersection, difference, incl, excl and their ranges,
// translation and comparison, for random subsets of the world; wrong ranks and ranges.
// run: 1 5
// checkers: memory
#include "check.h"

enum { RANKS_MAX = 16 };
static MPI_Group world;

typedef struct {
    int count, ranks[RANKS_MAX];
    MPI_Group group;
} Set;

static int place_of(const Set *set, int rank) {
    for (int i = 0; i < set->count; i++)
        if (set->ranks[i] == rank) return i;
    return -1;
}

static Set random_set(Random *random) {
    Set set = {0};
    for (int tries = 0; tries < 2 * check_size; tries++) {
        int rank = random_below(random, check_size);
        if (place_of(&set, rank) < 0 && random_below(random, 2)) set.ranks[set.count++] = rank;
    }
    OK(MPI_Group_incl(world, set.count, set.ranks, &set.group));
    return set;
}

// The group must hold exactly these ranks of the world in this order.
static void judge(MPI_Group group, const int *expected, int count, const char *name) {
    int size, rank, mine = MPI_UNDEFINED, numbers[RANKS_MAX], translated[RANKS_MAX];
    OK(MPI_Group_size(group, &size));
    CHECK(size == count, "%s: %d ranks, not %d", name, size, count);
    for (int i = 0; i < count; i++) {
        numbers[i] = i;
        if (expected[i] == check_rank) mine = i;
    }
    OK(MPI_Group_rank(group, &rank));
    CHECK(rank == mine, "%s: rank %d, not %d", name, rank, mine);
    if (size != count) return;
    OK(MPI_Group_translate_ranks(group, count, numbers, world, translated));
    for (int i = 0; i < count; i++) CHECK(translated[i] == expected[i], "%s: place %d", name, i);
    if (count == 0) CHECK(group == MPI_GROUP_EMPTY || size == 0, "empty");
}

static void judge_operation(const Set *a, const Set *b) {
    int all[2 * RANKS_MAX], both[RANKS_MAX], only[RANKS_MAX], n_all = 0, n_both = 0, n_only = 0;
    MPI_Group made;
    for (int i = 0; i < a->count; i++) {
        all[n_all++] = a->ranks[i];
        if (place_of(b, a->ranks[i]) >= 0)
            both[n_both++] = a->ranks[i];
        else
            only[n_only++] = a->ranks[i];
    }
    for (int i = 0; i < b->count; i++)
        if (place_of(a, b->ranks[i]) < 0) all[n_all++] = b->ranks[i];
    OK(MPI_Group_union(a->group, b->group, &made));
    judge(made, all, n_all, "union");
    if (made != MPI_GROUP_EMPTY) OK(MPI_Group_free(&made));
    OK(MPI_Group_intersection(a->group, b->group, &made));
    judge(made, both, n_both, "intersection");
    if (made != MPI_GROUP_EMPTY) OK(MPI_Group_free(&made));
    OK(MPI_Group_difference(a->group, b->group, &made));
    judge(made, only, n_only, "difference");
    if (made != MPI_GROUP_EMPTY) OK(MPI_Group_free(&made));
    int result, same = a->count == b->count && !memcmp(a->ranks, b->ranks, a->count * sizeof(int));
    OK(MPI_Group_compare(a->group, b->group, &result));
    int similar = n_only == 0 && a->count == b->count;
    CHECK_EQ(result, same ? MPI_IDENT : similar ? MPI_SIMILAR : MPI_UNEQUAL);
    int translated[RANKS_MAX], numbers[RANKS_MAX];
    for (int i = 0; i < a->count; i++) numbers[i] = i;
    OK(MPI_Group_translate_ranks(a->group, a->count, numbers, b->group, translated));
    for (int i = 0; i < a->count; i++) {
        int place = place_of(b, a->ranks[i]);
        CHECK_EQ(translated[i], place < 0 ? MPI_UNDEFINED : place);
    }
}

static void ranges(void) {
    MPI_Group made;
    int last = check_size - 1, expected[RANKS_MAX], count = 0;
    int down[1][3] = {{last, 0, -2}};
    for (int rank = last; rank >= 0; rank -= 2) expected[count++] = rank;
    OK(MPI_Group_range_incl(world, 1, down, &made));
    judge(made, expected, count, "range_incl");
    OK(MPI_Group_free(&made));
    count = 0;
    for (int rank = 0; rank < check_size; rank++)
        if ((last - rank) % 2) expected[count++] = rank;
    OK(MPI_Group_range_excl(world, 1, down, &made));
    judge(made, expected, count, "range_excl");
    if (made != MPI_GROUP_EMPTY) OK(MPI_Group_free(&made));
    OK(MPI_Group_excl(world, 1, &last, &made));
    for (int rank = 0; rank < last; rank++) expected[rank] = rank;
    judge(made, expected, last, "excl");
    if (made != MPI_GROUP_EMPTY) OK(MPI_Group_free(&made));
}

static void wrong_arguments(void) {
    MPI_Group made;
    int beyond[1] = {check_size}, twice[2] = {0, 0}, out;
    int range[1][3] = {{0, check_size, 1}}, still[1][3] = {{0, check_size - 1, 0}};
    char text[16];
    snprintf(text, sizeof text, "%d", check_size);
    EXPECT_ERROR(MPI_Group_incl(world, 1, beyond, &made), MPI_ERR_RANK, "rank", text);
    EXPECT_ERROR(MPI_Group_excl(world, 1, beyond, &made), MPI_ERR_RANK, "rank", text);
    EXPECT_ERROR(MPI_Group_incl(world, -1, twice, &made), MPI_ERR_ARG, "-1");
    EXPECT_ERROR(MPI_Group_translate_ranks(world, 1, beyond, world, &out), MPI_ERR_RANK, "rank",
                 text);
    if (!check_is_combray) return;
    EXPECT_ERROR(MPI_Group_incl(world, 2, twice, &made), MPI_ERR_RANK, "rank", "0");
    EXPECT_ERROR(MPI_Group_range_incl(world, 1, range, &made), MPI_ERR_RANK, text);
    EXPECT_ERROR(MPI_Group_range_incl(world, 1, still, &made), MPI_ERR_ARG, "stride");
}

int main(void) {
    check_begin();
    OK(MPI_Comm_group(MPI_COMM_WORLD, &world));
    Random random = random_from(3);
    for (int i = 0; i < 300; i++) {
        Set a = random_set(&random), b = random_set(&random);
        judge(a.group, a.ranks, a.count, "incl");
        judge_operation(&a, &b);
        if (a.group != MPI_GROUP_EMPTY) OK(MPI_Group_free(&a.group));
        if (b.group != MPI_GROUP_EMPTY) OK(MPI_Group_free(&b.group));
    }
    ranges();
    wrong_arguments();
    int none = MPI_PROC_NULL, translated;
    OK(MPI_Group_translate_ranks(world, 1, &none, MPI_GROUP_EMPTY, &translated));
    CHECK_EQ(translated, MPI_PROC_NULL);
    OK(MPI_Group_free(&world));
    return check_end();
}
