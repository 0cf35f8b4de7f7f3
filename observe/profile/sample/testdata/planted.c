/* Works for 0.7 s of CPU time when asked to, a share of it in planted_hot by its
   own clock; prints the share and the CPU time. */
#include <stdio.h>
#include <time.h>

static volatile unsigned long sink;

static double cpu_time(void) {
	struct timespec ts;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return ts.tv_sec + ts.tv_nsec / 1e9;
}

/* What follows each call keeps it from being a tail call. */
__attribute__((noinline)) static unsigned long planted_leaf(unsigned long n) {
	unsigned long x = 0;
	for (unsigned long i = 1; i < n; i++)
		x = x * 3 + n / i;
	sink = x;
	return x + sink;
}

__attribute__((noinline)) unsigned long planted_hot(unsigned long n) {
	unsigned long x = planted_leaf(n);
	sink += x;
	return x + sink;
}

__attribute__((noinline)) unsigned long planted_cold(unsigned long n) {
	unsigned long x = 0;
	for (unsigned long i = 1; i < n; i++)
		x = x * 5 + n / i;
	sink = x;
	return x + sink;
}

__attribute__((noinline)) static double work(void) {
	double begin = cpu_time(), last = begin, hot = 0;
	while (last - begin < 0.7) {
		planted_hot(20000);
		double now = cpu_time();
		hot += now - last;
		planted_cold(20000);
		planted_cold(20000);
		last = cpu_time();
	}
	printf("%f %f\n", hot / (last - begin), last - begin);
	return hot;
}

int main(void) {
	if (getchar() == EOF)
		return 1;
	sink += work() > 0;
	fflush(stdout);
	while (getchar() != EOF)
		;
	return 0;
}
