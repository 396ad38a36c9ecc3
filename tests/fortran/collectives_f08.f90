! Collective operations in module mpi_f08, also on sections.
! run: 1 2 5
program collectives_f08
  use mpi_f08
  implicit none
  integer :: rank, processes, i, j
  integer, allocatable :: counts(:), places(:), wide(:, :), long(:), other(:)
  type(MPI_Datatype), allocatable :: types(:)
  integer :: mine(3)
  integer :: spread(6), tall(4, 6)
  integer(MPI_COUNT_KIND), allocatable :: large_counts(:)
  integer(MPI_ADDRESS_KIND), allocatable :: large_places(:)
  type(MPI_Request) :: request
  real(8) :: pair(2, 4), sums(2, 4)

  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  call MPI_Comm_size(MPI_COMM_WORLD, processes)
  allocate (counts(processes), places(processes), types(processes))
  allocate (wide(2, 3 * processes), long(3 * processes), other(3 * processes))
  mine = [1, 2, 3] + 10 * rank

  ! Gathered into every second place, at one stride.
  wide = -1
  call MPI_Gather(mine, 3, MPI_INTEGER, wide(2, :), 3, MPI_INTEGER, 0, MPI_COMM_WORLD)
  if (rank == 0) then
    do i = 0, processes - 1
      call check(all(wide(2, 3 * i + 1:3 * i + 3) == [1, 2, 3] + 10 * i), "gathered at a stride")
    end do
  end if
  call check(all(wide(1, :) == -1), "the places between")
  wide = -1
  call MPI_Allgather(mine, 3, MPI_INTEGER, wide(1, ::1), 3, MPI_INTEGER, MPI_COMM_WORLD)
  call check(all(wide(1, 3 * processes - 2:) == [1, 2, 3] + 10 * (processes - 1)), "allgather")
  ! From a section, nonblocking.
  spread = [1, -1, 2, -1, 3, -1] + 10 * rank
  long = 0
  call MPI_Iallgather(spread(1::2), 3, MPI_INTEGER, long, 3, MPI_INTEGER, MPI_COMM_WORLD, request)
  call MPI_Wait(request, MPI_STATUS_IGNORE)
  call check(all(long == wide(1, :)), "nonblocking allgather")
  ! Backwards, also nonblocking; and in two dimensions, which only a copy can do.
  other = 0
  call MPI_Scatter(long(3 * processes:1:-1), 3, MPI_INTEGER, mine, 3, MPI_INTEGER, 0, MPI_COMM_WORLD)
  call check(all(mine == [3, 2, 1] + 10 * (processes - 1 - rank)), "scattered backwards")
  mine = [1, 2, 3] + 10 * rank
  other = 0
  call MPI_Iallgather(mine, 3, MPI_INTEGER, other(3 * processes:1:-1), 3, MPI_INTEGER, &
    MPI_COMM_WORLD, request)
  call MPI_Wait(request, MPI_STATUS_IGNORE)
  call check(all(other(3 * processes:1:-1) == long), "gathered backwards")
  if (processes <= 2) then
    tall = -1
    call MPI_Allgather(mine, 3, MPI_INTEGER, tall(1:4:2, 1:processes + 1), 3, MPI_INTEGER, &
      MPI_COMM_WORLD)
    do i = 1, 3 * processes
      if (i > 2 * (processes + 1)) cycle
      call check(tall(1 + 2 * mod(i - 1, 2), 1 + (i - 1) / 2) == 1 + mod(i - 1, 3) + 10 * ((i - 1) / 3), &
        "a plane with gaps")
    end do
  end if

  ! Different lengths.
  counts = [(mod(i, 3), i = 0, processes - 1)]
  places = [(3 * i, i = 0, processes - 1)]
  wide = -1
  call MPI_Allgatherv(mine, counts(rank + 1), MPI_INTEGER, wide(2, :), counts, places, MPI_INTEGER, &
    MPI_COMM_WORLD)
  do i = 0, processes - 1
    do j = 1, 3
      call check(wide(2, 3 * i + j) == merge(j + 10 * i, -1, j <= counts(i + 1)), "allgatherv")
    end do
  end do
  large_counts = counts
  large_places = places
  other = -1
  call MPI_Allgatherv(mine, large_counts(rank + 1), MPI_INTEGER, other, large_counts, large_places, &
    MPI_INTEGER, MPI_COMM_WORLD)
  call check(all(other == wide(2, :)), "large counts")

  ! To all.
  long = [(i + 100 * rank, i = 1, 3 * processes)]
  call MPI_Alltoall(long, 3, MPI_INTEGER, other, 3, MPI_INTEGER, MPI_COMM_WORLD)
  do i = 0, processes - 1
    call check(all(other(3 * i + 1:3 * i + 3) == [1, 2, 3] + 3 * rank + 100 * i), "alltoall")
  end do
  types = MPI_INTEGER
  counts = 3
  places = [(12 * i, i = 0, processes - 1)]
  other = 0
  call MPI_Alltoallw(long, counts, places, types, other, counts, places, types, MPI_COMM_WORLD)
  do i = 0, processes - 1
    call check(all(other(3 * i + 1:3 * i + 3) == [1, 2, 3] + 3 * rank + 100 * i), "alltoallw")
  end do
  call MPI_Alltoallw(MPI_IN_PLACE, counts, places, types, long, counts, places, types, &
    MPI_COMM_WORLD)
  call check(all(long == other), "alltoallw in place")

  ! Reductions of sections.
  pair = rank + 1
  pair(2, :) = [(10 * i, i = 1, 4)]
  sums = 0
  call MPI_Reduce(pair(2, :), sums(1, :), 4, MPI_DOUBLE_PRECISION, MPI_SUM, 0, MPI_COMM_WORLD)
  if (rank == 0) call check(all(sums(1, :) == [(10 * i * processes, i = 1, 4)]), "sum of a row")
  call check(all(sums(2, :) == 0), "the row beside it")
  call MPI_Allreduce(MPI_IN_PLACE, pair(1, ::3), 2, MPI_DOUBLE_PRECISION, MPI_MAX, MPI_COMM_WORLD)
  call check(pair(1, 1) == processes .and. pair(1, 4) == processes .and. pair(1, 2) == rank + 1, &
    "maximum in place")
  call MPI_Scan(pair(1, 2:3), sums(2, 1:2), 2, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD)
  call check(sums(2, 1) == (rank + 1) * (rank + 2) / 2, "scan")
  call MPI_Ireduce_scatter_block(long, mine, 3, MPI_INTEGER, MPI_MIN, MPI_COMM_WORLD, request)
  call MPI_Wait(request, MPI_STATUS_IGNORE)

  ! Persistent, and a barrier.
  call MPI_Bcast_init(mine, 3, MPI_INTEGER, processes - 1, MPI_COMM_WORLD, MPI_INFO_NULL, request)
  mine = rank
  call MPI_Start(request)
  call MPI_Wait(request, MPI_STATUS_IGNORE)
  call check(all(mine == processes - 1), "persistent broadcast")
  call MPI_Request_free(request)
  call MPI_Ibarrier(MPI_COMM_WORLD, request)
  call MPI_Wait(request, MPI_STATUS_IGNORE)
  call neighbours()
  call MPI_Finalize()

contains

  include 'check.inc'

  subroutine neighbours()
    type(MPI_Comm) :: ring
    integer :: from_both(2)
    type(MPI_Datatype) :: two(2)
    call MPI_Cart_create(MPI_COMM_WORLD, 1, [processes], [.true.], .false., ring)
    call MPI_Neighbor_allgather(rank, 1, MPI_INTEGER, from_both, 1, MPI_INTEGER, ring)
    call check(all(from_both == [mod(rank + processes - 1, processes), mod(rank + 1, processes)]), &
      "neighbours")
    two = MPI_INTEGER
    call MPI_Neighbor_alltoallw([rank, rank], [1, 1], [0_MPI_ADDRESS_KIND, 4_MPI_ADDRESS_KIND], two, &
      from_both, [1, 1], [4_MPI_ADDRESS_KIND, 0_MPI_ADDRESS_KIND], two, ring)
    call check(all(from_both == [mod(rank + 1, processes), mod(rank + processes - 1, processes)]), &
      "neighbours by datatypes")
    call MPI_Comm_free(ring)
  end subroutine neighbours

end program collectives_f08
