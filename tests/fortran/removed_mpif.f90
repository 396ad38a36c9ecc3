! Routines and datatypes of MPI-1 that the standard has removed, and that old programs call.
! run: 1 2
! built-for: mpich openmpi
! flags: -fallow-argument-mismatch -w
program removed_mpif
  implicit none
  include 'mpif.h'
  integer :: code, rank, size, type, extent, lower, upper, handler, errors, pair(2), rows(2), class
  integer :: lengths(2), places(2), types(2), status(MPI_STATUS_SIZE), key, value
  logical :: found
  double precision :: sent(6), received(6)
  common /counted/ errors
  external :: count_errors, copy_value, delete_value

  errors = 0
  call MPI_Init(code)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, code)
  call MPI_Comm_size(MPI_COMM_WORLD, size, code)

  ! Extents in bytes as default integers.
  call MPI_Type_extent(MPI_DOUBLE_PRECISION, extent, code)
  call MPI_Type_hvector(2, 1, 3 * extent, MPI_DOUBLE_PRECISION, type, code)
  call MPI_Type_commit(type, code)
  call MPI_Type_lb(type, lower, code)
  call MPI_Type_ub(type, upper, code)
  if (lower /= 0 .or. upper /= 4 * extent) stop 1
  sent = [1, 2, 3, 4, 5, 6] + rank
  received = -1
  call MPI_Sendrecv(sent, 1, type, mod(rank + 1, size), 4, received, 1, type, mod(rank + size - 1, size), 4, &
    MPI_COMM_WORLD, status, code)
  if (received(1) - sent(1) /= received(4) - sent(4) .or. received(2) /= -1) stop 2
  if (status(MPI_SOURCE) /= mod(rank + size - 1, size) .or. status(MPI_TAG) /= 4) stop 3
  call MPI_Type_free(type, code)
  if (type /= MPI_DATATYPE_NULL) stop 4

  ! A structure of an integer and of a number behind it, and blocks with places in bytes.
  lengths = [1, 1]
  places = [0, 8]
  types = [MPI_INTEGER, MPI_DOUBLE_PRECISION]
  call MPI_Type_struct(2, lengths, places, types, type, code)
  call MPI_Type_extent(type, extent, code)
  if (extent /= 16) stop 5
  call MPI_Type_free(type, code)
  call MPI_Type_hindexed(2, lengths, places, MPI_DOUBLE_PRECISION, type, code)
  call MPI_Type_size(type, extent, code)
  if (extent /= 16) stop 6
  call MPI_Type_free(type, code)

  ! The marked bounds of structures, from MPI-1 and from MPI-2.
  call MPI_Type_struct(3, [1, 1, 1], [-8, 0, 24], [MPI_LB, MPI_INTEGER, MPI_UB], type, code)
  call MPI_Type_lb(type, lower, code)
  call MPI_Type_ub(type, upper, code)
  call MPI_Type_extent(type, extent, code)
  if (lower /= -8 .or. upper /= 24 .or. extent /= 32) stop 15
  call MPI_Type_size(type, extent, code)
  if (extent /= 4) stop 16
  call PMPI_Type_free(type, code)
  call MPI_Type_create_struct(2, [1, 1], [0_8, 20_8], [MPI_INTEGER, MPI_UB], type, code)
  call PMPI_Type_extent(type, extent, code)
  if (extent /= 20) stop 17
  call MPI_Type_free(type, code)
  call PMPI_Type_struct(2, lengths, places, types, type, code)
  call MPI_Type_free(type, code)
  ! Places from an address, as far as it fits into a default integer: of the bottom it does.
  call MPI_Address(MPI_BOTTOM, extent, code)
  if (extent /= 0) stop 18

  ! The error handler of the program.
  call MPI_Errhandler_create(count_errors, handler, code)
  call MPI_Errhandler_set(MPI_COMM_WORLD, handler, code)
  call MPI_Send(rank, 1, MPI_INTEGER, size, 1, MPI_COMM_WORLD, code)
  call MPI_Error_class(code, class, code)
  if (errors /= 1 .or. class /= MPI_ERR_RANK) stop 7
  call MPI_Errhandler_set(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL, code)
  call MPI_Errhandler_get(MPI_COMM_WORLD, handler, code)
  if (handler /= MPI_ERRORS_ARE_FATAL) stop 8

  ! Attributes: of the library, and with functions of the program and of the standard.
  call MPI_Attr_get(MPI_COMM_WORLD, MPI_TAG_UB, value, found, code)
  if (.not. found .or. value < 32767) stop 9
  call MPI_Keyval_create(copy_value, delete_value, key, 7, code)
  call MPI_Attr_put(MPI_COMM_WORLD, key, 35, code)
  call MPI_Comm_dup(MPI_COMM_WORLD, handler, code)
  call MPI_Attr_get(handler, key, value, found, code)
  if (.not. found .or. value /= 42) stop 10
  call MPI_Comm_free(handler, code)
  call MPI_Attr_delete(MPI_COMM_WORLD, key, code)
  call MPI_Attr_get(MPI_COMM_WORLD, key, value, found, code)
  if (found .or. errors /= 3) stop 11
  call MPI_Keyval_free(key, code)
  call MPI_Keyval_create(MPI_DUP_FN, MPI_NULL_DELETE_FN, key, 0, code)
  call MPI_Attr_put(MPI_COMM_WORLD, key, -5, code)
  call MPI_Comm_dup(MPI_COMM_WORLD, handler, code)
  call MPI_Attr_get(handler, key, value, found, code)
  if (.not. found .or. value /= -5) stop 12
  call MPI_Comm_free(handler, code)

  ! Addresses that mean what their names say.
  pair = [rank, 1]
  call MPI_Allreduce(MPI_IN_PLACE, pair, 2, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, code)
  if (pair(1) /= size * (size - 1) / 2 .or. pair(2) /= size) stop 13
  rows = 0
  call MPI_Sendrecv(pair, 2, MPI_INTEGER, rank, 9, rows, 2, MPI_INTEGER, rank, 9, MPI_COMM_WORLD, &
    MPI_STATUS_IGNORE, code)
  if (any(rows /= pair)) stop 14
  call MPI_Finalize(code)
end program removed_mpif

subroutine count_errors(comm, code)
  implicit none
  include 'mpif.h'
  integer :: comm, code, errors
  common /counted/ errors
  if (comm == MPI_COMM_WORLD .and. code /= MPI_SUCCESS) errors = errors + 1
end subroutine count_errors

subroutine copy_value(comm, key, extra, before, after, flag, code)
  implicit none
  include 'mpif.h'
  integer :: comm, key, extra, before, after, code
  logical :: flag
  after = before + extra
  flag = .true.
  code = MPI_SUCCESS
end subroutine copy_value

subroutine delete_value(comm, key, value, extra, code)
  implicit none
  include 'mpif.h'
  integer :: comm, key, value, extra, code, errors
  common /counted/ errors
  if (extra == 7) errors = errors + 1
  code = MPI_SUCCESS
end subroutine delete_value
