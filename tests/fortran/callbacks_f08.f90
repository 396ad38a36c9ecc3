! Functions of the program that the library calls, in module mpi_f08; C sees what Fortran attached.
! run: 1 3
! with: callbacks_in_c.c
module functions
  use mpi_f08
  use, intrinsic :: iso_c_binding, only: c_ptr, c_f_pointer
  implicit none
  integer :: copies = 0, deletions = 0, errors = 0, last_class = 0, queried = 0, freed = 0
  integer :: cancelled = 0
  type(MPI_Comm) :: of_error = MPI_COMM_NULL
contains

  ! Not commutative: 2 by 2 matrices.
  subroutine multiply(invec, inoutvec, len, datatype)
    type(c_ptr), value :: invec, inoutvec
    integer :: len
    type(MPI_Datatype) :: datatype
    integer, pointer :: a(:, :, :), b(:, :, :)
    integer :: i, size
    call MPI_Type_size(datatype, size)
    if (size /= 16) error stop "another datatype"
    call c_f_pointer(invec, a, [2, 2, len])
    call c_f_pointer(inoutvec, b, [2, 2, len])
    do i = 1, len
      b(:, :, i) = matmul(a(:, :, i), b(:, :, i))
    end do
  end subroutine multiply

  subroutine add_large(invec, inoutvec, len, datatype)
    type(c_ptr), value :: invec, inoutvec
    integer(MPI_COUNT_KIND) :: len
    type(MPI_Datatype) :: datatype
    integer, pointer :: a(:), b(:)
    if (datatype /= MPI_INTEGER) error stop "another datatype"
    call c_f_pointer(invec, a, [len])
    call c_f_pointer(inoutvec, b, [len])
    b = a + b
  end subroutine add_large

  subroutine copy(oldcomm, comm_keyval, extra_state, attribute_val_in, attribute_val_out, flag, ierror)
    type(MPI_Comm) :: oldcomm
    integer :: comm_keyval, ierror
    integer(MPI_ADDRESS_KIND) :: extra_state, attribute_val_in, attribute_val_out
    logical :: flag
    if (oldcomm == MPI_COMM_NULL .or. comm_keyval == MPI_KEYVAL_INVALID) error stop "arguments"
    copies = copies + 1
    attribute_val_out = attribute_val_in + extra_state
    flag = attribute_val_in > 0
    ierror = MPI_SUCCESS
  end subroutine copy

  subroutine delete(comm, comm_keyval, attribute_val, extra_state, ierror)
    type(MPI_Comm) :: comm
    integer :: comm_keyval, ierror
    integer(MPI_ADDRESS_KIND) :: attribute_val, extra_state
    if (comm == MPI_COMM_NULL .or. comm_keyval == MPI_KEYVAL_INVALID) error stop "arguments"
    if (extra_state /= 7) error stop "extra state"
    deletions = deletions + 1
    ierror = merge(MPI_SUCCESS, MPI_ERR_OTHER, attribute_val /= -99)
  end subroutine delete

  subroutine handler(comm, error_code)
    type(MPI_Comm) :: comm
    integer :: error_code
    of_error = comm
    errors = errors + 1
    call MPI_Error_class(error_code, last_class)
  end subroutine handler

  subroutine win_handler(win, error_code)
    type(MPI_Win) :: win
    integer :: error_code
    if (win == MPI_WIN_NULL) error stop "no window"
    errors = errors + 1
    call MPI_Error_class(error_code, last_class)
  end subroutine win_handler

  subroutine query(extra_state, status, ierror)
    integer(MPI_ADDRESS_KIND) :: extra_state
    type(MPI_Status) :: status
    integer :: ierror
    queried = queried + int(extra_state)
    call MPI_Status_set_elements(status, MPI_INTEGER, 5)
    call MPI_Status_set_cancelled(status, .false.)
    status%MPI_SOURCE = 3
    status%MPI_TAG = 4
    ierror = MPI_SUCCESS
  end subroutine query

  subroutine release(extra_state, ierror)
    integer(MPI_ADDRESS_KIND) :: extra_state
    integer :: ierror
    freed = freed + int(extra_state)
    ierror = MPI_SUCCESS
  end subroutine release

  subroutine cancel(extra_state, complete, ierror)
    integer(MPI_ADDRESS_KIND) :: extra_state
    logical :: complete
    integer :: ierror
    if (.not. complete .eqv. .true.) cancelled = cancelled + int(extra_state)
    ierror = MPI_SUCCESS
  end subroutine cancel

