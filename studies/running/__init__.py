"""What studies/run consists of: the studies, the libraries, the measuring, tables and pictures."""
