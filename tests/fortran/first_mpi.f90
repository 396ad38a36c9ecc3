! The first steps of first_f08.f90, in module mpi.
! run: 1 2 5
! built-for: mpich openmpi
program first_mpi
  use mpi
  implicit none
  integer :: rank, processes, length, code, copy, total, ring(1), everyone(0:63)
  integer :: status(MPI_STATUS_SIZE), requests(2)
  real(8) :: a(10), b(10)
  character(len=MPI_MAX_OBJECT_NAME) :: label
  logical :: flag

  call MPI_Init(code)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, code)
  call MPI_Comm_size(MPI_COMM_WORLD, processes, code)
  call MPI_Initialized(flag, code)
  if (.not. flag) error stop "not initialized"

  ring = rank
  call MPI_Sendrecv_replace(ring, 1, MPI_INTEGER, mod(rank + 1, processes), 3, &
    MPI_ANY_SOURCE, 3, MPI_COMM_WORLD, status, code)
  if (ring(1) /= status(MPI_SOURCE) .or. status(MPI_TAG) /= 3) error stop "a wrong ring"

  a = rank + 0.5d0
  call MPI_Irecv(b, 10, MPI_DOUBLE_PRECISION, mod(rank + processes - 1, processes), 5, &
    MPI_COMM_WORLD, requests(1), code)
  call MPI_Isend(a, 10, MPI_DOUBLE_PRECISION, mod(rank + 1, processes), 5, MPI_COMM_WORLD, &
    requests(2), code)
  call MPI_Waitall(2, requests, MPI_STATUSES_IGNORE, code)
  call MPI_F_sync_reg(b)
  if (any(requests /= MPI_REQUEST_NULL)) error stop "requests are left"
  if (any(b /= mod(rank + processes - 1, processes) + 0.5d0)) error stop "wrong data"

  total = rank
  call MPI_Allreduce(MPI_IN_PLACE, total, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, code)
  if (code /= MPI_SUCCESS .or. total /= processes * (processes - 1) / 2) error stop "a wrong sum"
  call MPI_Allgather(rank, 1, MPI_INTEGER, everyone, 1, MPI_INTEGER, MPI_COMM_WORLD, code)
  if (any(everyone(:processes - 1) /= [(length, length = 0, processes - 1)])) error stop "gathered"

  call MPI_Comm_dup(MPI_COMM_WORLD, copy, code)
  call MPI_Comm_set_name(copy, "the copy   ", code)
  call MPI_Comm_get_name(copy, label, length, code)
  if (label /= "the copy" .or. length /= 8) error stop "another name"
  call MPI_Comm_free(copy, code)
  if (copy /= MPI_COMM_NULL) error stop "still there"
  call MPI_Finalize(code)
end program first_mpi
