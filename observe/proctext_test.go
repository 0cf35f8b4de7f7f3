package observe

import (
	"math"
	"testing"
)

// Texts as Linux 6 prints them.
const (
	statText = "4711 (a) R (b)) S 1 4711 4710 0 -1 4194560 100 200 3 4 55 66 -7 88 20 0 9 0 81857 3133440 361 18446744073709551615 1 1 0\n"

	statusText = "Name:\tvoluntary_ctxt_switches:\t9\nUmask:\t0022\nThreads:\t3\n" +
		"Mems_allowed_list:\t0\nvoluntary_ctxt_switches:\t150\nnonvoluntary_ctxt_switches:\t545\n"

	cpuText = "cpu  10 20 30 40 50 60 70 80 90 100\ncpu0 1 2 3 4 5 6 7 8 9 10\nintr 5 6\n"

	pressureText = "some avg10=0.00 avg60=1.10 avg300=2.12 total=78191030\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=5\n"
)

func TestParsers(t *testing.T) {
	s, err := parseStat([]byte(statText))
	want := procStat{parent: 1, user: 55, system: 66, childUser: 0, childSystem: 88, minor: 100, childMinor: 200, major: 3, childMajor: 4, threads: 9}
	if err != nil || s != want {
		t.Errorf("stat: %+v, %v; want %+v", s, err, want)
	}
	if n, err := parseStatm([]byte("1234 361 7 8 0 9 0\n")); err != nil || n != 361 {
		t.Errorf("statm: %v, %v", n, err)
	}
	if run, wait, slices, err := parseSchedstat([]byte("835148 116357 2\n")); err != nil || run != 835148 || wait != 116357 || slices != 2 {
		t.Errorf("schedstat: %v, %v, %v", run, wait, err)
	}
	if v, i, err := parseSwitches([]byte(statusText)); err != nil || v != 150 || i != 545 {
		t.Errorf("status: %v, %v, %v", v, i, err)
	}
	if n, err := parseLastPID([]byte("0.01 0.16 0.24 3/104 13177\n")); err != nil || n != 13177 {
		t.Errorf("loadavg: %v, %v", n, err)
	}
	if c, err := parseCPUTimes([]byte(cpuText)); err != nil || c != (cpuTimes{10, 20, 30, 40, 50, 60, 70, 80}) {
		t.Errorf("stat: %+v, %v", c, err)
	}
	for line, want := range map[string]uint64{"some": 78191030, "full": 5} {
		if n, err := parsePressure([]byte(pressureText), line); err != nil || n != want {
			t.Errorf("pressure, %s: %v, %v", line, n, err)
		}
	}
	if n, err := parsePressure([]byte("some total=1\n"), "full"); err == nil {
		t.Errorf("no full pressure: %v", n)
	}
}

func FuzzParsers(f *testing.F) {
	for _, s := range []string{statText, statusText, cpuText, pressureText, "", ")", "1 (x) R", "some total=", "cpu ", "goroutine profile: total 1\n"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if s, err := parseStat(b); err == nil && s.parent < 0 {
			t.Error("a negative parent")
		}
		_, _ = parseStatm(b)
		_, _, _, _ = parseSchedstat(b)
		_, _, _ = parseSwitches(b)
		_, _ = parseLastPID(b)
		if c, err := parseCPUTimes(b); err == nil {
			_ = share(c.steal, 0, c.total(), 0)
		}
		_, _ = parsePressure(b, "some")
		_, _ = parsePressure(b, "full")
		_ = cpuModel(b)
		_ = isGuest(b)
		_, _ = mounts(string(b), "cgroup")
		eachDirent(b, func(n int) {
			if n < 0 || n > math.MaxInt32 {
				t.Errorf("entry %d", n)
			}
		})
	})
}
