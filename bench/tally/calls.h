/* The calls that are counted: name, parameters, arguments. */
#define CALLS(X) \
    X(Send, (const void *buf, int count, MPI_Datatype datatype, int dest, int tag, MPI_Comm \
      comm), (buf, count, datatype, dest, tag, comm)) \
    X(Ssend, (const void *buf, int count, MPI_Datatype datatype, int dest, int tag, MPI_Comm \
      comm), (buf, count, datatype, dest, tag, comm)) \
    X(Bsend, (const void *buf, int count, MPI_Datatype datatype, int dest, int tag, MPI_Comm \
      comm), (buf, count, datatype, dest, tag, comm)) \
    X(Rsend, (const void *buf, int count, MPI_Datatype datatype, int dest, int tag, MPI_Comm \
      comm), (buf, count, datatype, dest, tag, comm)) \
    X(Isend, (const void *buf, int count, MPI_Datatype datatype, int dest, int tag, MPI_Comm \
      comm, MPI_Request *request), (buf, count, datatype, dest, tag, comm, request)) \
    X(Issend, (const void *buf, int count, MPI_Datatype datatype, int dest, int tag, MPI_Comm \
      comm, MPI_Request *request), (buf, count, datatype, dest, tag, comm, request)) \
    X(Ibsend, (const void *buf, int count, MPI_Datatype datatype, int dest, int tag, MPI_Comm \
      comm, MPI_Request *request), (buf, count, datatype, dest, tag, comm, request)) \
    X(Irsend, (const void *buf, int count, MPI_Datatype datatype, int dest, int tag, MPI_Comm \
      comm, MPI_Request *request), (buf, count, datatype, dest, tag, comm, request)) \
    X(Recv, (void *buf, int count, MPI_Datatype datatype, int source, int tag, MPI_Comm comm, \
      MPI_Status *status), (buf, count, datatype, source, tag, comm, status)) \
    X(Irecv, (void *buf, int count, MPI_Datatype datatype, int source, int tag, MPI_Comm comm, \
      MPI_Request *request), (buf, count, datatype, source, tag, comm, request)) \
    X(Mprobe, (int source, int tag, MPI_Comm comm, MPI_Message *message, MPI_Status *status), \
      (source, tag, comm, message, status)) \
    X(Improbe, (int source, int tag, MPI_Comm comm, int *flag, MPI_Message *message, \
      MPI_Status *status), (source, tag, comm, flag, message, status)) \
    X(Mrecv, (void *buf, int count, MPI_Datatype datatype, MPI_Message *message, MPI_Status \
      *status), (buf, count, datatype, message, status)) \
    X(Imrecv, (void *buf, int count, MPI_Datatype datatype, MPI_Message *message, MPI_Request \
      *request), (buf, count, datatype, message, request)) \
    X(Sendrecv, (const void *sendbuf, int sendcount, MPI_Datatype sendtype, int dest, int \
      sendtag, void *recvbuf, int recvcount, MPI_Datatype recvtype, int source, int recvtag, \
      MPI_Comm comm, MPI_Status *status), (sendbuf, sendcount, sendtype, dest, sendtag, recvbuf, \
      recvcount, recvtype, source, recvtag, comm, status)) \
    X(Sendrecv_replace, (void *buf, int count, MPI_Datatype datatype, int dest, int sendtag, \
      int source, int recvtag, MPI_Comm comm, MPI_Status *status), (buf, count, datatype, dest, \
      sendtag, source, recvtag, comm, status)) \
    X(Probe, (int source, int tag, MPI_Comm comm, MPI_Status *status), (source, tag, comm, \
      status)) \
    X(Iprobe, (int source, int tag, MPI_Comm comm, int *flag, MPI_Status *status), (source, \
      tag, comm, flag, status)) \
    X(Wait, (MPI_Request *request, MPI_Status *status), (request, status)) \
    X(Waitall, (int count, MPI_Request array_of_requests[], MPI_Status *array_of_statuses), \
      (count, array_of_requests, array_of_statuses)) \
    X(Waitany, (int count, MPI_Request array_of_requests[], int *indx, MPI_Status *status), \
      (count, array_of_requests, indx, status)) \
    X(Waitsome, (int incount, MPI_Request array_of_requests[], int *outcount, int \
      array_of_indices[], MPI_Status *array_of_statuses), (incount, array_of_requests, outcount, \
      array_of_indices, array_of_statuses)) \
    X(Test, (MPI_Request *request, int *flag, MPI_Status *status), (request, flag, status)) \
    X(Testall, (int count, MPI_Request array_of_requests[], int *flag, MPI_Status \
      *array_of_statuses), (count, array_of_requests, flag, array_of_statuses)) \
    X(Testany, (int count, MPI_Request array_of_requests[], int *indx, int *flag, MPI_Status \
      *status), (count, array_of_requests, indx, flag, status)) \
    X(Testsome, (int incount, MPI_Request array_of_requests[], int *outcount, int \
      array_of_indices[], MPI_Status *array_of_statuses), (incount, array_of_requests, outcount, \
      array_of_indices, array_of_statuses)) \
    X(Start, (MPI_Request *request), (request)) \
    X(Startall, (int count, MPI_Request array_of_requests[]), (count, array_of_requests)) \
    X(Barrier, (MPI_Comm comm), (comm)) \
    X(Bcast, (void *buffer, int count, MPI_Datatype datatype, int root, MPI_Comm comm), \
      (buffer, count, datatype, root, comm)) \
    X(Gather, (const void *sendbuf, int sendcount, MPI_Datatype sendtype, void *recvbuf, int \
      recvcount, MPI_Datatype recvtype, int root, MPI_Comm comm), (sendbuf, sendcount, sendtype, \
      recvbuf, recvcount, recvtype, root, comm)) \
    X(Gatherv, (const void *sendbuf, int sendcount, MPI_Datatype sendtype, void *recvbuf, \
      const int recvcounts[], const int displs[], MPI_Datatype recvtype, int root, MPI_Comm \
      comm), (sendbuf, sendcount, sendtype, recvbuf, recvcounts, displs, recvtype, root, comm)) \
    X(Scatter, (const void *sendbuf, int sendcount, MPI_Datatype sendtype, void *recvbuf, int \
      recvcount, MPI_Datatype recvtype, int root, MPI_Comm comm), (sendbuf, sendcount, sendtype, \
      recvbuf, recvcount, recvtype, root, comm)) \
    X(Scatterv, (const void *sendbuf, const int sendcounts[], const int displs[], MPI_Datatype \
      sendtype, void *recvbuf, int recvcount, MPI_Datatype recvtype, int root, MPI_Comm comm), \
      (sendbuf, sendcounts, displs, sendtype, recvbuf, recvcount, recvtype, root, comm)) \
    X(Allgather, (const void *sendbuf, int sendcount, MPI_Datatype sendtype, void *recvbuf, \
      int recvcount, MPI_Datatype recvtype, MPI_Comm comm), (sendbuf, sendcount, sendtype, \
      recvbuf, recvcount, recvtype, comm)) \
    X(Allgatherv, (const void *sendbuf, int sendcount, MPI_Datatype sendtype, void *recvbuf, \
      const int recvcounts[], const int displs[], MPI_Datatype recvtype, MPI_Comm comm), \
      (sendbuf, sendcount, sendtype, recvbuf, recvcounts, displs, recvtype, comm)) \
    X(Alltoall, (const void *sendbuf, int sendcount, MPI_Datatype sendtype, void *recvbuf, int \
      recvcount, MPI_Datatype recvtype, MPI_Comm comm), (sendbuf, sendcount, sendtype, recvbuf, \
      recvcount, recvtype, comm)) \
    X(Alltoallv, (const void *sendbuf, const int sendcounts[], const int sdispls[], \
      MPI_Datatype sendtype, void *recvbuf, const int recvcounts[], const int rdispls[], \
      MPI_Datatype recvtype, MPI_Comm comm), (sendbuf, sendcounts, sdispls, sendtype, recvbuf, \
      recvcounts, rdispls, recvtype, comm)) \
    X(Alltoallw, (const void *sendbuf, const int sendcounts[], const int sdispls[], const \
      MPI_Datatype sendtypes[], void *recvbuf, const int recvcounts[], const int rdispls[], \
      const MPI_Datatype recvtypes[], MPI_Comm comm), (sendbuf, sendcounts, sdispls, sendtypes, \
      recvbuf, recvcounts, rdispls, recvtypes, comm)) \
    X(Reduce, (const void *sendbuf, void *recvbuf, int count, MPI_Datatype datatype, MPI_Op \
      op, int root, MPI_Comm comm), (sendbuf, recvbuf, count, datatype, op, root, comm)) \
    X(Allreduce, (const void *sendbuf, void *recvbuf, int count, MPI_Datatype datatype, MPI_Op \
      op, MPI_Comm comm), (sendbuf, recvbuf, count, datatype, op, comm)) \
    X(Reduce_scatter, (const void *sendbuf, void *recvbuf, const int recvcounts[], \
      MPI_Datatype datatype, MPI_Op op, MPI_Comm comm), (sendbuf, recvbuf, recvcounts, datatype, \
      op, comm)) \
    X(Reduce_scatter_block, (const void *sendbuf, void *recvbuf, int recvcount, MPI_Datatype \
      datatype, MPI_Op op, MPI_Comm comm), (sendbuf, recvbuf, recvcount, datatype, op, comm)) \
    X(Scan, (const void *sendbuf, void *recvbuf, int count, MPI_Datatype datatype, MPI_Op op, \
      MPI_Comm comm), (sendbuf, recvbuf, count, datatype, op, comm)) \
    X(Exscan, (const void *sendbuf, void *recvbuf, int count, MPI_Datatype datatype, MPI_Op \
      op, MPI_Comm comm), (sendbuf, recvbuf, count, datatype, op, comm)) \
    X(Ibarrier, (MPI_Comm comm, MPI_Request *request), (comm, request)) \
    X(Ibcast, (void *buffer, int count, MPI_Datatype datatype, int root, MPI_Comm comm, \
      MPI_Request *request), (buffer, count, datatype, root, comm, request)) \
    X(Igather, (const void *sendbuf, int sendcount, MPI_Datatype sendtype, void *recvbuf, int \
      recvcount, MPI_Datatype recvtype, int root, MPI_Comm comm, MPI_Request *request), \
      (sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, root, comm, request)) \
    X(Iscatter, (const void *sendbuf, int sendcount, MPI_Datatype sendtype, void *recvbuf, int \
      recvcount, MPI_Datatype recvtype, int root, MPI_Comm comm, MPI_Request *request), \
      (sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, root, comm, request)) \
    X(Iallgather, (const void *sendbuf, int sendcount, MPI_Datatype sendtype, void *recvbuf, \
      int recvcount, MPI_Datatype recvtype, MPI_Comm comm, MPI_Request *request), (sendbuf, \
      sendcount, sendtype, recvbuf, recvcount, recvtype, comm, request)) \
    X(Ialltoall, (const void *sendbuf, int sendcount, MPI_Datatype sendtype, void *recvbuf, \
      int recvcount, MPI_Datatype recvtype, MPI_Comm comm, MPI_Request *request), (sendbuf, \
      sendcount, sendtype, recvbuf, recvcount, recvtype, comm, request)) \
    X(Ialltoallv, (const void *sendbuf, const int sendcounts[], const int sdispls[], \
      MPI_Datatype sendtype, void *recvbuf, const int recvcounts[], const int rdispls[], \
      MPI_Datatype recvtype, MPI_Comm comm, MPI_Request *request), (sendbuf, sendcounts, \
      sdispls, sendtype, recvbuf, recvcounts, rdispls, recvtype, comm, request)) \
    X(Ireduce, (const void *sendbuf, void *recvbuf, int count, MPI_Datatype datatype, MPI_Op \
      op, int root, MPI_Comm comm, MPI_Request *request), (sendbuf, recvbuf, count, datatype, \
      op, root, comm, request)) \
    X(Iallreduce, (const void *sendbuf, void *recvbuf, int count, MPI_Datatype datatype, \
      MPI_Op op, MPI_Comm comm, MPI_Request *request), (sendbuf, recvbuf, count, datatype, op, \
      comm, request)) \
    X(Neighbor_allgather, (const void *sendbuf, int sendcount, MPI_Datatype sendtype, void \
      *recvbuf, int recvcount, MPI_Datatype recvtype, MPI_Comm comm), (sendbuf, sendcount, \
      sendtype, recvbuf, recvcount, recvtype, comm)) \
    X(Neighbor_alltoall, (const void *sendbuf, int sendcount, MPI_Datatype sendtype, void \
      *recvbuf, int recvcount, MPI_Datatype recvtype, MPI_Comm comm), (sendbuf, sendcount, \
      sendtype, recvbuf, recvcount, recvtype, comm)) \
    X(Neighbor_alltoallv, (const void *sendbuf, const int sendcounts[], const int sdispls[], \
      MPI_Datatype sendtype, void *recvbuf, const int recvcounts[], const int rdispls[], \
      MPI_Datatype recvtype, MPI_Comm comm), (sendbuf, sendcounts, sdispls, sendtype, recvbuf, \
      recvcounts, rdispls, recvtype, comm)) \
    X(Neighbor_alltoallw, (const void *sendbuf, const int sendcounts[], const MPI_Aint \
      sdispls[], const MPI_Datatype sendtypes[], void *recvbuf, const int recvcounts[], const \
      MPI_Aint rdispls[], const MPI_Datatype recvtypes[], MPI_Comm comm), (sendbuf, sendcounts, \
      sdispls, sendtypes, recvbuf, recvcounts, rdispls, recvtypes, comm)) \
    X(Put, (const void *origin_addr, int origin_count, MPI_Datatype origin_datatype, int \
      target_rank, MPI_Aint target_disp, int target_count, MPI_Datatype target_datatype, MPI_Win \
      win), (origin_addr, origin_count, origin_datatype, target_rank, target_disp, target_count, \
      target_datatype, win)) \
    X(Get, (void *origin_addr, int origin_count, MPI_Datatype origin_datatype, int \
      target_rank, MPI_Aint target_disp, int target_count, MPI_Datatype target_datatype, MPI_Win \
      win), (origin_addr, origin_count, origin_datatype, target_rank, target_disp, target_count, \
      target_datatype, win)) \
    X(Accumulate, (const void *origin_addr, int origin_count, MPI_Datatype origin_datatype, \
      int target_rank, MPI_Aint target_disp, int target_count, MPI_Datatype target_datatype, \
      MPI_Op op, MPI_Win win), (origin_addr, origin_count, origin_datatype, target_rank, \
      target_disp, target_count, target_datatype, op, win)) \
    X(Get_accumulate, (const void *origin_addr, int origin_count, MPI_Datatype \
      origin_datatype, void *result_addr, int result_count, MPI_Datatype result_datatype, int \
      target_rank, MPI_Aint target_disp, int target_count, MPI_Datatype target_datatype, MPI_Op \
      op, MPI_Win win), (origin_addr, origin_count, origin_datatype, result_addr, result_count, \
      result_datatype, target_rank, target_disp, target_count, target_datatype, op, win)) \
    X(Fetch_and_op, (const void *origin_addr, void *result_addr, MPI_Datatype datatype, int \
      target_rank, MPI_Aint target_disp, MPI_Op op, MPI_Win win), (origin_addr, result_addr, \
      datatype, target_rank, target_disp, op, win)) \
    X(Compare_and_swap, (const void *origin_addr, const void *compare_addr, void *result_addr, \
      MPI_Datatype datatype, int target_rank, MPI_Aint target_disp, MPI_Win win), (origin_addr, \
      compare_addr, result_addr, datatype, target_rank, target_disp, win)) \
    X(Rput, (const void *origin_addr, int origin_count, MPI_Datatype origin_datatype, int \
      target_rank, MPI_Aint target_disp, int target_count, MPI_Datatype target_datatype, MPI_Win \
      win, MPI_Request *request), (origin_addr, origin_count, origin_datatype, target_rank, \
      target_disp, target_count, target_datatype, win, request)) \
    X(Rget, (void *origin_addr, int origin_count, MPI_Datatype origin_datatype, int \
      target_rank, MPI_Aint target_disp, int target_count, MPI_Datatype target_datatype, MPI_Win \
      win, MPI_Request *request), (origin_addr, origin_count, origin_datatype, target_rank, \
      target_disp, target_count, target_datatype, win, request)) \
    X(Win_fence, (int assert, MPI_Win win), (assert, win)) \
    X(Win_lock, (int lock_type, int rank, int assert, MPI_Win win), (lock_type, rank, assert, \
      win)) \
    X(Win_unlock, (int rank, MPI_Win win), (rank, win)) \
    X(Win_lock_all, (int assert, MPI_Win win), (assert, win)) \
    X(Win_unlock_all, (MPI_Win win), (win)) \
    X(Win_flush, (int rank, MPI_Win win), (rank, win)) \
    X(Win_flush_all, (MPI_Win win), (win)) \
    X(Win_flush_local, (int rank, MPI_Win win), (rank, win)) \
    X(Win_post, (MPI_Group group, int assert, MPI_Win win), (group, assert, win)) \
    X(Win_start, (MPI_Group group, int assert, MPI_Win win), (group, assert, win)) \
    X(Win_complete, (MPI_Win win), (win)) \
    X(Win_wait, (MPI_Win win), (win)) \
    X(Comm_dup, (MPI_Comm comm, MPI_Comm *newcomm), (comm, newcomm)) \
    X(Comm_split, (MPI_Comm comm, int color, int key, MPI_Comm *newcomm), (comm, color, key, \
      newcomm)) \
    X(Comm_create, (MPI_Comm comm, MPI_Group group, MPI_Comm *newcomm), (comm, group, \
      newcomm)) \
    X(Win_create, (void *base, MPI_Aint size, int disp_unit, MPI_Info info, MPI_Comm comm, \
      MPI_Win *win), (base, size, disp_unit, info, comm, win)) \
    X(Win_allocate, (MPI_Aint size, int disp_unit, MPI_Info info, MPI_Comm comm, void \
      *baseptr, MPI_Win *win), (size, disp_unit, info, comm, baseptr, win)) \
    X(File_open, (MPI_Comm comm, const char *filename, int amode, MPI_Info info, MPI_File \
      *fh), (comm, filename, amode, info, fh)) \
    X(File_close, (MPI_File *fh), (fh)) \
    X(File_read, (MPI_File fh, void *buf, int count, MPI_Datatype datatype, MPI_Status \
      *status), (fh, buf, count, datatype, status)) \
    X(File_write, (MPI_File fh, const void *buf, int count, MPI_Datatype datatype, MPI_Status \
      *status), (fh, buf, count, datatype, status)) \
    X(File_read_at, (MPI_File fh, MPI_Offset offset, void *buf, int count, MPI_Datatype \
      datatype, MPI_Status *status), (fh, offset, buf, count, datatype, status)) \
    X(File_write_at, (MPI_File fh, MPI_Offset offset, const void *buf, int count, MPI_Datatype \
      datatype, MPI_Status *status), (fh, offset, buf, count, datatype, status)) \
    X(File_read_all, (MPI_File fh, void *buf, int count, MPI_Datatype datatype, MPI_Status \
      *status), (fh, buf, count, datatype, status)) \
    X(File_write_all, (MPI_File fh, const void *buf, int count, MPI_Datatype datatype, \
      MPI_Status *status), (fh, buf, count, datatype, status)) \
    X(File_read_at_all, (MPI_File fh, MPI_Offset offset, void *buf, int count, MPI_Datatype \
      datatype, MPI_Status *status), (fh, offset, buf, count, datatype, status)) \
    X(File_write_at_all, (MPI_File fh, MPI_Offset offset, const void *buf, int count, \
      MPI_Datatype datatype, MPI_Status *status), (fh, offset, buf, count, datatype, status))
