package observe

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"dyno/host/cgroup"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
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
		at   cgroup.Folders
		want []float64
	}{
		"version 1":             {cgroup.Folders{cgroup.CPU: cpu, cgroup.CPUAcct: acct, cgroup.Memory: memory}, []float64{1.5, 20, 7, 0.35, 4096, 8192, 2, nan, nan, nan}},
		"version 2":             {cgroup.Folders{cgroup.Unified: folder(t, unified)}, []float64{2.5, 10, 3, 0.04, 1024, 2048, 1, 1, 2, 3}},
		"both":                  {cgroup.Folders{cgroup.CPU: cpu, cgroup.Unified: folder(t, unified)}, []float64{2.5, 20, 7, 0.35, 1024, 2048, 1, 1, 2, 3}},
		"without limits, older": {cgroup.Folders{cgroup.Unified: old}, []float64{1, nan, nan, nan, 1, nan, nan, nan, nan, nan}},
		"memory only":           {cgroup.Folders{cgroup.Memory: memory}, []float64{nan, nan, nan, nan, 4096, 8192, 2, nan, nan, nan}},
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
		at   cgroup.Folders
		says string
	}{
		{cgroup.Folders{}, "the target has no cgroup of its own"},
		{cgroup.Folders{cgroup.Unified: "/nonexistent"}, "no such file"},
		{cgroup.Folders{cgroup.CPUAcct: folder(t, map[string]string{"cpuacct.usage": "many\n"})}, errFormat.Error()},
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
	o, err := NewCgroup("target_cgroup", cgroup.Folders{cgroup.Unified: dir})
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
