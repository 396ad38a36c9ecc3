// The tools interface from end to end: every control and performance variable, category, event,
// source and enumeration is described and read, before MPI_Init, between, and after MPI_Finalize;
// strings come with their lengths; wrong indices, names and handles are found out.
// run: 1 2
// checkers: address
#include "check.h"

// Strings: room in, length with the zero byte out; no more is written than there is room for.
static void strings(int index) {
    char name[200], part[8], kept = 'x';
    int length = 0, whole;
    OK(MPI_T_cvar_get_info(index, NULL, &length, NULL, NULL, NULL, NULL, NULL, NULL, NULL));
    whole = length;
    CHECK(whole > 8 && whole < 200, "%d", whole);
    length = sizeof name;
    OK(MPI_T_cvar_get_info(index, name, &length, NULL, NULL, NULL, NULL, NULL, NULL, NULL));
    CHECK_EQ(length, whole);
    CHECK_EQ(strlen(name), whole - 1);
    memset(part, 'y', sizeof part);
    length = 5;
    OK(MPI_T_cvar_get_info(index, part, &length, NULL, NULL, NULL, NULL, NULL, NULL, NULL));
    CHECK_EQ(length, whole);
    CHECK(strlen(part) == 4 && memcmp(part, name, 4) == 0 && part[5] == 'y', "%s", part);
    length = 0;
    OK(MPI_T_cvar_get_info(index, &kept, &length, NULL, NULL, NULL, NULL, NULL, NULL, NULL));
    CHECK(kept == 'x' && length == whole, "%d", length);
    OK(MPI_T_cvar_get_info(index, &kept, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL));
    CHECK_EQ(kept, 'x');
}

static void enumeration(MPI_T_enum type, int expected) {
    char name[200];
    int items, length = sizeof name, value;
    OK(MPI_T_enum_get_info(type, &items, name, &length));
    CHECK(items > 0 && length > 1, "%d %d", items, length);
    if (expected >= 0) CHECK_EQ(items, expected);
    for (int item = 0; item < items; item++) {
        length = sizeof name;
        OK(MPI_T_enum_get_item(type, item, &value, name, &length));
        CHECK_EQ(strlen(name), length - 1);
    }
    CHECK_EQ(MPI_T_enum_get_item(type, items, &value, NULL, NULL), MPI_T_ERR_INVALID_INDEX);
    CHECK_EQ(MPI_T_enum_get_item(type, -1, &value, NULL, NULL), MPI_T_ERR_INVALID_INDEX);
}

