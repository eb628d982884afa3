// SPDX-License-Identifier: Apache-2.0
// clock_gettime(2) for the hosts of driver uml, preloaded into all programs (ld.so(8), /etc/ld.so.preload).
//
// Under User Mode Linux reading the clock is a system call of about 30 us, because its vDSO has no clock. Open vSwitch
// reads it so often that ovsdb-server spends most of a large transaction on that (lib/cooperative-multitasking.c). So
// each thread repeats its last reading of a clock for SPAN cycles of the processor, which are at most 0.1 ms.
//
// It is built without a C library: no symbol in it depends on the version of one.
#include <stdint.h>

#define SPAN 200000
#define CLOCKS 2 // CLOCK_REALTIME and CLOCK_MONOTONIC
#define CLOCK_GETTIME 228L

struct timespec {
	long seconds;
	long nanoseconds;
};

struct reading {
	uint64_t cycles;
	struct timespec time;
};

static _Thread_local struct reading readings[CLOCKS];

int *__errno_location(void);

static uint64_t cycles(void)
{
	uint32_t low, high;

	__asm__ volatile("rdtsc" : "=a"(low), "=d"(high));
	return (uint64_t)high << 32 | low;
}

static int ask_kernel(int clock, struct timespec *time)
{
	long result;

	__asm__ volatile("syscall" : "=a"(result) : "0"(CLOCK_GETTIME), "D"((long)clock), "S"(time) : "rcx", "r11", "memory");
	if (result == 0)
		return 0;
	*__errno_location() = (int)-result;
	return -1;
}

int clock_gettime(int clock, struct timespec *time)
{
	struct reading *last;
	uint64_t now;

	if (clock < 0 || clock >= CLOCKS)
		return ask_kernel(clock, time);
	last = &readings[clock];
	now = cycles();
	if (last->cycles == 0 || now - last->cycles > SPAN) {
		if (ask_kernel(clock, &last->time) != 0)
			return -1;
		last->cycles = now;
	}
	*time = last->time;
	return 0;
}
