! All ways to send and to complete, in module mpi_f08.
! run: 2 3
program point_to_point_f08
  use mpi_f08
  use, intrinsic :: iso_c_binding, only: c_ptr, c_f_pointer
  implicit none
  integer :: rank, processes, next, before, i, n, index, indices(4)
  integer :: data(4), got(4)
  logical :: flag
  type(MPI_Request) :: requests(4), one
  type(MPI_Status) :: statuses(4), status
  type(MPI_Message) :: message
  integer, target :: room(1000)
  type(c_ptr) :: detached
  integer(MPI_COUNT_KIND) :: large, elements

  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  call MPI_Comm_size(MPI_COMM_WORLD, processes)
  next = mod(rank + 1, processes)
  before = mod(rank + processes - 1, processes)
  data = [1, 2, 3, 4] + 10 * rank

  call MPI_Irecv(got, 4, MPI_INTEGER, before, 1, MPI_COMM_WORLD, one)
  call MPI_Ssend(data, 4, MPI_INTEGER, next, 1, MPI_COMM_WORLD)
  call MPI_Wait(one, status)
  call check(all(got == data + 10 * (before - rank)), "synchronous")
  call MPI_Get_count(status, MPI_INTEGER, n)
  call MPI_Get_count(status, MPI_INTEGER, large)
  call MPI_Get_elements(status, MPI_INTEGER, elements)
  call check(n == 4 .and. large == 4 .and. elements == 4, "counts")
  call MPI_Get_count(status, MPI_REAL8, n)
  call check(n == 2, "another datatype")

  call MPI_Buffer_attach(room, 4000)
  call MPI_Bsend(data, 4, MPI_INTEGER, next, 2, MPI_COMM_WORLD)
  call MPI_Probe(before, MPI_ANY_TAG, MPI_COMM_WORLD, status)
  call check(status%MPI_SOURCE == before .and. status%MPI_TAG == 2, "probe")
  call MPI_Recv(got, 4, MPI_INTEGER, before, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE)
  call MPI_Buffer_detach(detached, n)
  call same_place(detached, room, n, 4000)

  ! Indices count from 1.
  do i = 1, 4
    call MPI_Irecv(got(i), 1, MPI_INTEGER, before, 10 + i, MPI_COMM_WORLD, requests(i))
  end do
  call MPI_Testany(4, requests, index, flag, status)
  if (flag) call check(index == 3, "nothing but the third can be there")
  if (.not. flag) call check(index == MPI_UNDEFINED, "undefined")
  call MPI_Send(data(3), 1, MPI_INTEGER, next, 13, MPI_COMM_WORLD)
  if (.not. flag) call MPI_Waitany(4, requests, index, status)
  call check(index == 3 .and. status%MPI_TAG == 13, "wait for any")
  call check(requests(3) == MPI_REQUEST_NULL .and. requests(1) /= MPI_REQUEST_NULL, "requests")
  call MPI_Barrier(MPI_COMM_WORLD)
  call MPI_Send(data(4), 1, MPI_INTEGER, next, 14, MPI_COMM_WORLD)
  call MPI_Waitsome(4, requests, n, indices, statuses)
  call check(n == 1 .and. indices(1) == 4 .and. statuses(1)%MPI_TAG == 14, "wait for some")
  ! No process sends the others before all have this one.
  call MPI_Barrier(MPI_COMM_WORLD)
  call MPI_Send(data(1), 1, MPI_INTEGER, next, 11, MPI_COMM_WORLD)
  call MPI_Send(data(2), 1, MPI_INTEGER, next, 12, MPI_COMM_WORLD)
  call MPI_Waitall(4, requests, statuses)
  call check(statuses(1)%MPI_TAG == 11 .and. statuses(2)%MPI_TAG == 12, "wait for all")
  call check(all(got == data + 10 * (before - rank)), "four messages")
  call MPI_Waitsome(4, requests, n, indices, MPI_STATUSES_IGNORE)
  call check(n == MPI_UNDEFINED, "nothing to wait for")

  ! Matched probes.
  call MPI_Isend(data, 4, MPI_INTEGER, next, 3, MPI_COMM_WORLD, one)
  call MPI_Mprobe(before, 3, MPI_COMM_WORLD, message, status)
  got = 0
  call MPI_Mrecv(got, 4, MPI_INTEGER, message, status)
  call check(message == MPI_MESSAGE_NULL .and. got(4) == 4 + 10 * before, "matched")
  call MPI_Wait(one, MPI_STATUS_IGNORE)
  call MPI_Improbe(before, 99, MPI_COMM_WORLD, flag, message, status)
  call check(.not. flag, "no message")

  ! Persistent.
  call MPI_Send_init(data, 4, MPI_INTEGER, next, 4, MPI_COMM_WORLD, requests(1))
  call MPI_Recv_init(got, 4, MPI_INTEGER, before, 4, MPI_COMM_WORLD, requests(2))
  do i = 1, 3
    data = data + 100
    call MPI_Startall(2, requests)
    call MPI_Waitall(2, requests, MPI_STATUSES_IGNORE)
    call check(all(got == data + 10 * (before - rank)), "persistent")
  end do
  call MPI_Request_free(requests(1))
  call MPI_Request_free(requests(2))
  call check(requests(1) == MPI_REQUEST_NULL, "freed")

  ! Cancelled.
  call MPI_Irecv(got, 4, MPI_INTEGER, before, 98, MPI_COMM_WORLD, one)
  call MPI_Cancel(one)
  call MPI_Wait(one, status)
  call MPI_Test_cancelled(status, flag)
  call check(flag, "cancelled")

  ! In parts.
  call MPI_Psend_init(data, 2, 2_MPI_COUNT_KIND, MPI_INTEGER, next, 5, MPI_COMM_WORLD, &
    MPI_INFO_NULL, requests(1))
  call MPI_Precv_init(got, 2, 2_MPI_COUNT_KIND, MPI_INTEGER, before, 5, MPI_COMM_WORLD, &
    MPI_INFO_NULL, requests(2))
  call MPI_Startall(2, requests)
  call MPI_Pready(1, requests(1))
  call MPI_Pready_range(0, 0, requests(1))
  call MPI_Waitall(2, requests, MPI_STATUSES_IGNORE)
  call check(all(got == data + 10 * (before - rank)), "in parts")
  call MPI_Request_free(requests(1))
  call MPI_Request_free(requests(2))

  ! To MPI_PROC_NULL; and addresses from MPI_BOTTOM.
  call MPI_Recv(got, 4, MPI_INTEGER, MPI_PROC_NULL, 0, MPI_COMM_WORLD, status)
  call check(status%MPI_SOURCE == MPI_PROC_NULL, "nobody")
  call from_the_bottom()
  call MPI_Finalize()

