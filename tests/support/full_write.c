/* A disk that is full for exactly one write: the chosen write below a directory fails with ENOSPC, the others work. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

static char below[4096];
static char failed[4096];
static atomic_long chosen, counted;

static ssize_t (*real_write)(int, const void *, size_t);
static ssize_t (*real_pwrite)(int, const void *, size_t, off_t);
static ssize_t (*real_writev)(int, const struct iovec *, int);

__attribute__((constructor)) static void find_real(void) {
  real_write = dlsym(RTLD_NEXT, "write");
  real_pwrite = dlsym(RTLD_NEXT, "pwrite64");
  real_writev = dlsym(RTLD_NEXT, "writev");
}

/* Fail the write of this number below a directory; 0 fails none. */
void full_write_arm(const char *directory, long number) {
  atomic_store(&chosen, 0);
  snprintf(below, sizeof below, "%s", directory);
  failed[0] = 0;
  atomic_store(&counted, 0);
  atomic_store(&chosen, number);
}

/* The file whose write failed; empty when none did. */
const char *full_write_failed(void) { return failed; }

static int is_chosen(int file) {
  char link[64], path[4096];
  if (!atomic_load(&chosen)) return 0;
  snprintf(link, sizeof link, "/proc/self/fd/%d", file);
  ssize_t length = readlink(link, path, sizeof path - 1);
  if (length < 0) return 0;
  path[length] = 0;
  if (strncmp(path, below, strlen(below))) return 0;
  if (atomic_fetch_add(&counted, 1) + 1 != atomic_load(&chosen)) return 0;
  snprintf(failed, sizeof failed, "%s", path);
  return 1;
}

static ssize_t refuse(void) {
  errno = ENOSPC;
  return -1;
}

ssize_t write(int file, const void *data, size_t size) {
  return is_chosen(file) ? refuse() : real_write(file, data, size);
}

ssize_t pwrite64(int file, const void *data, size_t size, off_t at) {
  return is_chosen(file) ? refuse() : real_pwrite(file, data, size, at);
}

ssize_t pwrite(int file, const void *data, size_t size, off_t at) {
  return is_chosen(file) ? refuse() : real_pwrite(file, data, size, at);
}

ssize_t writev(int file, const struct iovec *parts, int count) {
  return is_chosen(file) ? refuse() : real_writev(file, parts, count);
}
