! A ring, a section and collective operations in module mpi_f08.
! run: 1 2 5
! built-for: mpich
program first_f08
  use mpi_f08
  implicit none
  integer :: rank, processes, length, code
  integer :: ring(1), total, everyone(0:63)
  real(8) :: a(10, 10), b(10, 10)
  type(MPI_Request) :: requests(2)
  type(MPI_Status) :: status
  type(MPI_Comm) :: copy
  character(len=MPI_MAX_PROCESSOR_NAME) :: name
  character(len=MPI_MAX_OBJECT_NAME) :: label
  logical :: flag

  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  call MPI_Comm_size(MPI_COMM_WORLD, processes)
  call MPI_Get_processor_name(name, length)
  if (len_trim(name) /= length) error stop "the name has another length"
  call MPI_Initialized(flag)
  if (.not. flag) error stop "not initialized"

  ring = rank
  call MPI_Sendrecv_replace(ring, 1, MPI_INTEGER, mod(rank + 1, processes), 3, &
    MPI_ANY_SOURCE, 3, MPI_COMM_WORLD, status)
  if (ring(1) /= status%MPI_SOURCE .or. status%MPI_TAG /= 3) error stop "a wrong ring"

  a = reshape([(real(length, 8), length = 1, 100)], [10, 10]) + 1000 * rank
  b = -1
  call MPI_Irecv(b(3:9:2, 2:8), 28, MPI_DOUBLE_PRECISION, mod(rank + processes - 1, processes), &
    5, MPI_COMM_WORLD, requests(1))
  call MPI_Isend(a(10:1:-3, 1:7), 28, MPI_DOUBLE_PRECISION, mod(rank + 1, processes), 5, &
    MPI_COMM_WORLD, requests(2))
  call MPI_Waitall(2, requests, MPI_STATUSES_IGNORE)
  if (any(requests /= MPI_REQUEST_NULL)) error stop "requests are left"
  a = a + 1000 * (mod(rank + processes - 1, processes) - rank)
  if (any(b(3:9:2, 2:8) /= a(10:1:-3, 1:7))) error stop "a wrong section"
  if (count(b /= -1) /= 28) error stop "elements beside the section"

  total = rank
  call MPI_Allreduce(MPI_IN_PLACE, total, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, code)
  if (code /= MPI_SUCCESS .or. total /= processes * (processes - 1) / 2) error stop "a wrong sum"
  call MPI_Allgather(rank, 1, MPI_INTEGER, everyone, 1, MPI_INTEGER, MPI_COMM_WORLD)
  if (any(everyone(:processes - 1) /= [(length, length = 0, processes - 1)])) error stop "gathered"

  call MPI_Comm_dup(MPI_COMM_WORLD, copy)
  if (copy == MPI_COMM_WORLD) error stop "the copy is the same"
  call MPI_Comm_set_name(copy, "the copy   ")
  call MPI_Comm_get_name(copy, label, length)
  if (label /= "the copy" .or. length /= 8) error stop "another name"
  call MPI_Barrier(copy)
  call MPI_Comm_free(copy)
  if (copy /= MPI_COMM_NULL) error stop "still there"
  call MPI_Finalize()
end program first_f08
