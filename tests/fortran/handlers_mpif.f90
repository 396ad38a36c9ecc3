! What error handlers leave in the error code is what the calls return. A call that so succeeds has
! made no new object.
! run: 1
! built-for: mpich openmpi
subroutine on_comm(comm, code)
  implicit none
  include 'mpif.h'
  integer :: comm, code, leaves, calls, object
  common /seen/ leaves, calls, object
  object = comm
  calls = calls + 1
  if (leaves >= 0) code = leaves
end subroutine on_comm

subroutine on_file(file, code)
  implicit none
  include 'mpif.h'
  integer :: file, code, leaves, calls, object
  common /seen/ leaves, calls, object
  object = file
  calls = calls + 1
  if (leaves >= 0) code = leaves
end subroutine on_file

program handlers_mpif
  implicit none
  include 'mpif.h'
  external :: on_comm, on_file
  integer :: leaves, calls, object
  common /seen/ leaves, calls, object
  integer :: comm, made, handler, file_handler, file, code, ignored, class, i, wanted
  integer :: request(2), statuses(MPI_STATUS_SIZE, 2), in(4), out(4)
  integer :: all(3)

  call MPI_Init(code)
  all = [-1, MPI_SUCCESS, MPI_ERR_DIMS]
  call MPI_Comm_dup(MPI_COMM_SELF, comm, code)
  call MPI_Comm_create_errhandler(on_comm, handler, code)
  call MPI_Comm_set_errhandler(comm, handler, code)
  call MPI_File_create_errhandler(on_file, file_handler, code)
  call MPI_File_set_errhandler(MPI_FILE_NULL, file_handler, code)
  in = 0
  out = 1
  do i = 1, 3
    leaves = all(i)
    calls = 0
    call MPI_Send(out, 1, MPI_INTEGER, 1234, 0, comm, code)
    wanted = merge(MPI_ERR_RANK, leaves, leaves < 0)
    call MPI_Error_class(code, class, ignored)
    if (class /= wanted .or. calls /= 1 .or. object /= comm) stop 1
    made = -7
    call MPI_Comm_split(comm, -55, 0, made, code)
    wanted = merge(MPI_ERR_ARG, leaves, leaves < 0)
    call MPI_Error_class(code, class, ignored)
    if (class /= wanted .or. calls /= 2) stop 2
    call MPI_Irecv(in, 1, MPI_INTEGER, 0, 0, comm, request(1), code)
    call MPI_Irecv(in, 1, MPI_INTEGER, 0, 1, comm, request(2), code)
    call MPI_Send(out, 4, MPI_INTEGER, 0, 0, comm, code)
    call MPI_Send(out, 1, MPI_INTEGER, 0, 1, comm, code)
    call MPI_Waitall(2, request, statuses, code)
    wanted = merge(MPI_SUCCESS, MPI_ERR_IN_STATUS, leaves == MPI_SUCCESS)
    call MPI_Error_class(code, class, ignored)
    if (class /= wanted .or. calls /= 3) stop 3
    wanted = merge(MPI_ERR_TRUNCATE, leaves, leaves < 0)
    call MPI_Error_class(statuses(MPI_ERROR, 1), class, ignored)
    if (class /= wanted) stop 4
    call MPI_File_open(MPI_COMM_SELF, '/nonexistent/x', MPI_MODE_RDONLY, MPI_INFO_NULL, file, code)
    wanted = merge(MPI_ERR_NO_SUCH_FILE, leaves, leaves < 0)
    call MPI_Error_class(code, class, ignored)
    if (class /= wanted .or. calls /= 4 .or. object /= MPI_FILE_NULL) stop 5
  end do
  call MPI_Finalize(code)
end program handlers_mpif
