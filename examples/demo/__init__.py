"""The demo: several conductor processes hash the files of a directory, and one of them is killed on the way.

``bin/demo DIRECTORY`` posts a job for each file, kills a conductor by SIGKILL when half of the work is done, and writes
``SHA256SUMS`` for ``sha256sum -c``. Paths are written as they were given. A link to a file stands for the file; links
to directories, sockets, pipes and devices are skipped and counted. Only the output itself is left out: with
``--board sqlite:///...`` keep that file out of the directory. A file that can't be read goes to the trash, is shown
with its reason, and makes the exit status 1; the other sums are written. The conductors end with the demo, however it
ends.
"""
