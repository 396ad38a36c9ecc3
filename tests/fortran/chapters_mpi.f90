! What module mpi has besides the first steps: callbacks, attributes, objects, indices, texts.
! run: 1 2 4
! built-for: openmpi
module functions_mpi
  use mpi
  implicit none
  integer :: errors = 0, copies = 0, deletions = 0, last_comm = 0
contains

  subroutine add(invec, inoutvec, len, datatype)
    integer :: len, datatype
    integer :: invec(len), inoutvec(len)
    if (datatype /= MPI_INTEGER) error stop "another datatype"
    inoutvec = invec + inoutvec
  end subroutine add

  subroutine handler(comm, code)
    integer :: comm, code
    last_comm = comm
    errors = errors + 1
    if (code == MPI_SUCCESS) error stop "no error"
  end subroutine handler

  subroutine copy(oldcomm, keyval, extra_state, value_in, value_out, flag, ierror)
    integer :: oldcomm, keyval, ierror
    integer(MPI_ADDRESS_KIND) :: extra_state, value_in, value_out
    logical :: flag
    if (oldcomm == MPI_COMM_NULL .or. keyval == MPI_KEYVAL_INVALID) error stop "arguments"
    copies = copies + 1
    value_out = value_in * extra_state
    flag = .true.
    ierror = MPI_SUCCESS
  end subroutine copy

  subroutine delete(comm, keyval, value, extra_state, ierror)
    integer :: comm, keyval, ierror
    integer(MPI_ADDRESS_KIND) :: value, extra_state
    if (comm == MPI_COMM_NULL .or. keyval == MPI_KEYVAL_INVALID) error stop "arguments"
    if (value < 0 .or. extra_state /= 3) error stop "values"
    deletions = deletions + 1
    ierror = MPI_SUCCESS
  end subroutine delete

  ! Those of MPI-1 have default integers.
  subroutine old_copy(oldcomm, keyval, extra_state, value_in, value_out, flag, ierror)
    integer :: oldcomm, keyval, extra_state, value_in, value_out, ierror
    logical :: flag
    if (oldcomm == MPI_COMM_NULL .or. keyval == MPI_KEYVAL_INVALID) error stop "arguments"
    value_out = value_in - extra_state
    flag = .true.
    ierror = MPI_SUCCESS
  end subroutine old_copy

end module functions_mpi

