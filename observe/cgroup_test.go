package observe

import (
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"golang.org/x/sys/unix"
)

// folder makes a folder with files.
func folder(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// Texts as Linux 6 prints them.
func TestCgroupOfBothVersions(t *testing.T) {
	nan := math.NaN()
	acct := folder(t, map[string]string{"cpuacct.usage": "1500000000\n"})
	cpu := folder(t, map[string]string{"cpu.stat": "nr_periods 20\nnr_throttled 7\nthrottled_time 350000000\nnr_bursts 0\nburst_time 0\n"})
	memory := folder(t, map[string]string{
		"memory.usage_in_bytes": "4096\n", "memory.max_usage_in_bytes": "8192\n",
		"memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n",
	})
	unified := map[string]string{
		"cpu.stat":        "usage_usec 2500000\nuser_usec 1\nsystem_usec 1\nnr_periods 10\nnr_throttled 3\nthrottled_usec 40000\n",
		"memory.current":  "1024\n",
		"memory.peak":     "2048\n",
		"memory.events":   "low 0\nhigh 0\nmax 5\noom 1\noom_kill 1\noom_group_kill 0\n",
		"cpu.pressure":    "some avg10=0.00 avg60=0.00 avg300=0.00 total=1000000\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=9\n",
		"memory.pressure": "some avg10=0.00 avg60=0.00 avg300=0.00 total=9\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=2000000\n",
		"io.pressure":     "some avg10=0.00 avg60=0.00 avg300=0.00 total=9\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=3000000\n",
	}
	old := folder(t, map[string]string{"cpu.stat": "usage_usec 1000000\nuser_usec 1\nsystem_usec 1\n", "memory.current": "1\n"})
	for name, c := range map[string]struct {
		at   CgroupFolders
		want []float64
	}{
		"version 1":             {CgroupFolders{CPU: cpu, CPUAcct: acct, Memory: memory}, []float64{1.5, 20, 7, 0.35, 4096, 8192, 2, nan, nan, nan}},
		"version 2":             {CgroupFolders{Unified: folder(t, unified)}, []float64{2.5, 10, 3, 0.04, 1024, 2048, 1, 1, 2, 3}},
		"both":                  {CgroupFolders{CPU: cpu, Unified: folder(t, unified)}, []float64{2.5, 20, 7, 0.35, 1024, 2048, 1, 1, 2, 3}},
		"without limits, older": {CgroupFolders{Unified: old}, []float64{1, nan, nan, nan, 1, nan, nan, nan, nan, nan}},
		"memory only":           {CgroupFolders{Memory: memory}, []float64{nan, nan, nan, nan, 4096, 8192, 2, nan, nan, nan}},
	} {
		o, err := NewCgroup("target_cgroup", c.at)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		row := make([]float64, len(o.Columns()))
		if err := errors.Join(o.Observe(row), o.Close()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if diff := cmp.Diff(c.want, row, cmpopts.EquateNaNs(), cmpopts.EquateApprox(0, 1e-9)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestCgroupUnavailable(t *testing.T) {
	for _, c := range []struct {
		at   CgroupFolders
		says string
	}{
		{CgroupFolders{}, "the target has no cgroup of its own"},
		{CgroupFolders{Unified: "/nonexistent"}, "no such file"},
		{CgroupFolders{CPUAcct: folder(t, map[string]string{"cpuacct.usage": "many\n"})}, errFormat.Error()},
	} {
		_, err := NewCgroup("target_cgroup", c.at)
		var u *Unavailable
		if !errors.As(err, &u) || !strings.Contains(err.Error(), c.says) || u.Remedy.Kind == "" {
			t.Errorf("%+v: %v; want *Unavailable that says %q, and a remedy", c.at, err, c.says)
		}
	}
}

// A file that becomes unreadable says so, and leaves the other cells alone.
func TestCgroupFault(t *testing.T) {
	dir := folder(t, map[string]string{"memory.current": "1\n", "memory.peak": "2\n"})
	o, err := NewCgroup("target_cgroup", CgroupFolders{Unified: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	if err := os.WriteFile(filepath.Join(dir, "memory.current"), []byte("?"), 0o600); err != nil {
		t.Fatal(err)
	}
	row := make([]float64, cgroupColumns)
	if err := o.Observe(row); !errors.Is(err, errFormat) || !strings.Contains(err.Error(), "memory.current") {
		t.Errorf("%v; want the file named", err)
	}
	if !math.IsNaN(row[cgroupMemory]) || row[cgroupMemoryPeak] != 2 {
		t.Errorf("%v", row)
	}
}

// A real group of version 1: its CPU time is what its process says it has used.
func TestCgroupOfAProcess(t *testing.T) {
	points, _ := mounts(readLine("/proc/self/mountinfo"), "cgroup")
	name := fmt.Sprintf("dyno-test-%d", os.Getpid())
	var at CgroupFolders
	for _, p := range points {
		for _, x := range []struct {
			file string
			at   *string
		}{{"cpuacct.usage", &at.CPUAcct}, {"memory.usage_in_bytes", &at.Memory}} {
			if _, err := os.Stat(filepath.Join(p, x.file)); err != nil || *x.at != "" {
				continue
			}
			*x.at = filepath.Join(p, name)
			if err := os.Mkdir(*x.at, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
				t.Skip("needs root: ", err)
			}
			t.Cleanup(func() {
				until(t, "the group can be removed", func() bool {
					err := unix.Rmdir(*x.at)
					return err == nil || errors.Is(err, unix.ENOENT)
				})
			})
		}
	}
	if at.CPUAcct == "" || at.Memory == "" {
		t.Skip("needs cgroup v1 with cpuacct and memory")
	}
	o, err := NewCgroup("target_cgroup", at)
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()

	// A shell that is in the group before it becomes the process.
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("sh", "-c", `read go; exec "$0" burn`, self)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for _, f := range []string{at.CPUAcct, at.Memory} {
		if err := os.WriteFile(filepath.Join(f, "cgroup.procs"), []byte(strconv.Itoa(cmd.Process.Pid)), 0); err != nil {
			t.Error(err)
		}
	}
	if _, err := io.WriteString(in, "go\n"); err != nil {
		t.Error(err)
	}
	var user, system int64 // ns
	if _, err := fmt.Fscan(out, &user, &system); err != nil {
		t.Error(err)
	}
	if err := errors.Join(in.Close(), cmd.Wait()); err != nil {
		t.Error(err)
	}
	row := make([]float64, len(o.Columns()))
	if err := o.Observe(row); err != nil {
		t.Error(err)
	}
	used := time.Duration(user + system).Seconds()
	// The shell's own, the time to exit, and what the tick has not counted yet.
	if got := row[cgroupCPU]; got < used-0.02 || got > used+2 {
		t.Errorf("the group has used %.3f s, its process at least %.3f", got, used)
	}
	if !(row[cgroupMemoryPeak] > 1<<20) || row[cgroupOOMKills] != 0 || !math.IsNaN(row[cgroupCPUPressure]) {
		t.Errorf("%v", row)
	}
	// Once it is removed, nothing is known of it.
	for _, f := range []string{at.CPUAcct, at.Memory} {
		until(t, "the group can be removed", func() bool { return unix.Rmdir(f) == nil })
	}
	if err := o.Observe(row); err != nil {
		t.Error(err)
	}
	for i, v := range row {
		if !math.IsNaN(v) {
			t.Errorf("column %d of a group that is gone: %v", i, v)
		}
	}
}

func FuzzKeyed(f *testing.F) {
	f.Add([]byte("nr_periods 20\nnr_throttled 7\n"), "nr_throttled")
	f.Add([]byte("oom_kill_disable 0\noom_kill"), "oom_kill")
	f.Fuzz(func(t *testing.T, text []byte, label string) {
		if n, ok := keyed(text, label); ok && !strings.Contains(string(text), label+" ") {
			t.Errorf("%d for a label that is not there", n)
		}
	})
}
