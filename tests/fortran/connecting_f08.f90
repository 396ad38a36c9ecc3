! Ports, names of services, and two halves of a job that connect, in module mpi_f08.
! run: 2 3
program connecting_f08
  use mpi_f08
  implicit none
  integer :: rank = -1, processes, half_rank, others, total, code, class
  logical :: accepts
  character(len=MPI_MAX_PORT_NAME) :: port, found
  character(len=40) :: service
  type(MPI_Comm) :: half, inter
  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  call MPI_Comm_size(MPI_COMM_WORLD, processes)
  accepts = mod(rank, 2) == 0
  call MPI_Comm_split(MPI_COMM_WORLD, mod(rank, 2), rank, half)
  call MPI_Comm_rank(half, half_rank)
  write (service, '(a, i0)') "fortran service ", processes
  port = ""
  if (rank == 0) then
    call MPI_Open_port(MPI_INFO_NULL, port)
    call check(len_trim(port) > 32, "name of the port")
    call MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN)
    call MPI_Unpublish_name(trim(service) // "  ", MPI_INFO_NULL, port, code)
    call MPI_Error_class(code, class)
    call check(class == MPI_ERR_SERVICE, "no such service")
    call MPI_Publish_name(service, MPI_INFO_NULL, port)
  end if
  call MPI_Barrier(MPI_COMM_WORLD)
  call MPI_Lookup_name(service, MPI_INFO_NULL, found)
  if (rank == 0) call check(found == port, "name of the service")
  if (accepts) then
    call MPI_Comm_accept(found, MPI_INFO_NULL, 0, half, inter)
  else
    call MPI_Comm_connect(found, MPI_INFO_NULL, 0, half, inter)
  end if
  call MPI_Comm_remote_size(inter, others)
  call MPI_Allreduce(half_rank + 1, total, 1, MPI_INTEGER, MPI_SUM, inter)
  call check(total == others * (others + 1) / 2, "sum over the other side")
  call MPI_Comm_disconnect(inter)
  call check(inter == MPI_COMM_NULL, "handle")
  if (rank == 0) then
    call MPI_Unpublish_name(service, MPI_INFO_NULL, port)
    call MPI_Close_port(port)
  end if
  call MPI_Comm_free(half)
  call MPI_Finalize()

contains

  include 'check.inc'

end program connecting_f08
