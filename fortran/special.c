/* The entry points that the generator omits, because they differ from C by more than the passing of
 * their arguments. Compiled for MPI_ and for PMPI_. */
#include "callbacks.h"

void F(init_)(MPI_Fint *ierror)
{
    set_code(ierror, CALL(Init)(NULL, NULL));
}
SAME(init_, init_f08_)

void F(init_thread_)(const MPI_Fint *required, MPI_Fint *provided, MPI_Fint *ierror)
{
    set_code(ierror, CALL(Init_thread)(NULL, NULL, *required, provided));
}
SAME(init_thread_, init_thread_f08_)

void F(info_create_env_)(MPI_Fint *info, MPI_Fint *ierror)
{
    MPI_Info made = 0;
    int code = CALL(Info_create_env)(0, NULL, &made);
    if (code == MPI_SUCCESS) *info = Info_out(made);
    set_code(ierror, code);
}
SAME(info_create_env_, info_create_env_f08_)

void F(pcontrol_)(const MPI_Fint *level)
{
    CALL(Pcontrol)(*level);
}
SAME(pcontrol_, pcontrol_f08_)

double F(wtime_)(void)
{
    return CALL(Wtime)();
}
SAME(wtime_, wtime_f08_)

double F(wtick_)(void)
{
    return CALL(Wtick)();
}
SAME(wtick_, wtick_f08_)

MPI_Aint F(aint_add_)(const MPI_Aint *base, const MPI_Aint *disp)
{
    return CALL(Aint_add)(*base, *disp);
}
SAME(aint_add_, aint_add_f08_)

MPI_Aint F(aint_diff_)(const MPI_Aint *addr1, const MPI_Aint *addr2)
{
    return CALL(Aint_diff)(*addr1, *addr2);
}
SAME(aint_diff_, aint_diff_f08_)

/* Keeps the compiler from moving accesses to the buffer across the call. */
void F(f_sync_reg_)(void *buf)
{
    (void)buf;
}
SAME_ADDRESS(f_sync_reg_, f_sync_reg_f08_)

void F(status_f2f08_)(const MPI_Fint *f_status, MPI_F08_status *f08_status, MPI_Fint *ierror)
{
    set_code(ierror, CALL(Status_f2f08)(f_status, f08_status));
}
SAME(status_f2f08_, status_f2f08_f08_)

void F(status_f082f_)(const MPI_F08_status *f08_status, MPI_Fint *f_status, MPI_Fint *ierror)
{
    set_code(ierror, CALL(Status_f082f)(f08_status, f_status));
}
SAME(status_f082f_, status_f082f_f08_)

/* The interfaces before mpi_f08 do not use the argument for the buffer's address (section 3.6). */
#define DETACH(name, Name, GIVEN, given, Count)                                       \
    void F(name)(GIVEN void *buffer_addr, Count *size, MPI_Fint *ierror)              \
    {                                                                                 \
        void *unused;                                                                 \
        (void)buffer_addr;                                                            \
        set_code(ierror, CALL(Name)(given &unused, size));                            \
    }
#define DETACH_POINTER(name, Name, GIVEN, given, Count)                               \
    void F(name)(GIVEN void **buffer_addr, Count *size, MPI_Fint *ierror)             \
    {                                                                                 \
        set_code(ierror, CALL(Name)(given buffer_addr, size));                        \
    }
#define COMM const MPI_Fint *comm,
#define SESSION_ const MPI_Fint *session,
#define NOTHING
#define WITH_COMM Comm_in(comm),
#define WITH_SESSION Session_in(session),
DETACH(buffer_detach_, Buffer_detach, NOTHING, NOTHING, MPI_Fint)
DETACH(comm_detach_buffer_, Comm_detach_buffer, COMM, WITH_COMM, MPI_Fint)
DETACH(session_detach_buffer_, Session_detach_buffer, SESSION_, WITH_SESSION, MPI_Fint)
DETACH_POINTER(buffer_detach_f08_, Buffer_detach, NOTHING, NOTHING, MPI_Fint)
DETACH_POINTER(buffer_detach_c_f08_, Buffer_detach_c, NOTHING, NOTHING, MPI_Count)
SAME_LARGE(buffer_detach_c_f08_, buffer_detach_f08_large_)
DETACH_POINTER(comm_detach_buffer_f08_, Comm_detach_buffer, COMM, WITH_COMM, MPI_Fint)
DETACH_POINTER(comm_detach_buffer_c_f08_, Comm_detach_buffer_c, COMM, WITH_COMM, MPI_Count)
DETACH_POINTER(session_detach_buffer_f08_, Session_detach_buffer, SESSION_, WITH_SESSION, MPI_Fint)
DETACH_POINTER(session_detach_buffer_c_f08_, Session_detach_buffer_c, SESSION_, WITH_SESSION,
               MPI_Count)

