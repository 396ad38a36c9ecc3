! Buffers of nonblocking calls that the program does not call asynchronous, as many programs.
! run: 1
! flags: -O3
program unsaid_f08
  use mpi_f08
  implicit none
  integer :: i
  call MPI_Init()
  do i = 1, 3
    call numbers(i)
  end do
  call MPI_Finalize()

contains

  subroutine numbers(i)
    integer, intent(in) :: i
    integer :: one, three(3), sent(3)
    type(MPI_Request) :: first, second
    one = -1
    three = -1
    call MPI_Irecv(one, 1, MPI_INTEGER, 0, 1, MPI_COMM_SELF, first)
    call MPI_Irecv(three, 3, MPI_INTEGER, 0, 2, MPI_COMM_SELF, second)
    sent = i
    call MPI_Send(sent, 1, MPI_INTEGER, 0, 1, MPI_COMM_SELF)
    call MPI_Send(sent, 3, MPI_INTEGER, 0, 2, MPI_COMM_SELF)
    call MPI_Wait(first, MPI_STATUS_IGNORE)
    call MPI_Wait(second, MPI_STATUS_IGNORE)
    if (one /= i .or. any(three /= i)) error stop "received data is not seen"
    ! Values that are stored between the calls are sent.
    call MPI_Send_init(one, 1, MPI_INTEGER, 0, 3, MPI_COMM_SELF, first)
    one = 100 + i
    call MPI_Start(first)
    call MPI_Recv(sent, 1, MPI_INTEGER, 0, 3, MPI_COMM_SELF, MPI_STATUS_IGNORE)
    call MPI_Wait(first, MPI_STATUS_IGNORE)
    one = -2
    call MPI_Request_free(first)
    if (sent(1) /= 100 + i .or. one /= -2) error stop "sent data was not stored"
  end subroutine numbers

end program unsaid_f08
