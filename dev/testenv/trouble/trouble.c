/* Preloaded into a server: its wall clock is off, its disk is full, or it cannot reach the other members of its replica
   set, as a small file says that others write. The
   clock that only goes on is left alone, and so are waits: a deadline that the server took from its wall clock is put
   back to the machine's. Linked to nothing, so that it fits the C library of any server. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

/* The file, as trouble.go writes it. */
struct trouble {
	volatile int64_t ahead; /* nanoseconds */
	volatile int64_t full;  /* 1: files cannot grow; 2: nothing can be written to them */
	volatile int64_t cut[2]; /* ports of this machine to which no connection goes */
};

static struct trouble none;
static struct trouble *trouble = &none;

static __thread int waits_for_room; /* the last write of this thread to a file was refused */

__attribute__((constructor)) static void begin(void)
{
	const char *name = getenv("ROWLOCK_TROUBLE");
	int fd = name ? open(name, O_RDONLY | O_CLOEXEC) : -1;
	if (fd < 0)
		return;
	void *p = mmap(NULL, sizeof(struct trouble), PROT_READ, MAP_SHARED, fd, 0);
	close(fd);
	if (p != MAP_FAILED)
		trouble = p;
}

/* The C library's own function. The first of its versions is not always the one that programs use. */
static void *next(const char *name, const char *version)
{
	void *f = version ? dlvsym(RTLD_NEXT, name, version) : NULL;
	return f ? f : dlsym(RTLD_NEXT, name);
}
#define NEXT(name, version) \
	static __typeof__(name) *real; \
	if (!real) \
		real = (__typeof__(name) *)next(#name, version)

/* The clock. */

#define SECOND 1000000000LL

static void add(struct timespec *t, int64_t ns)
{
	ns += t->tv_nsec;
	t->tv_sec += ns / SECOND;
	t->tv_nsec = ns % SECOND;
	if (t->tv_nsec < 0) {
		t->tv_nsec += SECOND;
		t->tv_sec--;
	}
}

int clock_gettime(clockid_t id, struct timespec *t)
{
	NEXT(clock_gettime, NULL);
	int r = real(id, t);
	if (r == 0 && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE))
		add(t, trouble->ahead);
	return r;
}

int gettimeofday(struct timeval *restrict t, void *restrict zone)
{
	struct timespec now;
	(void)zone;
	clock_gettime(CLOCK_REALTIME, &now);
	t->tv_sec = now.tv_sec;
	t->tv_usec = now.tv_nsec / 1000;
	return 0;
}

time_t time(time_t *t)
{
	struct timespec now;
	clock_gettime(CLOCK_REALTIME, &now);
	if (t)
		*t = now.tv_sec;
	return now.tv_sec;
}

int timespec_get(struct timespec *t, int base)
{
	return base == TIME_UTC && clock_gettime(CLOCK_REALTIME, t) == 0 ? base : 0;
}

/* A deadline by the machine's clock. One of the other clock, which began when the machine did, is far smaller. */
static const struct timespec *machine(const struct timespec *t, struct timespec *own)
{
	if (trouble->ahead == 0 || t->tv_sec < SECOND)
		return t;
	*own = *t;
	add(own, -trouble->ahead);
	return own;
}

int pthread_cond_timedwait(pthread_cond_t *restrict c, pthread_mutex_t *restrict m, const struct timespec *restrict t)
{
	struct timespec own;
	NEXT(pthread_cond_timedwait, "GLIBC_2.3.2");
	t = machine(t, &own);
	while (waits_for_room) { /* see sleep */
		struct timespec soon;
		syscall(SYS_clock_gettime, CLOCK_REALTIME, &soon);
		add(&soon, SECOND / 20);
		if (soon.tv_sec >= t->tv_sec)
			break;
		int r = real(c, m, &soon);
		if (r != ETIMEDOUT || trouble->full == 0)
			return r;
	}
	return real(c, m, t);
}

int pthread_cond_clockwait(pthread_cond_t *restrict c, pthread_mutex_t *restrict m, clockid_t id, const struct timespec *restrict t)
{
	struct timespec own;
	NEXT(pthread_cond_clockwait, NULL);
	return real(c, m, id, id == CLOCK_REALTIME ? machine(t, &own) : t);
}

int sem_timedwait(sem_t *restrict s, const struct timespec *restrict t)
{
	struct timespec own;
	NEXT(sem_timedwait, NULL);
	return real(s, machine(t, &own));
}

/* The disk. */

/* offset < 0: where the file stands, or its end if it is for appending. */
static int refused(int fd, off64_t offset, size_t n)
{
	struct stat s;
	if (trouble->full == 0) {
		waits_for_room = 0;
		return 0;
	}
	if (fd <= 2 || syscall(SYS_fstat, fd, &s) != 0 || !S_ISREG(s.st_mode))
		return 0;
	if (trouble->full == 1) {
		if (offset < 0 && fcntl(fd, F_GETFL) & O_APPEND)
			offset = s.st_size;
		else if (offset < 0)
			offset = lseek(fd, 0, SEEK_CUR);
		if (offset + (off64_t)n <= s.st_size)
			return 0;
	}
	waits_for_room = 1;
	errno = ENOSPC;
	return 1;
}

