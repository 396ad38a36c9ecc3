! What module mpi_f08 of other libraries calls: operations, attributes, comparisons, statuses, files.
! run: 1 2 3
! built-for: mpich openmpi
module functions
  use, intrinsic :: iso_c_binding
  use mpi_f08
  implicit none
  integer :: calls = 0
contains
  subroutine greatest(invec, inoutvec, length, datatype)
    type(c_ptr), value :: invec, inoutvec
    integer :: length
    type(MPI_Datatype) :: datatype
    integer, pointer :: in(:), inout(:)
    if (datatype /= MPI_INTEGER) stop 1
    call c_f_pointer(invec, in, [length])
    call c_f_pointer(inoutvec, inout, [length])
    inout = max(in, inout)
  end subroutine greatest

  subroutine count_errors(comm, code)
    type(MPI_Comm) :: comm
    integer :: code
    if (comm == MPI_COMM_WORLD .and. code /= MPI_SUCCESS) calls = calls + 1
  end subroutine count_errors
end module functions

program modules_f08
  use functions
  implicit none
  type(MPI_Comm) :: comm
  type(MPI_Op) :: op
  type(MPI_Datatype) :: type, rows
  type(MPI_Errhandler) :: handler
  type(MPI_Request) :: requests(2)
  type(MPI_Status) :: status, statuses(2)
  type(MPI_File) :: file
  type(MPI_Info) :: info
  type(MPI_Group) :: group
  integer :: rank, size, most(2), sum(3), key, class, code, n
  integer, asynchronous :: sent(4), got(4)
  integer(MPI_ADDRESS_KIND) :: value, lower, extent
  integer(MPI_OFFSET_KIND) :: bytes
  logical :: found
  character(len=MPI_MAX_OBJECT_NAME) :: word

  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  call MPI_Comm_size(MPI_COMM_WORLD, size)
  comm = MPI_COMM_NULL
  if (comm /= MPI_COMM_NULL .or. comm == MPI_COMM_WORLD) stop 2
  call MPI_Comm_dup(MPI_COMM_WORLD, comm)
  if (comm == MPI_COMM_NULL .or. comm == MPI_COMM_WORLD) stop 3

  call MPI_Op_create(greatest, .true., op)
  call MPI_Allreduce([rank, -rank], most, 2, MPI_INTEGER, op, comm)
  if (most(1) /= size - 1 .or. most(2) /= 0) stop 4
  call MPI_Op_free(op)
  if (op /= MPI_OP_NULL) stop 5
  sum = rank
  call MPI_Allreduce(MPI_IN_PLACE, sum, 3, MPI_INTEGER, MPI_SUM, comm)
  if (any(sum /= size * (size - 1) / 2)) stop 6

  sent = [1, 2, 3, 4] + 10 * rank
  call MPI_Irecv(got, 4, MPI_INTEGER, mod(rank + size - 1, size), 5, comm, requests(1))
  call MPI_Isend(sent, 4, MPI_INTEGER, mod(rank + 1, size), 5, comm, requests(2))
  call MPI_Waitall(2, requests, statuses)
  if (any(requests /= MPI_REQUEST_NULL)) stop 7
  if (statuses(1)%MPI_SOURCE /= mod(rank + size - 1, size) .or. statuses(1)%MPI_TAG /= 5) stop 8
  call MPI_Get_count(statuses(1), MPI_INTEGER, n)
  if (n /= 4 .or. got(4) /= 4 + 10 * mod(rank + size - 1, size)) stop 9
  call MPI_Sendrecv(sent, 4, MPI_INTEGER, rank, 6, got, 4, MPI_INTEGER, rank, 6, comm, MPI_STATUS_IGNORE)
  if (any(got /= sent)) stop 10
  call MPI_Sendrecv(sent, 3, MPI_INTEGER, rank, 6, got, 4, MPI_INTEGER, MPI_ANY_SOURCE, MPI_ANY_TAG, comm, status)
  call MPI_Get_elements(status, MPI_INTEGER, n)
  if (n /= 3 .or. status%MPI_TAG /= 6) stop 11

  call MPI_Type_contiguous(2, MPI_INTEGER, rows)
  call MPI_Type_create_resized(rows, 0_MPI_ADDRESS_KIND, 12_MPI_ADDRESS_KIND, type)
  call MPI_Type_commit(type)
  call MPI_Type_get_extent(type, lower, extent)
  if (lower /= 0 .or. extent /= 12) stop 12
  call MPI_Type_set_name(type, "two of three")
  word = "?"
  call MPI_Type_get_name(type, word, n)
  if (word /= "two of three" .or. n /= 12) stop 13
  call MPI_Type_free(type)
  call MPI_Type_free(rows)

  call MPI_Comm_create_keyval(MPI_COMM_DUP_FN, MPI_COMM_NULL_DELETE_FN, key, 0_MPI_ADDRESS_KIND)
  value = 3 * 2_MPI_ADDRESS_KIND**40
  call MPI_Comm_set_attr(MPI_COMM_WORLD, key, value)
  call MPI_Comm_free(comm)
  call MPI_Comm_dup(MPI_COMM_WORLD, comm)
  value = 0
  call MPI_Comm_get_attr(comm, key, value, found)
  if (.not. found .or. value /= 3 * 2_MPI_ADDRESS_KIND**40) stop 14
  call MPI_Comm_get_attr(comm, MPI_TAG_UB, value, found)
  if (.not. found .or. value < 32767) stop 15

  call MPI_Comm_create_errhandler(count_errors, handler)
  call MPI_Comm_set_errhandler(MPI_COMM_WORLD, handler)
  call MPI_Send(rank, 1, MPI_INTEGER, size, 1, MPI_COMM_WORLD, code)
  call MPI_Error_class(code, class)
  if (calls /= 1 .or. class /= MPI_ERR_RANK) stop 16
  call MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL)

  call MPI_Info_create(info)
  call MPI_Info_set(info, "access_style", "write_once")
  call MPI_Info_get(info, "access_style", len(word), word, found)
  if (.not. found .or. word /= "write_once") stop 17
  call MPI_Comm_group(comm, group)
  call MPI_Group_size(group, n)
  if (n /= size .or. group == MPI_GROUP_EMPTY) stop 18
  call MPI_Group_free(group)

  call MPI_File_open(comm, "modules_f08." // achar(iachar("0") + size), MPI_MODE_CREATE + MPI_MODE_RDWR &
    + MPI_MODE_DELETE_ON_CLOSE, info, file)
  call MPI_File_write_at_all(file, 16_MPI_OFFSET_KIND * rank, sent, 4, MPI_INTEGER, status)
  call MPI_File_sync(file)
  call MPI_Barrier(comm)
  call MPI_File_get_size(file, bytes)
  if (bytes /= 16 * size) stop 19
  call MPI_File_read_at(file, 16_MPI_OFFSET_KIND * mod(rank + 1, size), got, 4, MPI_INTEGER, status)
  if (got(4) /= 4 + 10 * mod(rank + 1, size)) stop 20
  call MPI_File_close(file)
  if (file /= MPI_FILE_NULL) stop 21
  call MPI_Info_free(info)
  call MPI_Comm_free(comm)
  call MPI_Finalize()
end program modules_f08
