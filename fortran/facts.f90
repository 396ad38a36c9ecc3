! Properties of the compiler, as data that the C entry points read.
module combray_fortran_facts
  use, intrinsic :: iso_c_binding, only: c_int
  use, intrinsic :: iso_fortran_env, only: integer_kinds, logical_kinds, real_kinds
  implicit none
  private
  integer(c_int), bind(C, name="combray_fortran_true"), public :: value_of_true = &
    transfer(.true., 0_c_int)
  integer(c_int), bind(C, name="combray_fortran_sizes"), public :: sizes(4) = [ &
    storage_size(.true.), storage_size(1), storage_size(1.0), storage_size(1.0d0)] / 8
  ! The order is that of variables.c. The kinds of these compilers are sizes in bytes.
  integer(c_int), bind(C, name="combray_fortran_kinds"), public :: kinds(19) = [ &
    count(logical_kinds == 1), count(logical_kinds == 2), count(logical_kinds == 4), &
    count(logical_kinds == 8), count(logical_kinds == 16), &
    count(integer_kinds == 1), count(integer_kinds == 2), count(integer_kinds == 4), &
    count(integer_kinds == 8), count(integer_kinds == 16), &
    count(real_kinds == 2), count(real_kinds == 4), count(real_kinds == 8), &
    count(real_kinds == 16), &
    count(real_kinds == 2), count(real_kinds == 4), count(real_kinds == 8), &
    count(real_kinds == 16), 1]
end module combray_fortran_facts
