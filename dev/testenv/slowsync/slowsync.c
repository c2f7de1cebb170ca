/* Preloaded into a server: every sync to disk takes some time longer. The sync comes first, so nothing is acknowledged
   that is not on disk, and the sleep holds up who waits for this sync alone: a group commit still serves a group.
   Linked to nothing, so that it fits the C library of any server. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static long slowly(long result)
{
	static volatile long delay = -1; /* two threads may both read it: they read the same */
	if (delay < 0) {
		const char *ns = getenv("ROWLOCK_SLOW_SYNC_NS");
		delay = ns ? atol(ns) : 0;
	}
	if (result == 0 && delay > 0) {
		struct timespec left = {delay / 1000000000, delay % 1000000000};
		while (nanosleep(&left, &left) != 0)
			; /* a signal woke it */
	}
	return result;
}

int fsync(int fd) { return slowly(syscall(SYS_fsync, fd)); }
int fdatasync(int fd) { return slowly(syscall(SYS_fdatasync, fd)); }

/* Only those that wait for the disk. */
int msync(void *addr, size_t len, int flags)
{
	long r = syscall(SYS_msync, addr, len, flags);
	return flags & MS_SYNC ? slowly(r) : r;
}

int sync_file_range(int fd, off64_t offset, off64_t n, unsigned flags)
{
	long r = syscall(SYS_sync_file_range, fd, offset, n, flags);
	return flags & SYNC_FILE_RANGE_WAIT_AFTER ? slowly(r) : r;
}