static void control_variables(void) {
    int count, found;
    OK(MPI_T_cvar_get_num(&count));
    CHECK(count > 0, "%d", count);
    for (int index = 0; index < count; index++) {
        char name[200], help[1000];
        int name_length = sizeof name, help_length = sizeof help, verbosity, bind, scope, n, value;
        MPI_Datatype type;
        MPI_T_enum values;
        MPI_T_cvar_handle handle, stale;
        OK(MPI_T_cvar_get_info(index, name, &name_length, &verbosity, &type, &values, help,
                               &help_length, &bind, &scope));
        CHECK(verbosity >= MPI_T_VERBOSITY_USER_BASIC && verbosity <= MPI_T_VERBOSITY_MPIDEV_ALL,
              "%d", verbosity);
        CHECK(help_length > 1 && bind == MPI_T_BIND_NO_OBJECT, "%s", name);
        CHECK(scope >= MPI_T_SCOPE_CONSTANT && scope <= MPI_T_SCOPE_ALL_EQ, "%d", scope);
        OK(MPI_T_cvar_get_index(name, &found));
        CHECK_EQ(found, index);
        OK(MPI_T_cvar_handle_alloc(index, NULL, &handle, &n));
        CHECK_EQ(n, 1);
        if (type == MPI_INT) {
            OK(MPI_T_cvar_read(handle, &value));
            if (values != MPI_T_ENUM_NULL) {
                enumeration(values, -1);
                OK(MPI_T_enum_get_item(values, value, &found, NULL, NULL));
                CHECK_EQ(found, value);
            }
        }
        CHECK_EQ(MPI_T_cvar_read(handle, NULL), MPI_T_ERR_INVALID);
        stale = handle;
        OK(MPI_T_cvar_handle_free(&handle));
        CHECK(handle == MPI_T_CVAR_HANDLE_NULL, "");
        CHECK_EQ(MPI_T_cvar_read(stale, &value), MPI_T_ERR_INVALID_HANDLE);
        CHECK_EQ(MPI_T_cvar_write(stale, &value), MPI_T_ERR_INVALID_HANDLE);
        CHECK_EQ(MPI_T_cvar_handle_free(&stale), MPI_T_ERR_INVALID_HANDLE);
        CHECK_EQ(MPI_T_cvar_read(MPI_T_CVAR_HANDLE_NULL, &value), MPI_T_ERR_INVALID_HANDLE);
    }
    strings(0);
    MPI_T_cvar_handle handle;
    for (int wrong = -1; wrong <= count; wrong += count + 1) {
        CHECK_EQ(MPI_T_cvar_get_info(wrong, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
                 MPI_T_ERR_INVALID_INDEX);
        CHECK_EQ(MPI_T_cvar_handle_alloc(wrong, NULL, &handle, &found), MPI_T_ERR_INVALID_INDEX);
    }
    CHECK_EQ(MPI_T_cvar_get_index("no such variable", &found), MPI_T_ERR_INVALID_NAME);
    CHECK_EQ(MPI_T_cvar_get_index(NULL, &found), MPI_T_ERR_INVALID);
    CHECK_EQ(MPI_T_cvar_get_num(NULL), MPI_T_ERR_INVALID);
}

static void performance_variables(void) {
    int count, found;
    MPI_T_pvar_session session;
    OK(MPI_T_pvar_get_num(&count));
    CHECK(count > 0, "%d", count);
    OK(MPI_T_pvar_session_create(&session));
    for (int index = 0; index < count; index++) {
        char name[200], help[1000];
        int name_length = sizeof name, help_length = sizeof help, verbosity, class, bind, n;
        int readonly, continuous, atomic;
        MPI_Datatype type;
        MPI_T_enum values;
        MPI_T_pvar_handle handle;
        union {
            unsigned long long whole;
            double real;
        } value = {0};
        OK(MPI_T_pvar_get_info(index, name, &name_length, &verbosity, &class, &type, &values, help,
                               &help_length, &bind, &readonly, &continuous, &atomic));
        CHECK(class >= MPI_T_PVAR_CLASS_STATE && class <= MPI_T_PVAR_CLASS_GENERIC, "%s", name);
        CHECK(type == MPI_UNSIGNED_LONG_LONG || type == MPI_DOUBLE, "%s", name);
        OK(MPI_T_pvar_get_index(name, class, &found));
        CHECK_EQ(found, index);
        CHECK_EQ(MPI_T_pvar_get_index(name, class + 100, &found), MPI_T_ERR_INVALID_NAME);
        OK(MPI_T_pvar_handle_alloc(session, index, NULL, &handle, &n));
        CHECK_EQ(n, 1);
        int started = MPI_T_pvar_start(session, handle);
        CHECK_EQ(started, continuous ? MPI_T_ERR_PVAR_NO_STARTSTOP : MPI_SUCCESS);
        OK(MPI_T_pvar_read(session, handle, &value));
        CHECK_EQ(MPI_T_pvar_read(session, handle, NULL), MPI_T_ERR_INVALID);
        int reset = MPI_T_pvar_reset(session, handle);
        CHECK_EQ(reset, readonly ? MPI_T_ERR_PVAR_NO_WRITE : MPI_SUCCESS);
        int written = MPI_T_pvar_write(session, handle, &value);
        CHECK_EQ(written, readonly ? MPI_T_ERR_PVAR_NO_WRITE : MPI_SUCCESS);
        int both = MPI_T_pvar_readreset(session, handle, &value);
        CHECK_EQ(both, atomic ? MPI_SUCCESS : MPI_T_ERR_PVAR_NO_ATOMIC);
        int stopped = MPI_T_pvar_stop(session, handle);
        CHECK_EQ(stopped, started);
        OK(MPI_T_pvar_handle_free(session, &handle));
        CHECK(handle == MPI_T_PVAR_HANDLE_NULL, "%s", name);
    }
    CHECK_EQ(MPI_T_pvar_get_info(count, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
                                 NULL, NULL),
             MPI_T_ERR_INVALID_INDEX);
    OK(MPI_T_pvar_session_free(&session));
    CHECK(session == MPI_T_PVAR_SESSION_NULL, "");
}

// Handles belong to their session, and go with it.
static void stale_handles(void) {
    int n;
    unsigned long long value;
    MPI_T_pvar_session one, other, gone;
    MPI_T_pvar_handle handle, copy;
    OK(MPI_T_pvar_session_create(&one));
    OK(MPI_T_pvar_session_create(&other));
    CHECK_EQ(MPI_T_pvar_handle_alloc(one, 1 << 20, NULL, &handle, &n), MPI_T_ERR_INVALID_INDEX);
    OK(MPI_T_pvar_handle_alloc(one, 0, NULL, &handle, &n));
    CHECK_EQ(MPI_T_pvar_read(other, handle, &value), MPI_T_ERR_INVALID_HANDLE);
    CHECK_EQ(MPI_T_pvar_start(other, handle), MPI_T_ERR_INVALID_HANDLE);
    CHECK_EQ(MPI_T_pvar_read(one, MPI_T_PVAR_ALL_HANDLES, &value), MPI_T_ERR_INVALID_HANDLE);
    CHECK_EQ(MPI_T_pvar_read(MPI_T_PVAR_SESSION_NULL, handle, &value), MPI_T_ERR_INVALID_SESSION);
    OK(MPI_T_pvar_start(one, MPI_T_PVAR_ALL_HANDLES));
    OK(MPI_T_pvar_reset(one, MPI_T_PVAR_ALL_HANDLES));
    OK(MPI_T_pvar_stop(one, MPI_T_PVAR_ALL_HANDLES));
    OK(MPI_T_pvar_start(other, MPI_T_PVAR_ALL_HANDLES));
    gone = one;
    OK(MPI_T_pvar_session_free(&one));
    copy = handle;
    CHECK_EQ(MPI_T_pvar_read(gone, handle, &value), MPI_T_ERR_INVALID_SESSION);
    CHECK_EQ(MPI_T_pvar_read(other, handle, &value), MPI_T_ERR_INVALID_HANDLE);
    CHECK_EQ(MPI_T_pvar_handle_free(other, &copy), MPI_T_ERR_INVALID_HANDLE);
    CHECK_EQ(MPI_T_pvar_session_free(&gone), MPI_T_ERR_INVALID_SESSION);
    OK(MPI_T_pvar_session_free(&other));
}

static void events(void) {
    int count, found, sources;
    OK(MPI_T_event_get_num(&count));
    for (int index = 0; index < count; index++) {
        char name[200], help[1000];
        int name_length = sizeof name, help_length = sizeof help, verbosity, bind, elements = 16;
        MPI_Datatype types[16];
        MPI_Aint places[16];
        MPI_T_enum names;
        MPI_Info info;
        OK(MPI_T_event_get_info(index, name, &name_length, &verbosity, types, places, &elements,
                                &names, &info, help, &help_length, &bind));
        CHECK(elements > 0 && elements <= 16, "%s: %d", name, elements);
        for (int element = 0; element < elements; element++) {
            CHECK(types[element] == MPI_COUNT, "%s", name);
            CHECK_EQ(places[element], element * (int)sizeof(MPI_Count));
        }
        enumeration(names, elements);
        OK(MPI_T_event_get_index(name, &found));
        CHECK_EQ(found, index);
        // Less room than elements.
        types[1] = MPI_DATATYPE_NULL;
        int room = 1;
        OK(MPI_T_event_get_info(index, NULL, NULL, NULL, types, NULL, &room, NULL, NULL, NULL, NULL,
                                NULL));
        CHECK_EQ(room, elements);
        CHECK(types[1] == MPI_DATATYPE_NULL, "%s", name);
    }
    MPI_T_event_registration registration;
    CHECK_EQ(MPI_T_event_handle_alloc(count, NULL, MPI_INFO_NULL, &registration),
             MPI_T_ERR_INVALID_INDEX);
    CHECK_EQ(MPI_T_event_get_index("no such event", &found), MPI_T_ERR_INVALID_NAME);
    OK(MPI_T_source_get_num(&sources));
    for (int source = 0; source < sources; source++) {
        char name[200];
        int length = sizeof name;
        MPI_T_source_order order;
        MPI_Count ticks, ticks_max, first, second;
        OK(MPI_T_source_get_info(source, name, &length, NULL, NULL, &order, &ticks, &ticks_max,
                                 NULL));
        CHECK(order == MPI_T_SOURCE_ORDERED || order == MPI_T_SOURCE_UNORDERED, "%s", name);
        CHECK(ticks > 0 && ticks_max > ticks, "%s", name);
        OK(MPI_T_source_get_timestamp(source, &first));
        OK(MPI_T_source_get_timestamp(source, &second));
        CHECK(second >= first, "%lld %lld", (long long)first, (long long)second);
    }
    MPI_Count stamp;
    CHECK_EQ(MPI_T_source_get_timestamp(sources, &stamp), MPI_T_ERR_INVALID_INDEX);
}

// Every variable and event is in one category or more, and counts agree with lists.
static void categories(void) {
    int count, cvars, pvars, total_cvars = 0, total_pvars = 0, total_events = 0, number, all, all2;
    OK(MPI_T_category_get_num(&count));
    for (int index = 0; index < count; index++) {
        char name[200], help[1000];
        int name_length = sizeof name, help_length = sizeof help, inner, found, inside, list[200];
        OK(MPI_T_category_get_info(index, name, &name_length, help, &help_length, &cvars, &pvars,
                                   &inner));
        OK(MPI_T_category_get_num_events(index, &inside));
        OK(MPI_T_category_get_index(name, &found));
        CHECK_EQ(found, index);
        total_cvars += cvars, total_pvars += pvars, total_events += inside;
        list[pvars] = -7;
        OK(MPI_T_category_get_pvars(index, 200, list));
        CHECK_EQ(list[pvars], -7);
        for (int one = 0; one < pvars; one++)
            OK(MPI_T_pvar_get_info(list[one], NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
                                   NULL, NULL, NULL));
        OK(MPI_T_category_get_cvars(index, cvars, list));
        OK(MPI_T_category_get_events(index, inside, list));
        OK(MPI_T_category_get_categories(index, 0, NULL));
        if (pvars > 0) CHECK_EQ(MPI_T_category_get_pvars(index, 1, NULL), MPI_T_ERR_INVALID);
    }
    CHECK_EQ(MPI_T_category_get_cvars(count, 0, NULL), MPI_T_ERR_INVALID_INDEX);
    OK(MPI_T_category_changed(&number));
    OK(MPI_T_cvar_get_num(&all));
    CHECK(total_cvars >= all, "%d of %d", total_cvars, all);
    OK(MPI_T_pvar_get_num(&all2));
    CHECK(total_pvars >= all2, "%d of %d", total_pvars, all2);
    OK(MPI_T_event_get_num(&all));
    CHECK(total_events >= all, "%d of %d", total_events, all);
}

// The strategy can be changed at any time, the copy method before MPI_Init only.
static void scopes(int initialized) {
    int index, n, value, other;
    MPI_T_cvar_handle handle;
    if (MPI_T_cvar_get_index("COMBRAY_STRATEGY", &index) != MPI_SUCCESS) return;
    OK(MPI_T_cvar_handle_alloc(index, NULL, &handle, &n));
    OK(MPI_T_cvar_read(handle, &value));
    other = !value;
    OK(MPI_T_cvar_write(handle, &other));
    OK(MPI_T_cvar_read(handle, &n));
    CHECK_EQ(n, other);
    n = 99;
    CHECK_EQ(MPI_T_cvar_write(handle, &n), MPI_T_ERR_INVALID);
    OK(MPI_T_cvar_write(handle, &value));
    OK(MPI_T_cvar_handle_free(&handle));
    OK(MPI_T_cvar_get_index("COMBRAY_SINGLE_COPY", &index));
    OK(MPI_T_cvar_handle_alloc(index, NULL, &handle, &n));
    OK(MPI_T_cvar_read(handle, &value));
    CHECK_EQ(MPI_T_cvar_write(handle, &value),
             initialized ? MPI_T_ERR_CVAR_SET_NOT_NOW : MPI_SUCCESS);
    OK(MPI_T_cvar_handle_free(&handle));
}

static void walk(int initialized) {
    control_variables();
    scopes(initialized);
    performance_variables();
    stale_handles();
    events();
    categories();
    CHECK_EQ(MPI_T_enum_get_info(MPI_T_ENUM_NULL, NULL, NULL, NULL), MPI_T_ERR_INVALID_HANDLE);
}

int main(void) {
    int count, provided;
    CHECK_EQ(MPI_T_cvar_get_num(&count), MPI_T_ERR_NOT_INITIALIZED);
    CHECK_EQ(MPI_T_finalize(), MPI_T_ERR_NOT_INITIALIZED);
    OK(MPI_T_init_thread(MPI_THREAD_MULTIPLE, &provided));
    CHECK(provided >= MPI_THREAD_SINGLE && provided <= MPI_THREAD_MULTIPLE, "%d", provided);
    walk(0);
    check_begin();
    walk(1);
    // It is counted how often the interface is initialized.
    OK(MPI_T_init_thread(MPI_THREAD_SINGLE, &provided));
    OK(MPI_T_finalize());
    walk(1);
    int outcome = check_end();
    walk(1);
    OK(MPI_T_finalize());
    CHECK_EQ(MPI_T_cvar_get_num(&count), MPI_T_ERR_NOT_INITIALIZED);
    OK(MPI_T_init_thread(MPI_THREAD_SINGLE, &provided));
    OK(MPI_T_cvar_get_num(&count));
    OK(MPI_T_finalize());
    return outcome || check_failures != 0;
}
