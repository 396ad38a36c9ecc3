! Errors end the job with the message that a program in C gets, with mpif.h, too.
! run: 1
! built-for: mpich openmpi
! fails: MPI_Type_vector: argument 1 (count) is -3
      program wrong_argument_mpif
      implicit none
      include 'mpif.h'
      integer newtype, code
      call MPI_INIT(code)
      call MPI_TYPE_VECTOR(-3, 1, 2, MPI_REAL, newtype, code)
      call MPI_FINALIZE(code)
      end
