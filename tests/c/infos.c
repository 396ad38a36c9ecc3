// Info objects: set, get, delete, order of keys, duplicates, lengths and limits, MPI_INFO_ENV.
// run: 1 2
// checkers: address memory
#include "check.h"

static void set_and_get(void) {
    MPI_Info info, copy;
    char key[MPI_MAX_INFO_KEY], value[100];
    int count, found, length;
    OK(MPI_Info_create(&info));
    OK(MPI_Info_get_nkeys(info, &count));
    CHECK_EQ(count, 0);
    OK(MPI_Info_set(info, "first", "1"));
    OK(MPI_Info_set(info, "second", "two words, and more"));
    OK(MPI_Info_set(info, "first", "one"));
    OK(MPI_Info_get_nkeys(info, &count));
    CHECK_EQ(count, 2);
    OK(MPI_Info_get_nthkey(info, 0, key));
    CHECK(!strcmp(key, "first"), "%s", key);
    OK(MPI_Info_get_nthkey(info, 1, key));
    CHECK(!strcmp(key, "second"), "%s", key);
    length = sizeof value;
    OK(MPI_Info_get_string(info, "first", &length, value, &found));
    CHECK(found && !strcmp(value, "one") && length == 4, "\"%s\", %d", value, length);
    // A short buffer gets what fits, and the length that is needed (MPI 5.0, section 10).
    length = 5;
    memset(value, 'z', sizeof value);
    OK(MPI_Info_get_string(info, "second", &length, value, &found));
    CHECK(found && !strcmp(value, "two ") && value[5] == 'z', "\"%s\"", value);
    CHECK_EQ(length, 20);
    length = 0;
    OK(MPI_Info_get_string(info, "second", &length, NULL, &found));
    CHECK_EQ(length, 20);
    OK(MPI_Info_get_string(info, "absent", &length, value, &found));
    CHECK_EQ(found, 0);
    // The deprecated call cuts; some libraries refuse.
    if (check_is_combray) {
        OK(MPI_Info_get(info, "second", 3, value, &found));
        CHECK(found && !strncmp(value, "two", 3) && !value[3], "\"%s\"", value);
    }
    OK(MPI_Info_get_valuelen(info, "second", &length, &found));
    CHECK_EQ(length, 19);
    OK(MPI_Info_dup(info, &copy));
    OK(MPI_Info_delete(info, "first"));
    EXPECT_ERROR(MPI_Info_delete(info, "first"), MPI_ERR_INFO_NOKEY, "first");
    OK(MPI_Info_get_nkeys(info, &count));
    CHECK_EQ(count, 1);
    OK(MPI_Info_get_nkeys(copy, &count));
    CHECK_EQ(count, 2);
    if (check_is_combray)
        EXPECT_ERROR(MPI_Info_get_nthkey(info, 1, key), MPI_ERR_INFO_KEY, "n", "1");
    OK(MPI_Info_free(&info));
    OK(MPI_Info_free(&copy));
    CHECK(copy == MPI_INFO_NULL, "null");
}

static void limits(void) {
    MPI_Info info;
    char key[MPI_MAX_INFO_KEY + 10], value[MPI_MAX_INFO_VAL + 10];
    OK(MPI_Info_create(&info));
    memset(key, 'k', sizeof key);
    memset(value, 'v', sizeof value);
    key[MPI_MAX_INFO_KEY - 1] = value[MPI_MAX_INFO_VAL - 1] = 0;
    OK(MPI_Info_set(info, key, value));
    key[MPI_MAX_INFO_KEY - 1] = 'k';
    key[MPI_MAX_INFO_KEY + 5] = 0;
    EXPECT_ERROR(MPI_Info_set(info, key, "x"), MPI_ERR_INFO_KEY, "key");
    EXPECT_ERROR(MPI_Info_set(info, "", "x"), MPI_ERR_INFO_KEY, "key");
    EXPECT_ERROR(MPI_Info_set(info, NULL, "x"), check_is_combray ? MPI_ERR_ARG : MPI_ERR_INFO_KEY,
                 "key");
    value[MPI_MAX_INFO_VAL - 1] = 'v';
    value[MPI_MAX_INFO_VAL + 5] = 0;
    EXPECT_ERROR(MPI_Info_set(info, "k", value), MPI_ERR_INFO_VALUE, "value");
    EXPECT_ERROR(MPI_Info_set(info, "k", NULL), MPI_ERR_ARG, "value");
    OK(MPI_Info_free(&info));
}

static void environment(void) {
    MPI_Info info;
    char value[MPI_MAX_INFO_VAL];
    int found, length = sizeof value, count;
    OK(MPI_Info_get_nkeys(MPI_INFO_ENV, &count));
    OK(MPI_Info_get_string(MPI_INFO_ENV, "maxprocs", &length, value, &found));
    if (check_is_combray) CHECK(found && atoi(value) == check_size, "maxprocs");
    OK(MPI_Info_dup(MPI_INFO_ENV, &info));
    OK(MPI_Info_free(&info));
    OK(MPI_Comm_get_info(MPI_COMM_WORLD, &info));
    OK(MPI_Info_free(&info));
}

int main(void) {
    check_begin();
    set_and_get();
    limits();
    environment();
    return check_end();
}
