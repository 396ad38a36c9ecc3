! The routines and constructs of OpenMP as Fortran calls them. Prints what they compute.
program constructs
  use omp_lib
  implicit none
  integer :: i, total, least, chunk, held
  integer(kind=omp_sched_kind) :: kind
  integer(kind=omp_lock_kind) :: lock
  integer(kind=omp_nest_lock_kind) :: nest
  integer, allocatable :: seen(:)
  real(8) :: sum

  call omp_set_num_threads(3)
  call omp_set_schedule(omp_sched_guided, 2)
  call omp_get_schedule(kind, chunk)
  print *, omp_get_max_threads(), kind, chunk, omp_in_parallel(), omp_get_dynamic()
  call omp_init_lock(lock)
  call omp_init_nest_lock(nest)
  allocate (seen(0:2))
  total = 0
  held = 0
  !$omp parallel
  seen(omp_get_thread_num()) = omp_get_num_threads()
  call omp_set_lock(lock)
  total = total + 1
  call omp_unset_lock(lock)
  call omp_set_nest_lock(nest)
  held = held + omp_test_nest_lock(nest)
  call omp_unset_nest_lock(nest)
  call omp_unset_nest_lock(nest)
  !$omp end parallel
  print *, seen, total, held, omp_test_lock(lock)
  call omp_destroy_lock(lock)
  call omp_destroy_nest_lock(nest)
  sum = 0
  least = 1000
  !$omp parallel do schedule(runtime) reduction(+:sum) reduction(min:least)
  do i = 100, 1, -3
    sum = sum + i
    least = min(least, i)
  end do
  !$omp end parallel do
  print *, int(sum), least
  total = 0
  !$omp parallel num_threads(4)
  !$omp single
  do i = 1, 50
    !$omp task firstprivate(i)
    !$omp atomic
    total = total + i
    !$omp end task
  end do
  !$omp end single
  !$omp workshare
  seen = seen + 1
  !$omp end workshare
  !$omp end parallel
  print *, total, seen
  print *, omp_get_wtime() >= 0, omp_get_ancestor_thread_num(0), omp_get_team_size(3), omp_get_num_devices()
end program
