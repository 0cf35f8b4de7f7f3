package target

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"dyno/host/cgroup"
	"dyno/host/proc"
	"dyno/internal/roles"
)

// The ancestor of all processes in a group, and below it, stands for all.
func TestFirstIn(t *testing.T) {
	top := t.TempDir()
	below := filepath.Join(top, "below")
	own := strconv.Itoa(os.Getpid())
	if err := errors.Join(os.Mkdir(below, 0o700), os.WriteFile(filepath.Join(top, "cgroup.procs"), nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	if l, err := FirstIn(cgroup.Folders{cgroup.Unified: top}); err == nil {
		t.Errorf("%v", l)
	}
	if err := os.WriteFile(filepath.Join(below, "cgroup.procs"), []byte("0\n"+own+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if l, err := FirstIn(cgroup.Folders{cgroup.Memory: top}); err != nil || l.PID != os.Getpid() {
		t.Errorf("%v, %v", l, err)
	}
}

// limited starts a target with limits, or skips the test where that is not possible.
func limited(t *testing.T, spec Spec) *Process {
	t.Helper()
	p, err := Start(t.Context(), spec)
	if os.Getuid() != 0 && errors.Is(err, ErrPlacement) {
		t.Skip("needs root: ", err)
	}
	if err != nil && strings.Contains(err.Error(), "controller") {
		t.Skip("needs the controllers cpu and memory: ", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = p.Stop(context.Background())
		<-p.Done()
	})
	return p
}

func missing(t *testing.T, folders []string) {
	t.Helper()
	if len(folders) == 0 {
		t.Error("there was no group")
	}
	for _, f := range folders {
		if _, err := os.Stat(f); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s is left: %v", f, err)
		}
	}
}

func number(t *testing.T, path string) int {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return atoi(t, strings.TrimSpace(string(b)))
}

func TestCPUMax(t *testing.T) {
	p := limited(t, Spec{
		Args:   sh("while :; do :; done & echo up; while :; do :; done"),
		Cgroup: &cgroup.Limits{CPUMax: 0.2, CPUWeight: 50},
		Ready:  Probe{Output: "^up$"},
	})
	at := p.Cgroup()
	if at[cgroup.CPU] == "" || at[cgroup.CPUAcct] == "" {
		t.Skip("the figures below are version 1's")
	}
	if got := number(t, at[cgroup.CPU]+"/cpu.cfs_quota_us"); got != 20_000 {
		t.Errorf("quota %d µs, want 20000", got)
	}
	if got := number(t, at[cgroup.CPU]+"/cpu.shares"); got != 512 {
		t.Errorf("%d shares, want 512", got)
	}
	// Everything of the target is in the group, and nothing of the supervisor.
	pids, err := p.PIDs()
	if err != nil {
		t.Fatal(err)
	}
	inside := cgroup.PIDs(at[cgroup.CPU])
	slices.Sort(pids)
	if got := fmt.Sprint(inside); got != fmt.Sprint(pids) || len(pids) != 2 {
		t.Errorf("inside is %s, want the two of the target, %v", got, pids)
	}
	tasks := strings.Fields(string(mustRead(t, at[cgroup.CPU]+"/tasks")))
	threads, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", p.Supervisor()))
	if err != nil {
		t.Fatal(err)
	}
	for _, th := range threads {
		if slices.Contains(tasks, th.Name()) {
			t.Errorf("the supervisor's thread %s is inside", th.Name())
		}
	}
	// This is measured by the group's own account, not by the clock of a shared machine. The test does
	// not wait for throttling: on a busy machine it may not get what it is allowed.
	stat := func(word string) int {
		b, err := os.ReadFile(at[cgroup.CPU] + "/cpu.stat")
		if err != nil {
			t.Fatal(err)
		}
		n, _ := cgroup.Value(b, word)
		return int(n)
	}
	periods, used := stat("nr_periods"), number(t, at[cgroup.CPUAcct]+"/cpuacct.usage")
	roles.Until(t, "ten periods", func() bool { return stat("nr_periods") >= periods+10 })
	used = number(t, at[cgroup.CPUAcct]+"/cpuacct.usage") - used
	periods = stat("nr_periods") - periods
	if most := (periods + 1) * int(30*time.Millisecond); used > most {
		t.Errorf("used %v in %d periods, of which each allows 20ms", time.Duration(used), periods)
	}
	folders := at.All()
	if err := p.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	missing(t, folders)
}

// hog needs memory, up to a bound that is harmless for the machine.
func hog() int {
	var all [][]byte
	for range 256 {
		all = append(all, bytes.Repeat([]byte{1}, 1<<20))
	}
	fmt.Println("had", len(all), "MiB")
	return 0
}

func TestMemoryMaxKills(t *testing.T) {
	p := limited(t, Spec{Args: []string{"/proc/self/exe", "hog"}, Cgroup: &cgroup.Limits{MemoryMax: 64 << 20}})
	awaitDone(t, p)
	err := p.Err()
	if !errors.Is(err, ErrExited) {
		t.Fatalf("%v, want that it has exited", err)
	}
	for _, says := range []string{"signal: killed; out of memory", "memory_max is 67108864 bytes"} {
		if !strings.Contains(err.Error(), says) {
			t.Errorf("%q does not say %q", err, says)
		}
	}
}

func TestGroupIsRemovedWhenNothingStarts(t *testing.T) {
	script := filepath.Join(t.TempDir(), "script")
	if err := os.WriteFile(script, []byte("#!/nonexistent/interpreter\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	own, err := cgroup.ReadMembership("self")
	if err != nil {
		t.Fatal(err)
	}
	groups := func() []string {
		found, err := filepath.Glob(own.Folders[cgroup.CPU] + "/dyno-*")
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	before := groups()
	_, err = Start(t.Context(), Spec{Args: []string{script}, Cgroup: &cgroup.Limits{CPUMax: 0.5}})
	if errors.Is(err, ErrPlacement) {
		t.Skip("needs root and a controller: ", err)
	}
	if !errors.Is(err, ErrNotFound) {
		t.Fatal(err)
	}
	// Those of other tests have supervisors that live, or that are gone for a moment only.
	roles.Until(t, "no group left", func() bool {
		return !slices.ContainsFunc(groups(), func(folder string) bool {
			if slices.Contains(before, folder) {
				return false
			}
			pid, err := strconv.Atoi(strings.Split(filepath.Base(folder), "-")[1])
			if err != nil {
				return false // a calibration's
			}
			_, err = proc.Read(pid)
			return err != nil
		})
	})
}

func TestGroupIsRemovedWhenDynoIsKilled(t *testing.T) {
	limited(t, Spec{Args: sh("exit 0"), Cgroup: &cgroup.Limits{CPUMax: 0.5, MemoryMax: 256 << 20}}) // or skips
	cmd := roles.Command(append([]string{"limited-host"}, sh("setsid sleep 1000 & echo up; wait")...)...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var supervisor, pid int
	_, err = fmt.Fscan(out, &supervisor, &pid)
	if err != nil {
		t.Fatal(err)
	}
	target, err := cgroup.ReadMembership(strconv.Itoa(pid))
	if err != nil {
		t.Fatal(err)
	}
	own, err := cgroup.ReadMembership("self")
	if err != nil {
		t.Fatal(err)
	}
	folders := target.ApartFrom(own).All()
	if len(folders) == 0 {
		t.Fatal("the target has no group")
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	roles.Until(t, "nothing is left", func() bool {
		return !slices.ContainsFunc(folders, exists)
	})
}

// If the supervisor is killed, no process of a target in a group survives. This includes processes that
// left the session, or are in a group that the target made within its own.
func TestGroupsWithinAGroupOfAKilledSupervisor(t *testing.T) {
	p := limited(t, Spec{Args: sh("setsid sleep 1000 & echo up; wait"), Cgroup: &cgroup.Limits{CPUMax: 0.5}, Ready: Probe{Output: "^up$"}})
	var pids []int
	roles.Until(t, "both processes are there", func() bool {
		var err error
		if pids, err = p.PIDs(); err != nil {
			t.Fatal(err)
		}
		return len(pids) == 2
	})
	tree, folders := identities(t, pids), p.cgroup.All()
	for _, f := range folders {
		within := filepath.Join(f, "a", "b")
		if err := os.MkdirAll(within, 0o755); err != nil {
			t.Fatal(err)
		}
		for _, pid := range pids {
			if err := os.WriteFile(filepath.Join(within, "cgroup.procs"), []byte(strconv.Itoa(pid)), 0); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := syscall.Kill(p.Supervisor(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	awaitDone(t, p)
	if left := alive(tree); left != nil {
		t.Errorf("processes %v are left", left)
		for _, pid := range left {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
	missing(t, folders)
}

func TestGroupOfATargetWithoutLimits(t *testing.T) {
	p := started(t, Spec{Args: sh("echo up; exec sleep 1000"), Ready: Probe{Output: "^up$"}})
	if got := p.Cgroup(); got != (cgroup.Folders{}) {
		t.Fatalf("%+v; want none: it is where this test is", got)
	}
	// Another program puts the process into a group.
	own, err := cgroup.ReadMembership("self")
	if err != nil {
		t.Fatal(err)
	}
	home, want := own.Folders[cgroup.CPU], cgroup.Folders{}
	folder := filepath.Join(home, fmt.Sprintf("dyno-test-%d", os.Getpid()))
	if want[cgroup.CPU] = folder; home == "" {
		home = own.Folders[cgroup.Unified]
		folder = filepath.Join(home, filepath.Base(folder))
		want = cgroup.Folders{cgroup.Unified: folder}
	}
	if home == "" {
		t.Skip("no cgroups")
	}
	if err := os.Mkdir(folder, 0o755); err != nil {
		t.Skip("needs root: ", err)
	}
	t.Cleanup(func() {
		_ = p.Stop(context.Background())
		if err := cgroup.Remove([]string{folder}); err != nil {
			t.Error(err)
		}
	})
	if err := os.WriteFile(folder+"/cgroup.procs", []byte(strconv.Itoa(p.PID())), 0); err != nil {
		t.Fatal(err)
	}
	if got := p.Cgroup(); got[cgroup.CPU] != want[cgroup.CPU] || got[cgroup.Unified] != want[cgroup.Unified] {
		t.Errorf("%+v, want %+v", got, want)
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func mustRead(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestNice(t *testing.T) {
	nice := 7
	p := started(t, Spec{Args: sh("(echo nice $(nice)); exec sleep 1000"), Nice: &nice, Ready: Probe{Output: "^nice 7$"}})
	if b, err := os.ReadFile(fmt.Sprintf("/proc/%d/autogroup", p.PID())); err == nil && !bytes.HasSuffix(b, []byte(" nice 7\n")) && len(b) > 0 {
		t.Errorf("its session's priority: %q, want nice 7", b)
	}
	// The supervisor must not starve next to the processes that it watches.
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", p.Supervisor()))
	if err != nil {
		t.Fatal(err)
	}
	own, lowered := 0, 0
	for _, th := range threads {
		tid := atoi(t, filepath.Base(th))
		n, err := unix.Getpriority(unix.PRIO_PROCESS, tid)
		if err != nil {
			t.Fatal(err)
		}
		if 20-n == nice { // the system call says 20 − nice
			lowered++
		} else {
			own++
		}
	}
	if lowered != 1 || own == 0 {
		t.Errorf("%d of the supervisor's threads have the target's priority, %d their own; want one, and others", lowered, own)
	}
}

func TestNUMA(t *testing.T) {
	node := memoryNodes()[0]
	p := started(t, Spec{Args: sh("echo up; exec sleep 1000"), NUMA: &node, Ready: Probe{Output: "^up$"}})
	if maps := fmt.Sprintf("/proc/%d/numa_maps", p.PID()); exists(maps) {
		roles.Until(t, "its memory is bound to the node", func() bool { // while it executes, it has none
			return bytes.Contains(mustRead(t, maps), fmt.Appendf(nil, " bind:%d ", node))
		})
	}
	none := maxNode
	_, err := Start(t.Context(), Spec{Args: sh("exit 0"), NUMA: &none})
	if !errors.Is(err, ErrPlacement) || !strings.Contains(err.Error(), "there is no node 1023") {
		t.Errorf("%v; want that there is no such node", err)
	}
}

// unprivileged prints the results of placements that need rights.
func unprivileged() int {
	high := -5
	for _, spec := range []Spec{
		{Args: sh("exit 0"), Cgroup: &cgroup.Limits{CPUMax: 0.5}},
		{Args: sh("exit 0"), Cgroup: &cgroup.Limits{MemoryMax: 64 << 20}},
		{Args: sh("exit 0"), Nice: &high},
	} {
		_, err := Start(context.Background(), spec)
		fmt.Println(errors.Is(err, ErrPlacement), err)
	}
	low := 19 // a test may run at a low priority itself
	p, err := Start(context.Background(), Spec{Args: sh("nice"), Nice: &low, Output: os.Stdout})
	if err != nil {
		fmt.Println(err)
		return 1
	}
	if err := p.Wait(context.Background()); err != nil {
		fmt.Println(err)
		return 1
	}
	return 0
}

func TestUnprivilegedPlacement(t *testing.T) {
	cmd := roles.Command("unprivileged")
	cmd.Dir = "/"
	if os.Getuid() == 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	if len(lines) != 4 {
		t.Fatalf("%q; want three errors and a priority", lines)
	}
	for i, says := range [][]string{{"cgroup", "run as root"}, {"cgroup", "run as root"}, {"nice -5", "run as root, or raise the limit"}} {
		if !strings.HasPrefix(lines[i], "true ") {
			t.Errorf("%s: not a placement that cannot be had", lines[i])
		}
		for _, s := range says {
			if !strings.Contains(lines[i], s) {
				t.Errorf("%q does not say %q", lines[i], s)
			}
		}
	}
	if lines[3] != "19" {
		t.Errorf("a lower priority, which everybody may have: %s", lines[3])
	}
}
