! Counts of partitions, which are large in module mpi_f08 of MPICH: of elements without data.
! run: 2
! built-for: mpich
program partitions_f08
  use mpi_f08
  implicit none
  integer(MPI_COUNT_KIND), parameter :: counts(3) = [5_MPI_COUNT_KIND, 2_MPI_COUNT_KIND**31, 2_MPI_COUNT_KIND**32 + 1]
  type(MPI_Datatype) :: nothing
  type(MPI_Request) :: request
  integer :: data(4), rank, i

  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  call MPI_Type_contiguous(0, MPI_INTEGER, nothing)
  call MPI_Type_commit(nothing)
  do i = 1, size(counts)
    if (rank == 0) then
      call MPI_Psend_init(data, 1, counts(i), nothing, 1, 0, MPI_COMM_WORLD, MPI_INFO_NULL, request)
    else
      call MPI_Precv_init(data, 1, counts(i), nothing, 0, 0, MPI_COMM_WORLD, MPI_INFO_NULL, request)
    end if
    call MPI_Start(request)
    if (rank == 0) call MPI_Pready(0, request)
    call MPI_Wait(request, MPI_STATUS_IGNORE)
    call MPI_Request_free(request)
  end do
  call MPI_Type_free(nothing)
  call MPI_Finalize()
end program partitions_f08
