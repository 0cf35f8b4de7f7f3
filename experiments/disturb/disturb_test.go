package disturb

import (
	"errors"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"dyno/host/child"
)

// TestMain lets the test binary be the process that Start makes, and one that
// starts it and dies.
func TestMain(m *testing.M) {
	if code, ran := child.Run(os.Args[1:], Role()); ran {
		os.Exit(code)
	}
	goleak.VerifyTestMain(m)
}

func sometimes(cpus ...int) Config {
	return Config{CPUs: cpus, Shortest: time.Millisecond, Longest: 2 * time.Millisecond, PerSecond: 100, Seed: 1}
}

// It takes what it says that it takes, each stall within its bounds.
func TestItTakesTheCPU(t *testing.T) {
	for name, realTime := range map[string]bool{"real time": true, "ordinary": false} {
		t.Run(name, func(t *testing.T) {
			c := sometimes(allowed(t)[0])
			c.RealTime = realTime
			p, err := Start(c)
			if err != nil && strings.Contains(err.Error(), "CAP_SYS_NICE") {
				t.Skip(err)
			}
			if err != nil {
				t.Fatal(err)
			}
			look := time.NewTicker(time.Millisecond)
			defer look.Stop()
			began := usedBy(t, p.cmd.Process.Pid)                          // to begin with took CPU time, too
			for usedBy(t, p.cmd.Process.Pid)-began < 20*time.Millisecond { // whatever else the machine does
				<-look.C
			}
			// What interrupts a terminal's programs leaves it to its starter.
			if err := p.cmd.Process.Signal(os.Interrupt); err != nil {
				t.Error(err)
			}
			taken, err := p.Stop()
			if err != nil {
				t.Fatal(err)
			}
			if least := time.Duration(taken.Stalls) * c.Shortest; taken.Stalls == 0 || taken.Time < least {
				t.Errorf("%+v: want at least %v", taken, least)
			}
		})
	}
}

// A busy thread uses no more of its CPU than its share of the time, and a piece.
func TestItKeepsBusy(t *testing.T) {
	c := Config{CPUs: allowed(t)[:1], Busy: 0.3}
	began := time.Now()
	p, err := Start(c)
	if err != nil {
		t.Fatal(err)
	}
	look := time.NewTicker(time.Millisecond)
	defer look.Stop()
	used := usedBy(t, p.cmd.Process.Pid)
	for usedBy(t, p.cmd.Process.Pid)-used < 30*time.Millisecond {
		<-look.C
	}
	taken, err := p.Stop()
	if err != nil {
		t.Fatal(err)
	}
	// A thread that waits for its CPU may end late in one piece and early in the next. So the share is checked
	// over several pieces.
	passed := time.Since(began)
	if most := time.Duration(taken.Stalls+1)*3*time.Millisecond + passed/20; taken.Stalls == 0 || taken.Time > most || taken.Stalls > int(passed/piece)+1 {
		t.Errorf("%+v in %v: want at most %v", taken, passed, most)
	}
}

// Without the right to real-time priority nothing is disturbed, and the right is named.
func TestStartRefusesWithoutTheRight(t *testing.T) {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_RTPRIO, &limit); err != nil || limit.Cur > 0 {
		t.Skip("this user has the right by a limit: ", err)
	}
	refused := make(chan error, 1)
	go func() {
		// The thread, with what it may not do any more, ends with the goroutine.
		runtime.LockOSThread()
		const capSysNice = 23
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, capSysNice, 0, 0, 0); err != nil && !errors.Is(err, unix.EPERM) {
			refused <- err // who may not drop it does not have it
			return
		}
		c := sometimes(allowed(t)[0])
		c.RealTime = true
		p, err := Start(c)
		if err == nil {
			_, err = p.Stop()
			err = errors.Join(errors.New("it was started"), err)
		}
		refused <- err
	}()
	if err := <-refused; err == nil || !strings.Contains(err.Error(), "real-time priority (SCHED_FIFO), which takes CAP_SYS_NICE") {
		t.Error(err)
	}
}

// It ends with the one who started it, of whom no more is left than a closed pipe.
func TestItEndsWithItsStarter(t *testing.T) {
	in, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	cmd := Role().Command(nil, sometimes(allowed(t)[0]).arguments()...)
	cmd.Stdin = in
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if err := out.Close(); err != nil {
		t.Error(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}

func TestStartNamesACPUThatIsNotThere(t *testing.T) {
	_, err := Start(sometimes(append(allowed(t), 1000)...))
	if err == nil || !strings.HasPrefix(err.Error(), "disturb: CPU 1000: ") {
		t.Errorf("%v: want CPU 1000 named", err)
	}
}

// Every fault is named, and what a configuration is survives its way to the process.
func TestValidate(t *testing.T) {
	if got, err := parse(sometimes(0, 3).arguments()); err != nil || got.Share() != 0.15 || len(got.CPUs) != 2 || got.CPUs[1] != 3 || got.Seed != 1 {
		t.Errorf("%+v, %v", got, err)
	}
	busy := Config{CPUs: []int{1}, Busy: 0.3, Seed: 2}
	if got, err := parse(busy.arguments()); err != nil || got.Share() != 0.3 || got.Busy != 0.3 || got.Seed != 2 {
		t.Errorf("%+v, %v", got, err)
	}
	for _, tt := range []struct {
		change func(*Config)
		want   string
	}{
		{func(c *Config) { *c = Config{CPUs: []int{0}, Busy: 0.6} }, "busy for 0.6 of the time: want more than 0 and at most 0.5"},
		{func(c *Config) { *c = Config{CPUs: []int{0}, Busy: -0.1} }, "busy for -0.1 of the time"},
		{func(c *Config) { c.Busy = 0.3 }, "is not stalled besides"},
		{func(c *Config) { c.CPUs = nil }, "CPUs: want one at least"},
		{func(c *Config) { c.Shortest = 0 }, "stalls of 0s to 2ms"},
		{func(c *Config) { c.Longest = c.Shortest / 2 }, "the shortest first"},
		{func(c *Config) { c.Longest = time.Second }, "at most 100ms"},
		{func(c *Config) { c.PerSecond = 0 }, "0 stalls per second"},
		{func(c *Config) { c.PerSecond = 400 }, "take 60 % of a CPU: want at most 50 %"},
	} {
		c := sometimes(0)
		tt.change(&c)
		err := c.Validate()
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%+v: %v, want %q", c, err, tt.want)
		}
		if _, err := parse(c.arguments()); err == nil {
			t.Errorf("%+v: the process takes it", c)
		}
	}
	if _, err := parse([]string{"1ms"}); err == nil {
		t.Error("too few arguments are taken")
	}
}

// allowed returns the CPUs that this process may use.
func allowed(t *testing.T) []int {
	t.Helper()
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		t.Fatal(err)
	}
	var cpus []int
	for cpu := range 1000 {
		if set.IsSet(cpu) {
			cpus = append(cpus, cpu)
		}
	}
	return cpus
}

// usedBy returns the CPU time of a process.
func usedBy(t *testing.T, pid int) time.Duration {
	t.Helper()
	var ts unix.Timespec
	// The clock of a process, as clock_getcpuclockid(3) makes it.
	if err := unix.ClockGettime(int32(^pid)<<3|2, &ts); err != nil {
		t.Fatal(err)
	}
	return time.Duration(ts.Nano())
}
