! Poisson's equation on a cube in modern Fortran: halos are array sections, threads share the loops.
!
!     mpifort -O2 -fopenmp poisson3d_f08.f90 -o poisson3d_f08
!     mpirun -n 4 ./poisson3d_f08 [POINTS [ITERATIONS]]
!
! It does what poisson3d.c does, by Jacobi iterations on blocks in a Cartesian grid of processes. The faces
! of a block are sent from where they lie, as now(1:n, 1:m, 1), by nonblocking calls; no buffer is
! filled, no datatype is made. The value of each point after any number of iterations is known (see
! poisson3d.c), and all of them are checked.
!
! run: 1 2 3 4 5
! openmp
program poisson3d_f08
  use mpi_f08
  implicit none
  integer, parameter :: dp = kind(1.0d0)
  real(dp), parameter :: pi = acos(-1.0_dp)
  type(MPI_Comm) :: grid
  integer :: rank, processes, level, points, iterations, iteration
  integer :: dims(3), place(3), first(3), n(3), below(3), above(3), d
  real(dp), allocatable, asynchronous :: now(:, :, :)
  real(dp), allocatable :: next(:, :, :), source(:, :, :)
  real(dp) :: changed, started, factor, step, worst

  ! Only the thread that called this one calls MPI.
  call MPI_Init_thread(MPI_THREAD_FUNNELED, level)
  if (level < MPI_THREAD_FUNNELED) error stop "the library has no threads"
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  call MPI_Comm_size(MPI_COMM_WORLD, processes)
  points = argument(1, 32)
  iterations = argument(2, 50)
  step = 1.0_dp / (points + 1)
  call open_block()
  started = MPI_Wtime()
  do iteration = 1, iterations
    call exchange_halos()
    call iterate()
  end do
  call check()
  if (rank == 0) then
    print '(a, i0, a, i0, a, es9.2, a, f8.4, a)', "poisson3d_f08: ", points, "^3 points, ", &
      iterations, " iterations, last change ", changed, ", ", MPI_Wtime() - started, " s"
    if (worst < 1.0e-10_dp) print '(a)', "all points are right"
  end if
  call MPI_Comm_free(grid)
  call MPI_Finalize()
  if (worst >= 1.0e-10_dp) error stop "a point is wrong"

contains

  integer function argument(position, otherwise)
    integer, intent(in) :: position, otherwise
    character(len=16) :: word
    argument = otherwise
    call get_command_argument(position, word)
    if (word /= "") read (word, *) argument
  end function argument

  subroutine open_block()
    integer :: x, y, z
    dims = 0
    call MPI_Dims_create(processes, 3, dims)
    call MPI_Cart_create(MPI_COMM_WORLD, 3, dims, [.false., .false., .false.], .false., grid)
    call MPI_Cart_coords(grid, rank, 3, place)
    first = points * place / dims
    n = points * (place + 1) / dims - first
    do d = 1, 3
      call MPI_Cart_shift(grid, d - 1, 1, below(d), above(d))
    end do
    allocate (now(0:n(1) + 1, 0:n(2) + 1, 0:n(3) + 1), source=0.0_dp)
    allocate (next, source=now)
    allocate (source(n(1), n(2), n(3)))
    do concurrent(x=1:n(1), y=1:n(2), z=1:n(3))
      source(x, y, z) = 14 * pi**2 * solution([x, y, z])
    end do
  end subroutine open_block

  ! The solution of the continuous problem at a point of the block.
  pure real(dp) function solution(at)
    integer, intent(in) :: at(3)
    solution = product(sin(pi * step * [1, 2, 3] * (first + at)))
  end function solution

  ! All six faces at once; at the surface of the cube the neighbour is MPI_PROC_NULL.
  subroutine exchange_halos()
    type(MPI_Request) :: r(12)
    integer :: a, b, c
    a = n(1)
    b = n(2)
    c = n(3)
    call MPI_Irecv(now(0, 1:b, 1:c), b * c, MPI_DOUBLE_PRECISION, below(1), 1, grid, r(1))
    call MPI_Irecv(now(a + 1, 1:b, 1:c), b * c, MPI_DOUBLE_PRECISION, above(1), 2, grid, r(2))
    call MPI_Irecv(now(1:a, 0, 1:c), a * c, MPI_DOUBLE_PRECISION, below(2), 3, grid, r(3))
    call MPI_Irecv(now(1:a, b + 1, 1:c), a * c, MPI_DOUBLE_PRECISION, above(2), 4, grid, r(4))
    call MPI_Irecv(now(1:a, 1:b, 0), a * b, MPI_DOUBLE_PRECISION, below(3), 5, grid, r(5))
    call MPI_Irecv(now(1:a, 1:b, c + 1), a * b, MPI_DOUBLE_PRECISION, above(3), 6, grid, r(6))
    call MPI_Isend(now(a, 1:b, 1:c), b * c, MPI_DOUBLE_PRECISION, above(1), 1, grid, r(7))
    call MPI_Isend(now(1, 1:b, 1:c), b * c, MPI_DOUBLE_PRECISION, below(1), 2, grid, r(8))
    call MPI_Isend(now(1:a, b, 1:c), a * c, MPI_DOUBLE_PRECISION, above(2), 3, grid, r(9))
    call MPI_Isend(now(1:a, 1, 1:c), a * c, MPI_DOUBLE_PRECISION, below(2), 4, grid, r(10))
    call MPI_Isend(now(1:a, 1:b, c), a * b, MPI_DOUBLE_PRECISION, above(3), 5, grid, r(11))
    call MPI_Isend(now(1:a, 1:b, 1), a * b, MPI_DOUBLE_PRECISION, below(3), 6, grid, r(12))
    call MPI_Waitall(12, r, MPI_STATUSES_IGNORE)
  end subroutine exchange_halos

  subroutine iterate()
    integer :: x, y, z
    changed = 0
    !$omp parallel do reduction(+:changed) private(x, y)
    do z = 1, n(3)
      do y = 1, n(2)
        do x = 1, n(1)
          next(x, y, z) = (now(x - 1, y, z) + now(x + 1, y, z) + now(x, y - 1, z) + &
            now(x, y + 1, z) + now(x, y, z - 1) + now(x, y, z + 1) + &
            step**2 * source(x, y, z)) / 6
          changed = changed + (next(x, y, z) - now(x, y, z))**2
        end do
      end do
    end do
    !$omp end parallel do
    now(1:n(1), 1:n(2), 1:n(3)) = next(1:n(1), 1:n(2), 1:n(3))
    call MPI_Allreduce(MPI_IN_PLACE, changed, 1, MPI_DOUBLE_PRECISION, MPI_SUM, grid)
  end subroutine iterate

  ! An iteration multiplies the solution by the mean of three cosines, and adds its share of the
  ! right-hand side: the sum of that is known.
  subroutine check()
    integer :: x, y, z
    real(dp) :: rate
    rate = sum(cos(pi * step * [1, 2, 3])) / 3
    factor = 14 * pi**2 * step**2 / 6 * (1 - rate**iterations) / (1 - rate)
    worst = 0
    do z = 1, n(3)
      do y = 1, n(2)
        do x = 1, n(1)
          worst = max(worst, abs(now(x, y, z) - factor * solution([x, y, z])))
        end do
      end do
    end do
    call MPI_Allreduce(MPI_IN_PLACE, worst, 1, MPI_DOUBLE_PRECISION, MPI_MAX, grid)
  end subroutine check

end program poisson3d_f08