/* Strings whose lengths the program passes. In C they have one null character more (section 10). */
void F(info_get_string_)(const MPI_Fint *info, const char *key, MPI_Fint *buflen, char *value,
                         MPI_Fint *flag, MPI_Fint *ierror, size_t key_length, size_t value_length)
{
    char *c_key = ROOM(char, key_length + 1), *c_value = ROOM(char, value_length + 1);
    int length = *buflen, is_there = 0;
    if (length > 0 && (size_t)length > value_length) length = (int)value_length;
    length = length > 0 ? length + 1 : 0;
    int wanted = length;
    int code = CALL(Info_get_string)(Info_in(info), word_in(c_key, key, key_length), &length,
                                     c_value, &is_there);
    if (code == MPI_SUCCESS && is_there) {
        if (wanted > 0) text_out(value, value_length, c_value);
        *buflen = length - 1;
    }
    *flag = truth(is_there);
    RELEASE(c_key, char, key_length + 1);
    RELEASE(c_value, char, value_length + 1);
    set_code(ierror, code);
}
SAME(info_get_string_, info_get_string_f08_)

void F(info_get_)(const MPI_Fint *info, const char *key, const MPI_Fint *valuelen, char *value,
                  MPI_Fint *flag, MPI_Fint *ierror, size_t key_length, size_t value_length)
{
    char *c_key = ROOM(char, key_length + 1), *c_value = ROOM(char, value_length + 1);
    int length = *valuelen, is_there = 0;
    if (length > 0 && (size_t)length > value_length) length = (int)value_length;
    int code = CALL(Info_get)(Info_in(info), word_in(c_key, key, key_length), length, c_value,
                              &is_there);
    if (code == MPI_SUCCESS && is_there) text_out(value, value_length, c_value);
    *flag = truth(is_there);
    RELEASE(c_key, char, key_length + 1);
    RELEASE(c_value, char, value_length + 1);
    set_code(ierror, code);
}
SAME(info_get_, info_get_f08_)

void F(session_get_nth_pset_)(const MPI_Fint *session, const MPI_Fint *info, const MPI_Fint *n,
                              MPI_Fint *pset_len, char *pset_name, MPI_Fint *ierror,
                              size_t name_length)
{
    char *c_name = ROOM(char, name_length + 1);
    int length = *pset_len;
    if (length > 0 && (size_t)length > name_length) length = (int)name_length;
    length = length > 0 ? length + 1 : 0;
    int wanted = length;
    int code = CALL(Session_get_nth_pset)(Session_in(session), Info_in(info), *n, &length, c_name);
    if (code == MPI_SUCCESS) {
        if (wanted > 0) text_out(pset_name, name_length, c_name);
        *pset_len = length - 1;
    }
    RELEASE(c_name, char, name_length + 1);
    set_code(ierror, code);
}
SAME(session_get_nth_pset_, session_get_nth_pset_f08_)

/* Only as many handles are written as exist. */
void F(type_get_contents_)(const MPI_Fint *datatype, const MPI_Fint *max_integers,
                           const MPI_Fint *max_addresses, const MPI_Fint *max_datatypes,
                           MPI_Fint array_of_integers[], MPI_Aint array_of_addresses[],
                           MPI_Fint array_of_datatypes[], MPI_Fint *ierror)
{
    MPI_Datatype *types = ROOM(MPI_Datatype, *max_datatypes);
    int integers, addresses, datatypes = 0, combiner;
    int code = CALL(Type_get_contents)(Type_in(datatype), *max_integers, *max_addresses,
                                       *max_datatypes, array_of_integers, array_of_addresses, types);
    if (code == MPI_SUCCESS) {
        PMPI_Type_get_envelope(Type_in(datatype), &integers, &addresses, &datatypes, &combiner);
        for (int i = 0; i < datatypes; i++) array_of_datatypes[i] = Type_out(types[i]);
    }
    RELEASE(types, MPI_Datatype, *max_datatypes);
    set_code(ierror, code);
}
SAME(type_get_contents_, type_get_contents_f08_)