contains

  include 'check.inc'

  subroutine same_place(place, array, bytes, expected)
    use, intrinsic :: iso_c_binding, only: c_associated, c_loc
    type(c_ptr), intent(in) :: place
    integer, target, intent(in) :: array(:)
    integer, intent(in) :: bytes, expected
    call check(bytes == expected, "detached size")
    call check(c_associated(place, c_loc(array)), "detached place")
  end subroutine same_place

  subroutine from_the_bottom()
    integer(MPI_ADDRESS_KIND) :: places(2)
    type(MPI_Datatype) :: both
    integer, asynchronous :: x(2), y(3)
    x = [1, 2]
    y = [3, 4, 5]
    call MPI_Get_address(x, places(1))
    call MPI_Get_address(y, places(2))
    call MPI_Type_create_hindexed(2, [2, 3], places, MPI_INTEGER, both)
    call MPI_Type_commit(both)
    call MPI_Sendrecv(MPI_BOTTOM, 1, both, 0, 7, room, 5, MPI_INTEGER, 0, 7, MPI_COMM_SELF, &
      MPI_STATUS_IGNORE)
    call check(all(room(:5) == [1, 2, 3, 4, 5]), "sent from the bottom")
    room(:5) = room(:5) * 2
    call MPI_Sendrecv(room, 5, MPI_INTEGER, 0, 7, MPI_BOTTOM, 1, both, 0, 7, MPI_COMM_SELF, &
      MPI_STATUS_IGNORE)
    call MPI_F_sync_reg(x)
    call MPI_F_sync_reg(y)
    call check(all(x == [2, 4]) .and. all(y == [6, 8, 10]), "received at the bottom")
    call check(MPI_Aint_diff(MPI_Aint_add(places(1), 8_MPI_ADDRESS_KIND), places(1)) == 8, "sums")
    call MPI_Type_free(both)
    call check(both == MPI_DATATYPE_NULL, "freed datatype")
  end subroutine from_the_bottom

end program point_to_point_f08