static size_t total(const struct iovec *v, int n)
{
	size_t sum = 0;
	for (int i = 0; i < n; i++)
		sum += v[i].iov_len;
	return sum;
}

static int unreachable(int fd); /* see The network */

ssize_t write(int fd, const void *p, size_t n)
{
	NEXT(write, NULL);
	return refused(fd, -1, n) || unreachable(fd) ? -1 : real(fd, p, n);
}

ssize_t writev(int fd, const struct iovec *v, int n)
{
	NEXT(writev, NULL);
	return refused(fd, -1, total(v, n)) || unreachable(fd) ? -1 : real(fd, v, n);
}

#define PWRITE(name, type) \
	ssize_t name(int fd, const void *p, size_t n, type offset) \
	{ \
		NEXT(name, NULL); \
		return refused(fd, offset, n) ? -1 : real(fd, p, n, offset); \
	}
PWRITE(pwrite, off_t)
PWRITE(pwrite64, off64_t)

#define PWRITEV(name, type) \
	ssize_t name(int fd, const struct iovec *v, int n, type offset) \
	{ \
		NEXT(name, NULL); \
		return refused(fd, offset, total(v, n)) ? -1 : real(fd, v, n, offset); \
	}
PWRITEV(pwritev, off_t)
PWRITEV(pwritev64, off64_t)

#define FALLOCATE(name, type) \
	int name(int fd, int mode, type offset, type n) \
	{ \
		NEXT(name, NULL); \
		return refused(fd, offset, n) ? -1 : real(fd, mode, offset, n); \
	}
FALLOCATE(fallocate, off_t)
FALLOCATE(fallocate64, off64_t)

#define POSIX_FALLOCATE(name, type) \
	int name(int fd, type offset, type n) \
	{ \
		NEXT(name, NULL); \
		return refused(fd, offset, n) ? ENOSPC : real(fd, offset, n); \
	}
POSIX_FALLOCATE(posix_fallocate, off_t)
POSIX_FALLOCATE(posix_fallocate64, off64_t)

/* When a log cannot grow MySQL sleeps for a minute, second by second, and MariaDB waits for a condition as long; then
   they try again. Here they do as soon as there is room. */
unsigned sleep(unsigned seconds)
{
	struct timespec step = {0, SECOND / 20};
	NEXT(sleep, NULL);
	if (!waits_for_room)
		return real(seconds);
	for (unsigned i = 0; i < 20 * seconds && trouble->full != 0; i++)
		nanosleep(&step, NULL);
	return 0;
}

/* The network. Only who made a connection knows it by its port, so of two that are cut off each must be told of the
   other's port: then neither side's connections are of use. What is sent and received is refused, not swallowed, and so
   a connection that nobody used meanwhile is as good as before. mongod and Galera send and receive messages; a group of
   MySQL reads and writes its sockets like files. */

static int is_cut(const struct sockaddr *a)
{
	if (a->sa_family != AF_INET)
		return 0;
	int port = ntohs(((const struct sockaddr_in *)a)->sin_port);
	return port == trouble->cut[0] || port == trouble->cut[1];
}

static int unreachable(int fd)
{
	struct sockaddr_storage a;
	socklen_t n = sizeof(a);
	if (trouble->cut[0] == 0)
		return 0;
	int before = errno;
	int cut = getpeername(fd, (struct sockaddr *)&a, &n) == 0 && is_cut((struct sockaddr *)&a);
	errno = cut ? ECONNRESET : before;
	return cut;
}

int connect(int fd, const struct sockaddr *a, socklen_t n)
{
	NEXT(connect, NULL);
	if (trouble->cut[0] != 0 && n >= sizeof(struct sockaddr_in) && is_cut(a)) {
		errno = ENETUNREACH;
		return -1;
	}
	return real(fd, a, n);
}

#define UNREACHABLE(name, parameters, arguments) \
	ssize_t name parameters \
	{ \
		NEXT(name, NULL); \
		return unreachable(fd) ? -1 : real arguments; \
	}
UNREACHABLE(send, (int fd, const void *p, size_t n, int flags), (fd, p, n, flags))
UNREACHABLE(sendmsg, (int fd, const struct msghdr *m, int flags), (fd, m, flags))
UNREACHABLE(recv, (int fd, void *p, size_t n, int flags), (fd, p, n, flags))
UNREACHABLE(recvmsg, (int fd, struct msghdr *m, int flags), (fd, m, flags))
UNREACHABLE(read, (int fd, void *p, size_t n), (fd, p, n))
