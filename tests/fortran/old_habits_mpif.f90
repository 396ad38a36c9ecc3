! What old programs do with mpif.h and compilers without interfaces let pass: an element of a pointer
! array in place of a list of counts, arrays of one element in place of scalars.
! run: 1 3
! built-for: mpich openmpi
! gfortran
program old_habits_mpif
  implicit none
  include 'mpif.h'
  integer, pointer :: counts(:), places(:), shares(:)
  integer :: rank(1), processes(1), code(1), request(1), status(MPI_STATUS_SIZE, 1), i
  real(8), pointer :: all(:), one(:)
  integer, pointer :: table(:, :)

  call MPI_Init(code)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, code)
  call MPI_Comm_size(MPI_COMM_WORLD, processes, code)
  allocate (counts(2 * processes(1)), places(processes(1)), shares(1), all(processes(1)), one(1))
  counts = 1
  places = [(i - 1, i = 1, processes(1))]
  one = rank(1) + 0.5d0
  call MPI_Allgatherv(one(1), 1, MPI_DOUBLE_PRECISION, all(1), counts(1), places(1), &
    MPI_DOUBLE_PRECISION, MPI_COMM_WORLD, code)
  if (any(all /= [(i - 0.5d0, i = 1, processes(1))])) stop 1
  allocate (table(processes(1), 2))
  table = 1
  call MPI_Reduce_scatter(table(1, 1), shares(1), counts(1), MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, code)
  if (shares(1) /= processes(1)) stop 2
  call MPI_Irecv(one, 1, MPI_DOUBLE_PRECISION, rank, 3, MPI_COMM_WORLD, request, code)
  call MPI_Send(all(rank(1) + 1), 1, MPI_DOUBLE_PRECISION, rank, 3, MPI_COMM_WORLD, code)
  call MPI_Wait(request, status, code)
  call MPI_Sendrecv_replace(one(1), 1, MPI_DOUBLE_PRECISION, rank(1), 4, rank(1), 4, MPI_COMM_WORLD, &
    status(1, 1), code(1))
  if (one(1) /= rank(1) + 0.5d0 .or. status(MPI_SOURCE, 1) /= rank(1)) stop 3
  deallocate (counts, places, shares, all, one, table)
  call MPI_Finalize(code)
end program old_habits_mpif