program chapters_mpi
  use functions_mpi
  use, intrinsic :: iso_c_binding, only: c_ptr, c_f_pointer
  implicit none
  integer :: rank, processes, code, length, n, op, errhandler, comm, keyval, class, i
  integer :: requests(3), statuses(MPI_STATUS_SIZE, 3), status(MPI_STATUS_SIZE), index, indices(3)
  integer :: values(3), got(3), dims(1), coords(1), win, made, old_value
  integer(MPI_ADDRESS_KIND) :: value, base
  logical :: flag, periods(1)
  character(len=MPI_MAX_ERROR_STRING) :: text
  character(len=MPI_MAX_LIBRARY_VERSION_STRING) :: version
  type(c_ptr) :: memory
  integer, pointer :: window(:)

  call MPI_Init_thread(MPI_THREAD_SINGLE, n, code)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, code)
  call MPI_Comm_size(MPI_COMM_WORLD, processes, code)
  call MPI_Get_library_version(version, length, code)
  call check(length == len_trim(version) .and. length > 5, "version")
  call check(.not. MPI_SUBARRAYS_SUPPORTED, "sections")

  call MPI_Op_create(add, .true., op, code)
  call MPI_Reduce([rank, 1, 2], values, 3, MPI_INTEGER, op, 0, MPI_COMM_WORLD, code)
  if (rank == 0) call check(all(values == [processes * (processes - 1) / 2, processes, &
    2 * processes]), "an operation of the program")
  call MPI_Op_free(op, code)

  call MPI_Comm_dup(MPI_COMM_WORLD, comm, code)
  call MPI_Comm_create_errhandler(handler, errhandler, code)
  call MPI_Comm_set_errhandler(comm, errhandler, code)
  call MPI_Send(values, 1, MPI_INTEGER, processes, 0, comm, code)
  call check(errors == 1 .and. last_comm == comm, "an error handler of the program")
  call MPI_Error_class(code, class, length)
  call MPI_Error_string(code, text, length, i)
  call check(class == MPI_ERR_RANK .and. text(:8) == "MPI_Send", "a wrong rank: " // trim(text))
  call MPI_Comm_set_errhandler(comm, MPI_ERRORS_ARE_FATAL, code)
  call MPI_Errhandler_free(errhandler, code)

  call MPI_Comm_create_keyval(copy, delete, keyval, 3_MPI_ADDRESS_KIND, code)
  call MPI_Comm_set_attr(comm, keyval, 14_MPI_ADDRESS_KIND, code)
  call MPI_Comm_dup(comm, made, code)
  call MPI_Comm_get_attr(made, keyval, value, flag, code)
  call check(flag .and. value == 42 .and. copies == 1, "a copied attribute")
  call MPI_Comm_free(made, code)
  call MPI_Comm_delete_attr(comm, keyval, code)
  call check(deletions == 2, "deleted attributes")
  call MPI_Comm_free_keyval(keyval, code)
  call MPI_Keyval_create(old_copy, MPI_NULL_DELETE_FN, keyval, 2, code)
  call MPI_Attr_put(comm, keyval, -5, code)
  call MPI_Comm_dup(comm, made, code)
  call MPI_Attr_get(made, keyval, old_value, flag, code)
  call check(flag .and. old_value == -7, "an attribute of MPI-1")
  call MPI_Attr_get(made, MPI_TAG_UB, old_value, flag, code)
  call check(flag .and. old_value >= 32767, "the highest tag")
  call MPI_Comm_free(made, code)
  call MPI_Comm_free(comm, code)

  do i = 1, 3
    call MPI_Irecv(got(i), 1, MPI_INTEGER, 0, i, MPI_COMM_SELF, requests(i), code)
  end do
  call MPI_Send([8], 1, MPI_INTEGER, 0, 2, MPI_COMM_SELF, code)
  call MPI_Waitany(3, requests, index, status, code)
  call check(index == 2 .and. got(2) == 8 .and. status(MPI_TAG) == 2, "wait for any")
  call MPI_Send([9], 1, MPI_INTEGER, 0, 3, MPI_COMM_SELF, code)
  call MPI_Testsome(3, requests, n, indices, statuses, code)
  call check(n == 1 .and. indices(1) == 3 .and. statuses(MPI_TAG, 1) == 3, "test some")
  call MPI_Cancel(requests(1), code)
  call MPI_Waitall(3, requests, statuses, code)
  call MPI_Test_cancelled(statuses(:, 1), flag, code)
  call check(flag, "cancelled")

  call MPI_Cart_create(MPI_COMM_WORLD, 1, [processes], [.true.], .false., comm, code)
  call MPI_Cart_get(comm, 1, dims, periods, coords, code)
  call check(periods(1) .and. coords(1) == rank, "a ring")
  call MPI_Comm_free(comm, code)

  call MPI_Win_allocate(16_MPI_ADDRESS_KIND, 4, MPI_INFO_NULL, MPI_COMM_WORLD, base, win, code)
  call MPI_Win_get_attr(win, MPI_WIN_BASE, value, flag, code)
  call check(flag .and. value == base, "the base of a window")
  call MPI_Win_free(win, code)
  call MPI_Win_allocate(16_MPI_ADDRESS_KIND, 4, MPI_INFO_NULL, MPI_COMM_WORLD, memory, win, code)
  call c_f_pointer(memory, window, [4])
  window = 0
  call MPI_Win_fence(0, win, code)
  call MPI_Put([rank + 1], 1, MPI_INTEGER, 0, int(mod(rank, 4), MPI_ADDRESS_KIND), 1, MPI_INTEGER, &
    win, code)
  call MPI_Win_fence(0, win, code)
  if (rank == 0) call check(all(window(:processes) == [(i, i = 1, processes)]), "put")
  call MPI_Win_free(win, code)

  call MPI_Type_vector(2, 1, 2, MPI_INTEGER, made, code)
  call MPI_Type_commit(made, code)
  values = [1, 2, 3]
  got = 0
  call MPI_Sendrecv(values, 1, made, 0, 1, got, 2, MPI_INTEGER, 0, 1, MPI_COMM_SELF, &
    MPI_STATUS_IGNORE, code)
  call check(all(got == [1, 3, 0]), "a vector")
  call MPI_Type_free(made, code)
  ! Sections are copied by the compiler.
  call MPI_Send(values(3:1:-2), 2, MPI_INTEGER, rank, 4, MPI_COMM_WORLD, code)
  call MPI_Recv(got(1:3:2), 2, MPI_INTEGER, rank, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE, code)
  call check(all(got == [3, 3, 1]), "sections")
  call MPI_Sizeof(value, n, code)
  call check(n == 8, "size")
  call MPI_Finalize(code)

contains

  include 'check.inc'

end program chapters_mpi