void F(type_get_contents_c_f08_)(const MPI_Fint *datatype, const MPI_Count *max_integers,
                                 const MPI_Count *max_addresses, const MPI_Count *max_large_counts,
                                 const MPI_Count *max_datatypes, MPI_Fint array_of_integers[],
                                 MPI_Aint array_of_addresses[], MPI_Count array_of_large_counts[],
                                 MPI_Fint array_of_datatypes[], MPI_Fint *ierror)
{
    MPI_Datatype *types = ROOM(MPI_Datatype, *max_datatypes);
    MPI_Count integers, addresses, large_counts, datatypes = 0;
    int combiner;
    int code = CALL(Type_get_contents_c)(Type_in(datatype), *max_integers, *max_addresses,
                                         *max_large_counts, *max_datatypes, array_of_integers,
                                         array_of_addresses, array_of_large_counts, types);
    if (code == MPI_SUCCESS) {
        PMPI_Type_get_envelope_c(Type_in(datatype), &integers, &addresses, &large_counts,
                                 &datatypes, &combiner);
        for (MPI_Count i = 0; i < datatypes; i++) array_of_datatypes[i] = Type_out(types[i]);
    }
    RELEASE(types, MPI_Datatype, *max_datatypes);
    set_code(ierror, code);
}
SAME_LARGE(type_get_contents_c_f08_, type_get_contents_f08_large_)

/* Memory that the library allocates. One entry point serves addresses and type(c_ptr). */
#define MEMORY(name, Name, Unit)                                                           \
    void F(name)(const MPI_Aint *size, const Unit *disp_unit, const MPI_Fint *info,        \
                 const MPI_Fint *comm, void **baseptr, MPI_Fint *win, MPI_Fint *ierror)    \
    {                                                                                      \
        MPI_Win made = 0;                                                                  \
        int code = CALL(Name)(*size, *disp_unit, Info_in(info), Comm_in(comm), baseptr,    \
                              &made);                                                      \
        if (code == MPI_SUCCESS) *win = Win_out(made);                                     \
        set_code(ierror, code);                                                            \
    }
MEMORY(win_allocate_, Win_allocate, MPI_Fint)
SAME(win_allocate_, win_allocate_cptr_)
SAME(win_allocate_, win_allocate_f08_)
MEMORY(win_allocate_c_f08_, Win_allocate_c, MPI_Aint)
SAME_LARGE(win_allocate_c_f08_, win_allocate_f08_large_)
MEMORY(win_allocate_shared_, Win_allocate_shared, MPI_Fint)
SAME(win_allocate_shared_, win_allocate_shared_cptr_)
SAME(win_allocate_shared_, win_allocate_shared_f08_)
MEMORY(win_allocate_shared_c_f08_, Win_allocate_shared_c, MPI_Aint)
SAME_LARGE(win_allocate_shared_c_f08_, win_allocate_shared_f08_large_)

void F(win_shared_query_)(const MPI_Fint *win, const MPI_Fint *rank, MPI_Aint *size,
                          MPI_Fint *disp_unit, void **baseptr, MPI_Fint *ierror)
{
    set_code(ierror, CALL(Win_shared_query)(Win_in(win), *rank, size, disp_unit, baseptr));
}
SAME(win_shared_query_, win_shared_query_cptr_)
SAME(win_shared_query_, win_shared_query_f08_)

void F(win_shared_query_c_f08_)(const MPI_Fint *win, const MPI_Fint *rank, MPI_Aint *size,
                                MPI_Aint *disp_unit, void **baseptr, MPI_Fint *ierror)
{
    set_code(ierror, CALL(Win_shared_query_c)(Win_in(win), *rank, size, disp_unit, baseptr));
}
SAME_LARGE(win_shared_query_c_f08_, win_shared_query_f08_large_)

void F(alloc_mem_)(const MPI_Aint *size, const MPI_Fint *info, void **baseptr, MPI_Fint *ierror)
{
    set_code(ierror, CALL(Alloc_mem)(*size, Info_in(info), baseptr));
}
SAME(alloc_mem_, alloc_mem_cptr_)
SAME(alloc_mem_, alloc_mem_f08_)

