! The first steps of first_f08.f90, with mpif.h, in fixed form.
! run: 1 2 5
! built-for: mpich openmpi
      program first_mpif
      implicit none
      include 'mpif.h'
      integer rank, processes, length, code, copy, total, ring(1)
      integer everyone(64), status(MPI_STATUS_SIZE), requests(2), next
      integer before
      double precision a(10), b(10)
      character*(MPI_MAX_OBJECT_NAME) label
      logical flag

      call MPI_INIT(code)
      call MPI_COMM_RANK(MPI_COMM_WORLD, rank, code)
      call MPI_COMM_SIZE(MPI_COMM_WORLD, processes, code)
      call MPI_INITIALIZED(flag, code)
      if (.not. flag) stop 1
      next = mod(rank + 1, processes)
      before = mod(rank + processes - 1, processes)

      ring(1) = rank
      call MPI_SENDRECV_REPLACE(ring, 1, MPI_INTEGER, next, 3,
     &    MPI_ANY_SOURCE, 3, MPI_COMM_WORLD, status, code)
      if (ring(1) .ne. status(MPI_SOURCE)) stop 2

      a = rank + 0.5d0
      call MPI_IRECV(b, 10, MPI_DOUBLE_PRECISION, before, 5,
     &    MPI_COMM_WORLD, requests(1), code)
      call MPI_ISEND(a, 10, MPI_DOUBLE_PRECISION, next, 5,
     &    MPI_COMM_WORLD, requests(2), code)
      call MPI_WAITALL(2, requests, MPI_STATUSES_IGNORE, code)
      call MPI_F_SYNC_REG(b)
      if (any(b .ne. before + 0.5d0)) stop 3

      total = rank
      call MPI_ALLREDUCE(MPI_IN_PLACE, total, 1, MPI_INTEGER, MPI_SUM,
     &    MPI_COMM_WORLD, code)
      if (total .ne. processes * (processes - 1) / 2) stop 4
      call MPI_ALLGATHER(rank, 1, MPI_INTEGER, everyone, 1,
     &    MPI_INTEGER, MPI_COMM_WORLD, code)
      if (everyone(processes) .ne. processes - 1) stop 5

      call MPI_COMM_DUP(MPI_COMM_WORLD, copy, code)
      call MPI_COMM_SET_NAME(copy, 'the copy   ', code)
      call MPI_COMM_GET_NAME(copy, label, length, code)
      if (label .ne. 'the copy' .or. length .ne. 8) stop 6
      call MPI_COMM_FREE(copy, code)
      if (copy .ne. MPI_COMM_NULL) stop 7
      if (MPI_WTIME() .lt. 0) stop 8
      call MPI_FINALIZE(code)
      end
