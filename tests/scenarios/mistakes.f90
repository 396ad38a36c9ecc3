! Mistakes in Fortran, which `combray run --check` reports with the lines that are marked here
! (mistakes.py).
program mistakes
   use mpi_f08
   implicit none
   integer :: rank
   call MPI_Init()
   call MPI_Comm_rank(MPI_COMM_WORLD, rank)
   call commit()
   call MPI_Finalize()
contains
   subroutine commit()
      integer, asynchronous :: number
      integer :: value
      type(MPI_Request) :: request
      number = 1
      value = rank
      if (rank == 0) then
         call MPI_Isend(number, 1, MPI_INTEGER, 1, 0, MPI_COMM_WORLD, request) ! fortran: changed
         number = 2
         call MPI_Wait(request, MPI_STATUS_IGNORE) ! fortran: end
         call MPI_Send(number, 1, MPI_INTEGER, 1, 5, MPI_COMM_WORLD) ! fortran: sender
      else if (rank == 1) then
         call MPI_Recv(value, 1, MPI_INTEGER, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE)
         call MPI_Recv(value, 1, MPI_REAL, 0, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE) ! fortran: receiver
      end if
      call MPI_Bcast(value, 1, MPI_INTEGER, rank, MPI_COMM_WORLD) ! fortran: root
   end subroutine
end program