/* The program sets the properties of its compiler, which this layer has already reported at
 * loading. */
void F(abi_set_fortran_booleans_)(const MPI_Fint *logical_size, void *logical_true,
                                  void *logical_false, MPI_Fint *ierror)
{
    set_code(ierror, CALL(Abi_set_fortran_booleans)(*logical_size, logical_true, logical_false));
}
SAME(abi_set_fortran_booleans_, abi_set_fortran_booleans_f08_)

void F(abi_get_fortran_booleans_)(const MPI_Fint *logical_size, void *logical_true,
                                  void *logical_false, MPI_Fint *is_set, MPI_Fint *ierror)
{
    int set = 0;
    set_code(ierror,
             CALL(Abi_get_fortran_booleans)(*logical_size, logical_true, logical_false, &set));
    *is_set = truth(set);
}
SAME(abi_get_fortran_booleans_, abi_get_fortran_booleans_f08_)

/* Converts a list of arguments, which ends at a blank argument. */
static char **arguments_in(const char *argv, size_t length, MPI_Count stride, int *count)
{
    int n = 0;
    while (text_length(argv + (size_t)n * stride, length) > 0) n++;
    char **list = combray_fortran_room((n + 1) * (sizeof *list + length + 1));
    char *room = (char *)(list + n + 1);
    for (int i = 0; i < n; i++, room += length + 1)
        list[i] = (char *)text_in(room, argv + (size_t)i * stride, length);
    list[n] = NULL;
    *count = n;
    return list;
}

/* Whether this process is the root of a spawn, where alone the commands are significant. */
static bool is_root(const MPI_Fint *comm, const MPI_Fint *root)
{
    int rank;
    return CALL(Comm_rank)(Comm_in(comm), &rank) == MPI_SUCCESS && rank == *root;
}

static MPI_Fint *codes_of(MPI_Fint *codes)
{
    return IS_ERRCODES_IGNORE(codes) ? MPI_ERRCODES_IGNORE : codes;
}

void F(comm_spawn_)(const char *command, const char *argv, const MPI_Fint *maxprocs,
                    const MPI_Fint *info, const MPI_Fint *root, const MPI_Fint *comm,
                    MPI_Fint *intercomm, MPI_Fint array_of_errcodes[], MPI_Fint *ierror,
                    size_t command_length, size_t argv_length)
{
    MPI_Comm made = 0;
    int count;
    bool counts = is_root(comm, root);
    char *c_command = ROOM(char, command_length + 1), **list = MPI_ARGV_NULL;
    if (counts && !IS_ARGV_NULL(argv))
        list = arguments_in(argv, argv_length, argv_length, &count);
    if (counts)
        text_in(c_command, command, command_length);
    else
        *c_command = 0;
    int code = CALL(Comm_spawn)(c_command, list, *maxprocs, Info_in(info), *root, Comm_in(comm),
                                &made, codes_of(array_of_errcodes));
    if (code == MPI_SUCCESS) *intercomm = Comm_out(made);
    if (list != MPI_ARGV_NULL) free(list);
    RELEASE(c_command, char, command_length + 1);
    set_code(ierror, code);
}
SAME(comm_spawn_, comm_spawn_f08_)

void F(comm_spawn_multiple_)(const MPI_Fint *count, const char *array_of_commands,
                             const char *array_of_argv, const MPI_Fint array_of_maxprocs[],
                             const MPI_Fint array_of_info[], const MPI_Fint *root,
                             const MPI_Fint *comm, MPI_Fint *intercomm,
                             MPI_Fint array_of_errcodes[], MPI_Fint *ierror, size_t command_length,
                             size_t argv_length)
{
    MPI_Comm made = 0;
    int n = is_root(comm, root) && *count > 0 ? *count : 0, words;
    bool has_arguments = !IS_ARGVS_NULL(array_of_argv);
    char **commands = combray_fortran_room((n + 1) * (sizeof *commands + command_length + 1));
    char *room = (char *)(commands + n + 1);
    char ***lists = combray_fortran_room((n + 1) * sizeof *lists);
    MPI_Info *infos = combray_fortran_room((n + 1) * sizeof *infos);
    for (int i = 0; i < n; i++, room += command_length + 1) {
        commands[i] = (char *)text_in(room, array_of_commands + i * command_length, command_length);
        infos[i] = Info_in(&array_of_info[i]);
        if (has_arguments)
            lists[i] = arguments_in(array_of_argv + i * argv_length, argv_length,
                                    (MPI_Count)(argv_length * n), &words);
    }
    int code = CALL(Comm_spawn_multiple)(*count, commands, has_arguments ? lists : MPI_ARGVS_NULL,
                                         array_of_maxprocs, infos, *root, Comm_in(comm), &made,
                                         codes_of(array_of_errcodes));
    if (code == MPI_SUCCESS) *intercomm = Comm_out(made);
    for (int i = 0; i < n && has_arguments; i++) free(lists[i]);
    free(commands);
    free(lists);
    free(infos);
    set_code(ierror, code);
}
SAME(comm_spawn_multiple_, comm_spawn_multiple_f08_)

