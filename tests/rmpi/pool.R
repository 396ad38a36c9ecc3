# Workers of Rmpi, as its manual shows them: tests/rmpi/run starts it.
library(Rmpi)
workers <- as.integer(commandArgs(trailingOnly = TRUE)[1])
mpi.spawn.Rslaves(nslaves = workers)
ranks <- mpi.remote.exec(mpi.comm.rank())
stopifnot(identical(as.integer(unlist(ranks)), seq_len(workers)))
cat("workers: ", length(ranks), "\n", sep = "")
offset <- 2
mpi.bcast.Robj2slave(offset)
squares <- mpi.parSapply(1:10, function(x) x * x)
cat("sum of squares: ", sum(squares), "\n", sep = "")
stopifnot(all(mpi.applyLB(1:20, function(x) x + offset) == 1:20 + 2))
mpi.close.Rslaves()
mpi.quit()