end module functions

program callbacks_f08
  use functions
  use, intrinsic :: iso_c_binding, only: c_int
  implicit none
  integer :: rank, processes, i, code, class, length, keyval, n
  integer :: matrix(2, 2), product(2, 2), expected(2, 2), numbers(3), room(4)
  type(MPI_Op) :: operation, large
  type(MPI_Datatype) :: four, copied_type
  type(MPI_Comm) :: comm, other
  type(MPI_Errhandler) :: errhandler, before
  type(MPI_Request) :: request
  type(MPI_Status) :: status
  type(MPI_Win) :: win
  integer(MPI_ADDRESS_KIND) :: value
  logical :: flag
  character(len=MPI_MAX_ERROR_STRING) :: text
  interface
    integer(c_int) function value_in_c(comm, keyval) bind(C)
      import
      type(MPI_Comm), value :: comm
      integer(c_int), value :: keyval
    end function value_in_c
    subroutine set_in_c(comm, keyval) bind(C)
      import
      type(MPI_Comm), value :: comm
      integer(c_int), value :: keyval
    end subroutine set_in_c
    integer(c_int) function statuses_in_c(status) bind(C)
      import
      type(MPI_Status) :: status
    end function statuses_in_c
  end interface

  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  call MPI_Comm_size(MPI_COMM_WORLD, processes)

  call MPI_Type_contiguous(4, MPI_INTEGER, four)
  call MPI_Type_commit(four)
  call MPI_Op_create(multiply, .false., operation)
  call MPI_Op_commutative(operation, flag)
  call check(.not. flag, "commutative")
  matrix = reshape([1, 1, rank, 1], [2, 2])
  call MPI_Allreduce(matrix, product, 1, four, operation, MPI_COMM_WORLD)
  expected = reshape([1, 0, 0, 1], [2, 2])
  do i = 0, processes - 1
    expected = matmul(expected, reshape([1, 1, i, 1], [2, 2]))
  end do
  call check(all(product == expected), "an operation of the program")
  call MPI_Op_free(operation)
  call check(operation == MPI_OP_NULL, "freed")
  call MPI_Op_create_c(add_large, .true., large)
  call MPI_Allreduce([1, 2, 3], numbers, 3_MPI_COUNT_KIND, MPI_INTEGER, large, MPI_COMM_WORLD)
  call check(all(numbers == [1, 2, 3] * processes), "an operation for large counts")
  call MPI_Op_free(large)

  ! Attributes.
  call MPI_Comm_dup(MPI_COMM_WORLD, comm)
  call MPI_Comm_create_keyval(copy, delete, keyval, 7_MPI_ADDRESS_KIND)
  call MPI_Comm_get_attr(comm, keyval, value, flag)
  call check(.not. flag, "no attribute yet")
  call MPI_Comm_set_attr(comm, keyval, 2_MPI_ADDRESS_KIND**40)
  call MPI_Comm_get_attr(comm, keyval, value, flag)
  call check(flag .and. value == 2_MPI_ADDRESS_KIND**40, "an attribute")
  call MPI_Comm_set_attr(comm, keyval, 5_MPI_ADDRESS_KIND)
  call check(deletions == 1, "deleted when replaced")
  call check(value_in_c(comm, keyval) == 5, "what C sees")
  call MPI_Comm_dup(comm, other)
  call MPI_Comm_get_attr(other, keyval, value, flag)
  call check(copies == 1 .and. flag .and. value == 12, "copied")
  call MPI_Comm_set_attr(comm, keyval, -99_MPI_ADDRESS_KIND)
  call MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN)
  call MPI_Comm_delete_attr(comm, keyval, code)
  call check(code /= MPI_SUCCESS, "an attribute that stays")
  call set_in_c(other, keyval)
  call MPI_Comm_get_attr(other, keyval, value, flag)
  call check(value == 123, "what C has set is an address")
  call MPI_Comm_free(other)
  n = deletions
  call MPI_Comm_free_keyval(keyval)
  call check(keyval == MPI_KEYVAL_INVALID .and. n == 5, "keyval")
  call MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, value, flag)
  call check(flag .and. value >= 32767, "the highest tag")
  call MPI_Type_create_keyval(MPI_TYPE_DUP_FN, MPI_TYPE_NULL_DELETE_FN, keyval, 0_MPI_ADDRESS_KIND)
  call MPI_Type_set_attr(four, keyval, 44_MPI_ADDRESS_KIND)
  call MPI_Type_dup(four, copied_type)
  call MPI_Type_get_attr(copied_type, keyval, value, flag)
  call check(flag .and. value == 44, "attribute of a datatype")
  call MPI_Type_free(copied_type)
  call MPI_Type_free_keyval(keyval)

  ! Errors.
  call MPI_Comm_create_errhandler(handler, errhandler)
  call MPI_Comm_dup(MPI_COMM_WORLD, other)
  call MPI_Comm_set_errhandler(other, errhandler)
  call MPI_Comm_get_errhandler(other, before)
  call check(before == errhandler, "the same handler")
  call MPI_Errhandler_free(before)
  call MPI_Errhandler_free(errhandler)
  call MPI_Send(rank, -1, MPI_INTEGER, 0, 0, other, code)
  call check(errors == 1 .and. last_class == MPI_ERR_COUNT .and. of_error == other, "a wrong count")
  call MPI_Error_class(code, class)
  call check(class == MPI_ERR_COUNT, "class")
  call MPI_Error_string(code, text, length)
  call check(index(text, "MPI_Send") > 0 .and. index(text, "count") > 0 .and. &
    length == len_trim(text), "text: " // trim(text))
  call MPI_Comm_call_errhandler(other, MPI_ERR_TAG)
  call check(errors == 2 .and. last_class == MPI_ERR_TAG, "called")
  ! Of the layer itself: too few elements, and what cannot be kept.
  numbers = 0
  call MPI_Send(numbers(1:3:2), 3, MPI_INTEGER, 0, 0, other, code)
  call MPI_Error_string(code, text, length)
  call check(errors == 3 .and. last_class == MPI_ERR_COUNT .and. index(text, "MPI_Send") == 1 .and. &
    index(text, "argument 1 (buf)") > 0, "too short a section: " // trim(text))
  call MPI_Iallreduce(numbers(1:3:2), room, 2, MPI_INTEGER, MPI_SUM, other, request, code)
  call MPI_Error_string(code, text, length)
  call check(errors == 4 .and. last_class == MPI_ERR_BUFFER .and. &
    index(text, "MPI_Iallreduce: argument 1 (sendbuf)") == 1, "a section to keep: " // trim(text))
  call MPI_Win_create(room, 16_MPI_ADDRESS_KIND, 4, MPI_INFO_NULL, MPI_COMM_WORLD, win)
  call MPI_Win_create_errhandler(win_handler, errhandler)
  call MPI_Win_set_errhandler(win, errhandler)
  call MPI_Win_call_errhandler(win, MPI_ERR_DISP)
  call check(errors == 5 .and. last_class == MPI_ERR_DISP, "of a window")
  call MPI_Win_free(win)
  call MPI_Errhandler_free(errhandler)
  call MPI_Comm_free(other)
  call MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN)
  call MPI_Win_create(room(::2), 8_MPI_ADDRESS_KIND, 4, MPI_INFO_NULL, MPI_COMM_WORLD, win, code)
  call MPI_Error_class(code, class)
  call check(class == MPI_ERR_BUFFER, "a window with gaps")
  call MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL)

  ! Generalized requests.
  call MPI_Grequest_start(query, release, cancel, 1_MPI_ADDRESS_KIND, request)
  call MPI_Cancel(request)
  call check(cancelled == 1, "cancelled")
  call MPI_Grequest_complete(request)
  call MPI_Wait(request, status)
  call MPI_Get_count(status, MPI_INTEGER, n)
  call check(queried == 1 .and. freed == 1 .and. n == 5 .and. status%MPI_TAG == 4, "generalized")
  call check(statuses_in_c(status) == 5, "the status in C")
  call MPI_Comm_free(comm, code)
  call MPI_Finalize()

contains

  include 'check.inc'

end program callbacks_f08
