// What hangs on windows: the attributes of the standard and of the program, names, hints, groups,
// integers for Fortran; thousands of windows, one after the other and at once.
// run: 1 2 3
// hosts
// checkers: address
#include "windows.h"

static int deleted;

static int count_deletion(MPI_Win win, int keyval, void *value, void *state) {
    (void)win, (void)keyval;
    CHECK(value == &deleted && state == &check_rank);
    deleted++;
    return MPI_SUCCESS;
}

static void *attribute(const Window *window, int keyval) {
    void *value = NULL;
    int found = 0;
    OK(MPI_Win_get_attr(window->win, keyval, &value, &found));
    CHECK(found, "keyval %d", keyval);
    return value;
}

static void attributes(const Window *window, MPI_Aint size) {
    int flavors[FLAVORS] = {MPI_WIN_FLAVOR_CREATE, MPI_WIN_FLAVOR_ALLOCATE, MPI_WIN_FLAVOR_SHARED,
                            MPI_WIN_FLAVOR_DYNAMIC};
    int dynamic = window->flavor == DYNAMIC;
    CHECK(attribute(window, MPI_WIN_BASE) == (dynamic ? MPI_BOTTOM : window->memory));
    CHECK_EQ(*(MPI_Aint *)attribute(window, MPI_WIN_SIZE), dynamic ? 0 : size);
    CHECK_EQ(*(int *)attribute(window, MPI_WIN_DISP_UNIT), 1);
    CHECK_EQ(*(int *)attribute(window, MPI_WIN_CREATE_FLAVOR), flavors[window->flavor]);
    int *model = attribute(window, MPI_WIN_MODEL);
    if (check_is_combray) CHECK_EQ(*model, MPI_WIN_UNIFIED);
    int keyval, found, other;
    void *value;
    if (check_is_combray)
        EXPECT_ERROR(MPI_Win_set_attr(window->win, MPI_WIN_BASE, &found), MPI_ERR_KEYVAL);
    OK(MPI_Win_create_keyval(MPI_WIN_NULL_COPY_FN, count_deletion, &keyval, &check_rank));
    OK(MPI_Win_get_attr(window->win, keyval, &value, &found));
    CHECK(!found);
    OK(MPI_Win_set_attr(window->win, keyval, &deleted));
    CHECK(attribute(window, keyval) == &deleted);
    int before = deleted;
    OK(MPI_Win_delete_attr(window->win, keyval));
    CHECK_EQ(deleted, before + 1);
    // This one is deleted with the window.
    OK(MPI_Win_set_attr(window->win, keyval, &deleted));
    OK(MPI_Win_free_keyval(&keyval));
    CHECK_EQ(keyval, MPI_KEYVAL_INVALID);
    OK(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN, &other, NULL));
    EXPECT_ERROR(MPI_Win_set_attr(window->win, other, NULL), MPI_ERR_KEYVAL);
    OK(MPI_Comm_free_keyval(&other));
}

static void names_and_hints(const Window *window) {
    char name[MPI_MAX_OBJECT_NAME];
    int length, found;
    OK(MPI_Win_get_name(window->win, name, &length));
    CHECK_EQ(length, 0);
    OK(MPI_Win_set_name(window->win, "a view of the sea"));
    OK(MPI_Win_get_name(window->win, name, &length));
    CHECK(!strcmp(name, "a view of the sea") && length == (int)strlen(name));
    OK(MPI_Win_get_name(MPI_WIN_NULL, name, &length));
    CHECK(!strcmp(name, "MPI_WIN_NULL"));
    MPI_Info info, given;
    OK(MPI_Info_create(&info));
    OK(MPI_Info_set(info, "accumulate_ordering", "none"));
    OK(MPI_Info_set(info, "no_locks", "true"));
    OK(MPI_Win_set_info(window->win, info));
    OK(MPI_Win_get_info(window->win, &given));
    char value[32] = "";
    length = sizeof value;
    OK(MPI_Info_get_string(given, "accumulate_ordering", &length, value, &found));
    if (check_is_combray) CHECK(found && !strcmp(value, "none"));
    OK(MPI_Info_free(&given));
    OK(MPI_Info_free(&info));
    MPI_Group world, group;
    int relation;
    OK(MPI_Comm_group(MPI_COMM_WORLD, &world));
    OK(MPI_Win_get_group(window->win, &group));
    OK(MPI_Group_compare(world, group, &relation));
    CHECK_EQ(relation, MPI_IDENT);
    OK(MPI_Group_free(&world));
    OK(MPI_Group_free(&group));
    CHECK(MPI_Win_fromint(MPI_Win_toint(window->win)) == window->win);
    CHECK(MPI_Win_fromint(MPI_Win_toint(MPI_WIN_NULL)) == MPI_WIN_NULL);
}

static void many(void) {
    enum { ROUNDS = 300, AT_ONCE = 30 };
    static Window windows[AT_ONCE];
    int flavors[FLAVORS] = {CREATED, ALLOCATED, window_exists(SHARED) ? SHARED : ALLOCATED, DYNAMIC};
    for (int i = 0; i < ROUNDS; i++) {
        Window window = window_open(flavors[i % FLAVORS], 100);
        window_close(&window);
    }
    for (int i = 0; i < AT_ONCE; i++) windows[i] = window_open(flavors[i % FLAVORS], 100);
    for (int i = 0; i < AT_ONCE; i++) OK(MPI_Win_lock_all(0, windows[i].win));
    for (int i = 0; i < AT_ONCE; i++) {
        int next = (check_rank + 1) % check_size, value = i * 10 + check_rank;
        OK(MPI_Put(&value, 1, MPI_INT, next, window_at(&windows[i], next, 0), 1, MPI_INT,
                   windows[i].win));
        OK(MPI_Win_flush_all(windows[i].win));
    }
    OK(MPI_Barrier(MPI_COMM_WORLD));
    for (int i = 0; i < AT_ONCE; i++) {
        OK(MPI_Win_unlock_all(windows[i].win));
        CHECK_EQ(*(int *)windows[i].memory, i * 10 + (check_rank + check_size - 1) % check_size);
    }
    OK(MPI_Barrier(MPI_COMM_WORLD));
    for (int i = AT_ONCE - 1; i >= 0; i--) window_close(&windows[i]);
}

int main(void) {
    check_begin();
    for (int flavor = 0; flavor < FLAVORS; flavor++) {
        if (!window_exists(flavor)) continue;
        Window window = window_open(flavor, 48);
        names_and_hints(&window);
        attributes(&window, 48);
        int before = deleted;
        window_close(&window);
        CHECK_EQ(deleted, before + 1);
    }
    many();
    return check_end();
}