static const char too_many[] =
    "the program has more than 128 functions of this kind, which is the most that the Fortran "
    "interfaces can tell apart";

/* Called when there is no place for another function of the program. */
static int refuse(void)
{
    int code = combray_fortran_code(MPI_ERR_OTHER, too_many);
    PMPI_Comm_call_errhandler(MPI_COMM_SELF, code);
    return code;
}

#define OPERATION(name, Name, place, Function)                                              \
    void F(name)(Function *user_fn, const MPI_Fint *commute, MPI_Fint *op, MPI_Fint *ierror) \
    {                                                                                       \
        MPI_Op made = 0;                                                                    \
        __typeof__(combray_fortran_##place(user_fn)) function =                             \
            combray_fortran_##place(user_fn);                                               \
        int code = function ? CALL(Name)(function, *commute != 0, &made) : refuse();        \
        if (code == MPI_SUCCESS) *op = Op_out(made);                                        \
        set_code(ierror, code);                                                             \
    }
OPERATION(op_create_, Op_create, operation, fortran_operation)
SAME(op_create_, op_create_f08_)
OPERATION(op_create_c_f08_, Op_create_c, large_operation, fortran_large_operation)

#define HANDLER_ENTRY(name, Name, place)                                                    \
    void F(name##_)(fortran_handler *function, MPI_Fint *errhandler, MPI_Fint *ierror)      \
    {                                                                                       \
        MPI_Errhandler made = 0;                                                            \
        __typeof__(combray_fortran_##place(function)) in_c = combray_fortran_##place(function); \
        int code = in_c ? CALL(Name)(in_c, &made) : refuse();                               \
        if (code == MPI_SUCCESS) *errhandler = Errhandler_out(made);                        \
        set_code(ierror, code);                                                             \
    }                                                                                       \
    SAME(name##_, name##_f08_)
HANDLER_ENTRY(comm_create_errhandler, Comm_create_errhandler, comm_handler)
HANDLER_ENTRY(win_create_errhandler, Win_create_errhandler, win_handler)
HANDLER_ENTRY(file_create_errhandler, File_create_errhandler, file_handler)
HANDLER_ENTRY(session_create_errhandler, Session_create_errhandler, session_handler)

/* Functions for attributes. */
#define FREE_KEYVAL(name, Name)                                            \
    void F(name)(MPI_Fint *keyval, MPI_Fint *ierror)                       \
    {                                                                      \
        struct keyval *known = combray_fortran_find_keyval(*keyval);       \
        int code = CALL(Name)(keyval);                                     \
        if (code == MPI_SUCCESS && known)                                  \
            combray_fortran_name_keyval(known, MPI_KEYVAL_INVALID);        \
        set_code(ierror, code);                                            \
    }
#define ATTRIBUTE_ENTRIES(object, Object)                                                     \
    void F(object##_create_keyval_)(fortran_copy *copy, fortran_delete *delete,               \
                                    MPI_Fint *keyval, const MPI_Aint *extra_state,            \
                                    MPI_Fint *ierror)                                         \
    {                                                                                         \
        struct keyval *known = combray_fortran_keyval(copy, delete, *extra_state, false);     \
        int code = CALL(Object##_create_keyval)(combray_fortran_##object##_copy,              \
                                                combray_fortran_##object##_delete, keyval,    \
                                                known);                                       \
        combray_fortran_name_keyval(known, code == MPI_SUCCESS ? *keyval : MPI_KEYVAL_INVALID); \
        set_code(ierror, code);                                                               \
    }                                                                                         \
    SAME(object##_create_keyval_, object##_create_keyval_f08_)                                \
    FREE_KEYVAL(object##_free_keyval_, Object##_free_keyval)                                  \
    SAME(object##_free_keyval_, object##_free_keyval_f08_)                                    \
    void F(object##_set_attr_)(const MPI_Fint *handle, const MPI_Fint *keyval,                \
                               const MPI_Aint *value, MPI_Fint *ierror)                       \
    {                                                                                         \
        void *box = combray_fortran_box(*value);                                              \
        int code = CALL(Object##_set_attr)(Object##_in(handle), keyval_in(keyval), box);                \
        if (code != MPI_SUCCESS) combray_fortran_unbox(box);                                  \
        set_code(ierror, code);                                                               \
    }                                                                                         \
    SAME(object##_set_attr_, object##_set_attr_f08_)                                          \
    void F(object##_get_attr_)(const MPI_Fint *handle, const MPI_Fint *keyval,                \
                               MPI_Aint *value, MPI_Fint *flag, MPI_Fint *ierror)             \
    {                                                                                         \
        void *attribute;                                                                      \
        int is_there = 0;                                                                     \
        int code = CALL(Object##_get_attr)(Object##_in(handle), keyval_in(keyval),            \
                                           &attribute, &is_there);                            \
        if (code == MPI_SUCCESS && is_there)                                                  \
            *value = value_of(keyval_in(keyval), attribute);                                  \
        *flag = truth(is_there);                                                              \
        set_code(ierror, code);                                                               \
    }                                                                                         \
    SAME(object##_get_attr_, object##_get_attr_f08_)

/* Predefined attributes are addresses of integers in C, and the values themselves in Fortran. */
static MPI_Aint value_of(int keyval, void *attribute)
{
    switch (keyval) {
    case MPI_TAG_UB:
    case MPI_IO:
    case MPI_HOST:
    case MPI_WTIME_IS_GLOBAL:
    case MPI_APPNUM:
    case MPI_LASTUSEDCODE:
    case MPI_UNIVERSE_SIZE:
    case MPI_WIN_DISP_UNIT:
    case MPI_WIN_CREATE_FLAVOR:
    case MPI_WIN_MODEL:
        return *(int *)attribute;
    case MPI_WIN_SIZE:
        return *(MPI_Aint *)attribute;
    default:
        return combray_fortran_value(attribute);
    }
}
ATTRIBUTE_ENTRIES(comm, Comm)
ATTRIBUTE_ENTRIES(type, Type)
ATTRIBUTE_ENTRIES(win, Win)

/* The functions for attributes with default integers (deprecated in MPI-2.0). */
void F(keyval_create_)(fortran_copy *copy, fortran_delete *delete, MPI_Fint *keyval,
                       const MPI_Fint *extra_state, MPI_Fint *ierror)
{
    struct keyval *known = combray_fortran_keyval(copy, delete, *extra_state, true);
    int code = CALL(Keyval_create)(combray_fortran_comm_copy, combray_fortran_comm_delete, keyval,
                                   known);
    combray_fortran_name_keyval(known, code == MPI_SUCCESS ? *keyval : MPI_KEYVAL_INVALID);
    set_code(ierror, code);
}
FREE_KEYVAL(keyval_free_, Keyval_free)

void F(attr_put_)(const MPI_Fint *comm, const MPI_Fint *keyval, const MPI_Fint *value,
                  MPI_Fint *ierror)
{
    void *box = combray_fortran_box(*value);
    int code = CALL(Attr_put)(Comm_in(comm), keyval_in(keyval), box);
    if (code != MPI_SUCCESS) combray_fortran_unbox(box);
    set_code(ierror, code);
}

void F(attr_get_)(const MPI_Fint *comm, const MPI_Fint *keyval, MPI_Fint *value, MPI_Fint *flag,
                  MPI_Fint *ierror)
{
    void *attribute;
    int is_there = 0;
    int code = CALL(Attr_get)(Comm_in(comm), keyval_in(keyval), &attribute, &is_there);
    if (code == MPI_SUCCESS && is_there) *value = (MPI_Fint)value_of(keyval_in(keyval), attribute);
    *flag = truth(is_there);
    set_code(ierror, code);
}

/* The predefined functions for attributes. */
#define COPY_FUNCTIONS(prefix, Value)                                                          \
    void F(prefix##null_copy_fn_)(MPI_Fint *object, MPI_Fint *keyval, Value *extra_state,      \
                                  Value *value_in, Value *value_out, MPI_Fint *flag,           \
                                  MPI_Fint *ierror)                                            \
    {                                                                                          \
        (void)object, (void)keyval, (void)extra_state, (void)value_in, (void)value_out;        \
        *flag = 0;                                                                             \
        *ierror = MPI_SUCCESS;                                                                 \
    }                                                                                          \
    void F(prefix##dup_fn_)(MPI_Fint *object, MPI_Fint *keyval, Value *extra_state,            \
                            Value *value_in, Value *value_out, MPI_Fint *flag,                 \
                            MPI_Fint *ierror)                                                  \
    {                                                                                          \
        (void)object, (void)keyval, (void)extra_state;                                         \
        *value_out = *value_in;                                                                \
        *flag = truth(1);                                                                      \
        *ierror = MPI_SUCCESS;                                                                 \
    }                                                                                          \
    void F(prefix##null_delete_fn_)(MPI_Fint *object, MPI_Fint *keyval, Value *value,          \
                                    Value *extra_state, MPI_Fint *ierror)                      \
    {                                                                                          \
        (void)object, (void)keyval, (void)value, (void)extra_state;                            \
        *ierror = MPI_SUCCESS;                                                                 \
    }
COPY_FUNCTIONS(comm_, MPI_Aint)
COPY_FUNCTIONS(type_, MPI_Aint)
COPY_FUNCTIONS(win_, MPI_Aint)
COPY_FUNCTIONS(, MPI_Fint)

void F(grequest_start_)(fortran_query *query_fn, fortran_free *free_fn, fortran_cancel *cancel_fn,
                        MPI_Aint *extra_state, MPI_Fint *request, MPI_Fint *ierror)
{
    MPI_Request made = 0;
    struct generalized *functions = combray_fortran_room(sizeof *functions);
    *functions = (struct generalized){query_fn, free_fn, cancel_fn, extra_state};
    int code = CALL(Grequest_start)(combray_fortran_query, combray_fortran_free,
                                    combray_fortran_cancel, functions, &made);
    if (code == MPI_SUCCESS) *request = Request_out(made);
    else free(functions);
    set_code(ierror, code);
}
SAME(grequest_start_, grequest_start_f08_)

/* Placeholders that mean "no conversion" in a data representation. */
void F(conversion_fn_null_)(void) {}
void F(conversion_fn_null_c_)(void) {}

static bool is_none(void *function)
{
    extern void mpi_conversion_fn_null_(void), mpi_conversion_fn_null_c_(void);
    return function == (void *)mpi_conversion_fn_null_ ||
           function == (void *)mpi_conversion_fn_null_c_ ||
           function == (void *)F(conversion_fn_null_) ||
           function == (void *)F(conversion_fn_null_c_);
}

#define REPRESENTATION(name, Name, read, write)                                             \
    void F(name)(const char *datarep, void *read_fn, void *write_fn, fortran_extent *extent, \
                 const MPI_Aint *extra_state, MPI_Fint *ierror, size_t length)              \
    {                                                                                       \
        char *c_datarep = ROOM(char, length + 1);                                           \
        struct representation *functions = combray_fortran_room(sizeof *functions);         \
        *functions = (struct representation){read_fn, write_fn, extent, *extra_state};      \
        int code = CALL(Name)(text_in(c_datarep, datarep, length),                          \
                              is_none(read_fn) ? NULL : combray_fortran_##read,             \
                              is_none(write_fn) ? NULL : combray_fortran_##write,           \
                              combray_fortran_extent, functions);                           \
        if (code != MPI_SUCCESS) free(functions);                                           \
        RELEASE(c_datarep, char, length + 1);                                               \
        set_code(ierror, code);                                                             \
    }
REPRESENTATION(register_datarep_, Register_datarep, read, write)
SAME(register_datarep_, register_datarep_f08_)
REPRESENTATION(register_datarep_c_f08_, Register_datarep_c, large_read, large_write)
