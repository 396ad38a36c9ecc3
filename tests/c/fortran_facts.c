// Facts that Fortran bindings pass to the library: once, before MPI_Init or later; unsupported
// values are refused; passed values can be queried.
// run: 1
#include "check.h"

static int told(MPI_Info info, const char *key, const char *expected) {
    char value[40];
    int length = sizeof value, found;
    OK(MPI_Info_get_string(info, key, &length, value, &found));
    return found && strcmp(value, expected) == 0;
}

static void nothing_told(void) {
    MPI_Info info = MPI_INFO_ENV;
    int yes = 1, no = 0, set = 1;
    OK(MPI_Abi_get_fortran_info(&info));
    CHECK(info == MPI_INFO_NULL, "");
    OK(MPI_Abi_get_fortran_booleans(4, &yes, &no, &set));
    CHECK_EQ(set, 0);
}

static void wrong(void) {
    MPI_Info info;
    int yes = 1, no = 0;
    OK(MPI_Info_create(&info));
    OK(MPI_Info_set(info, "mpi_integer_size", "8"));
    EXPECT_ERROR(MPI_Abi_set_fortran_info(info), MPI_ERR_ABI, "mpi_integer_size", "8",
                 "MPI_INTEGER", "4");
    OK(MPI_Info_set(info, "mpi_integer_size", "many"));
    EXPECT_ERROR(MPI_Abi_set_fortran_info(info), MPI_ERR_INFO_VALUE, "many");
    OK(MPI_Info_set(info, "mpi_integer_size", "4"));
    OK(MPI_Info_set(info, "mpi_real16_supported", "perhaps"));
    EXPECT_ERROR(MPI_Abi_set_fortran_info(info), MPI_ERR_INFO_VALUE, "perhaps");
    OK(MPI_Info_free(&info));
    EXPECT_ERROR(MPI_Abi_set_fortran_info(MPI_INFO_NULL), MPI_ERR_INFO, "MPI_INFO_NULL");
    EXPECT_ERROR(MPI_Abi_set_fortran_booleans(3, &yes, &no), MPI_ERR_ARG, "logical_size", "3");
    EXPECT_ERROR(MPI_Abi_set_fortran_booleans(4, NULL, &no), MPI_ERR_ARG, "logical_true");
    EXPECT_ERROR(MPI_Abi_set_fortran_booleans(4, &no, &yes), MPI_ERR_ABI);
    nothing_told();
}

static void right(void) {
    MPI_Info info, again;
    int yes = -1, no = 0, is = 7, is_not = 7, set = 0;
    int64_t wide = 7;
    OK(MPI_Info_create(&info));
    OK(MPI_Info_set(info, "mpi_logical_size", "4"));
    OK(MPI_Info_set(info, "mpi_integer_size", "4"));
    OK(MPI_Info_set(info, "mpi_real_size", "4"));
    OK(MPI_Info_set(info, "mpi_double_precision_size", "8"));
    OK(MPI_Info_set(info, "mpi_integer16_supported", "true"));
    OK(MPI_Info_set(info, "mpi_real2_supported", "false"));
    OK(MPI_Info_set(info, "mpi_double_complex_supported", "true"));
    OK(MPI_Abi_set_fortran_info(info));
    OK(MPI_Info_set(info, "mpi_real2_supported", "true"));
    EXPECT_ERROR(MPI_Abi_set_fortran_info(info), MPI_ERR_ABI);
    OK(MPI_Abi_get_fortran_info(&again));
    CHECK(told(again, "mpi_logical_size", "4") && told(again, "mpi_double_precision_size", "8"), "");
    CHECK(told(again, "mpi_integer16_supported", "true"), "");
    CHECK(told(again, "mpi_real2_supported", "false"), "");
    OK(MPI_Info_free(&again));
    OK(MPI_Info_free(&info));
    OK(MPI_Abi_set_fortran_booleans(4, &yes, &no));
    EXPECT_ERROR(MPI_Abi_set_fortran_booleans(4, &yes, &no), MPI_ERR_ABI);
    OK(MPI_Abi_get_fortran_booleans(4, &is, &is_not, &set));
    CHECK(set && is == -1 && is_not == 0, "%d %d %d", set, is, is_not);
    OK(MPI_Abi_get_fortran_booleans(8, &wide, &wide, &set));
    CHECK(!set && wide == 7, "");
}

int main(void) {
    MPI_Info info;
    int major, minor;
    OK(MPI_Abi_get_version(&major, &minor));
#ifdef MPI_ABI_VERSION
    CHECK(major == MPI_ABI_VERSION && minor == MPI_ABI_SUBVERSION, "%d.%d", major, minor);
#else
    CHECK(major == -1 && minor == -1, "%d.%d", major, minor);
#endif
    OK(MPI_Abi_get_info(&info));
    CHECK(told(info, "mpi_aint_size", "8") && told(info, "mpi_count_size", "8"), "");
    CHECK(told(info, "mpi_offset_size", "8"), "");
    OK(MPI_Info_free(&info));
    nothing_told();
    check_begin();
    wrong();
    right();
    return check_end();
}
