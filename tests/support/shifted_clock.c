/* A machine whose wall clock is wrong: every way to ask for the time of day is ahead by SHIFTED_CLOCK_SECONDS. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static long ahead;

__attribute__((constructor)) static void read_shift(void) {
  const char *seconds = getenv("SHIFTED_CLOCK_SECONDS");
  ahead = seconds ? atol(seconds) : 0;
}

int clock_gettime(clockid_t clock, struct timespec *now) {
  int failed = syscall(SYS_clock_gettime, clock, now);
  int is_wall = clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE || clock == CLOCK_TAI;
  if (!failed && is_wall) now->tv_sec += ahead;
  return failed;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
  int failed = syscall(SYS_gettimeofday, now, zone);
  if (!failed) now->tv_sec += ahead;
  return failed;
}

time_t time(time_t *stored) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (stored) *stored = now.tv_sec;
  return now.tv_sec;
}

int timespec_get(struct timespec *now, int base) {
  if (base != TIME_UTC) return 0;
  return clock_gettime(CLOCK_REALTIME, now) ? 0 : base;
}
