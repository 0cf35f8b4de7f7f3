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

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"dyno/host/proc"
	"dyno/internal/roles"
)

// Texts as Linux prints them, shortened: separate hierarchies next to version 2; systemd's
// hybrid; version 2 alone; a container.
const (
	separateMounts = `22 27 0:21 / /proc rw,relatime - proc proc rw
32 31 0:29 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu
33 31 0:30 / /sys/fs/cgroup/cpuacct rw,relatime shared:5 - cgroup cgroup rw,cpuacct
35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
40 31 0:37 / /sys/fs/cgroup/systemd rw,relatime - cgroup cgroup rw,name=systemd
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
`
	joinedMounts = `32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct
35 31 0:32 / /mnt/with\040blank/memory rw - cgroup cgroup rw,memory
`
	unifiedMount   = "41 31 0:38 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
	containerMount = "41 31 0:38 /docker/1a /sys/fs/cgroup ro,nosuid - cgroup2 cgroup rw\n"
)

func TestMembership(t *testing.T) {
	for name, c := range map[string]struct {
		mounts, groups string
		want           map[string]string
	}{
		"separate": {
			separateMounts, "9:name=systemd:/\n4:memory:/a/b\n2:cpuacct:/\n1:cpu:/x\n0::/\n",
			map[string]string{"cpu": "/sys/fs/cgroup/cpu/x", "cpuacct": "/sys/fs/cgroup/cpuacct", "memory": "/sys/fs/cgroup/memory/a/b",
				"name=systemd": "/sys/fs/cgroup/systemd", "": "/sys/fs/cgroup/unified"},
		},
		"joined": {
			joinedMounts, "4:memory:/m:1\n1:cpu,cpuacct:/x\n",
			map[string]string{"cpu": "/sys/fs/cgroup/cpu,cpuacct/x", "cpuacct": "/sys/fs/cgroup/cpu,cpuacct/x", "memory": "/mnt/with blank/memory/m:1"},
		},
		"unified":             {unifiedMount, "0::/user.slice/a.scope\n", map[string]string{"": "/sys/fs/cgroup/user.slice/a.scope"}},
		"a part":              {containerMount, "0::/docker/1a/b\n", map[string]string{"": "/sys/fs/cgroup/b"}},
		"that part":           {containerMount, "0::/docker/1a\n", map[string]string{"": "/sys/fs/cgroup"}},
		"another":             {containerMount, "0::/docker/1ab\n", map[string]string{}},
		"above the namespace": {unifiedMount, "0::/../x\n", map[string]string{}},
		"not mounted":         {"", "0::/x\n4:memory:/\n", map[string]string{}},
		"no group":            {separateMounts, "", map[string]string{}},
		"nonsense":            {"- - -\n1 2 3 4 5 - cgroup\n", "::\n:\n\n0::relative\n", map[string]string{}},
	} {
		if diff := cmp.Diff(c.want, parseMembership(c.mounts, c.groups).folder); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", name, diff)
		}
	}
}

// A control group is found by its path, or by its own name if only one has it, wherever the hierarchies are mounted.
func TestFindCgroup(t *testing.T) {
	top := t.TempDir()
	for _, group := range []string{"v1/slice/web.service", "v1/slice/db.service", "v2/slice/web.service", "v2/a/twice", "v2/b/twice", "v1/only"} {
		folder := filepath.Join(top, group)
		if err := errors.Join(os.MkdirAll(folder, 0o700), os.WriteFile(filepath.Join(folder, "cgroup.procs"), nil, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	v1, v2 := filepath.Join(top, "v1"), filepath.Join(top, "v2")
	mounted := []hierarchy{
		{controllers: []string{"name=systemd"}, root: "/", point: filepath.Join(top, "elsewhere")},
		{controllers: []string{"rw", "cpu", "cpuacct"}, root: "/", point: v1},
		{controllers: []string{unified}, root: "/", point: v2},
	}
	web := CgroupFolders{CPU: v1 + "/slice/web.service", CPUAcct: v1 + "/slice/web.service", Unified: v2 + "/slice/web.service"}
	for name, want := range map[string]CgroupFolders{
		"/slice/web.service":     web,
		"slice/web.service":      web,
		"web.service":            web,
		"db.service":             {CPU: v1 + "/slice/db.service", CPUAcct: v1 + "/slice/db.service"},
		"/a/twice":               {Unified: v2 + "/a/twice"},
		"/x/../../../../b/twice": {Unified: v2 + "/b/twice"},
		"only":                   {CPU: v1 + "/only", CPUAcct: v1 + "/only"},
	} {
		if got, err := findCgroup(slices.Clone(mounted), name, func(own string) bool { return own == name }); err != nil || got != want {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	for name, want := range map[string]string{
		"/":     "the whole machine",
		"":      "the whole machine",
		"..":    "the whole machine",
		"none":  "no control group none is visible here",
		"slice": "no control group slice is visible here", // it has no processes
		"twice": "2 control groups are called twice, such as /a/twice and /b/twice",
	} {
		if got, err := findCgroup(slices.Clone(mounted), name, func(own string) bool { return own == name }); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

// A pod's group is found by the pod's UID, however the kubelet names groups, and no other is.
func TestFindPod(t *testing.T) {
	const uid = "0b9f6ae2-3b44-4d2c-9d0c-1f2e3a4b5c6d"
	for name, group := range map[string]string{
		"kubelet's":     "kubepods/burstable/pod" + uid,
		"guaranteed":    "kubepods/pod" + uid,
		"systemd's":     "kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod0b9f6ae2_3b44_4d2c_9d0c_1f2e3a4b5c6d.slice",
		"below another": "kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod0b9f6ae2_3b44_4d2c_9d0c_1f2e3a4b5c6d.slice",
	} {
		top := t.TempDir()
		container := filepath.Join(top, group, "cri-containerd-"+uid+".scope")
		other := filepath.Join(top, filepath.Dir(group), "pod"+strings.Replace(uid, "0b", "0c", 1))
		if err := errors.Join(os.MkdirAll(container, 0o700), os.MkdirAll(other, 0o700)); err != nil {
			t.Fatal(err)
		}
		for _, folder := range []string{container, other, filepath.Dir(container)} {
			if err := os.WriteFile(filepath.Join(folder, "cgroup.procs"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		mounted := []hierarchy{{controllers: []string{unified}, root: "/", point: top}}
		if got, err := findCgroup(mounted, "of pod "+uid, ofPod(uid)); err != nil || got.Unified != filepath.Join(top, group) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	for _, uid := range []string{"", "../" + uid, uid + uid} {
		if got, err := FindPod(uid); err == nil || !strings.Contains(err.Error(), "is no UID of a pod") {
			t.Errorf("%+v, %v", got, err)
		}
	}
	if got, err := FindPod(uid); err == nil || !strings.Contains(err.Error(), "no control group of pod "+uid+" is visible here") {
		t.Errorf("%+v, %v", got, err)
	}
}

// Of the processes in a group and below it, the one that has started the others stands for all.
func TestFirstIn(t *testing.T) {
	top := t.TempDir()
	below := filepath.Join(top, "below")
	own := strconv.Itoa(os.Getpid())
	if err := errors.Join(os.Mkdir(below, 0o700), os.WriteFile(filepath.Join(top, "cgroup.procs"), nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	if l, err := FirstIn(CgroupFolders{Unified: top}); err == nil {
		t.Errorf("%v", l)
	}
	if err := os.WriteFile(filepath.Join(below, "cgroup.procs"), []byte("0\n"+own+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if l, err := FirstIn(CgroupFolders{Memory: top}); err != nil || l.PID != os.Getpid() {
		t.Errorf("%v, %v", l, err)
	}
}

func TestCgroupSettings(t *testing.T) {
	c := Cgroup{CPUMax: 0.5, CPUWeight: 50, MemoryMax: 1 << 20}
	for _, x := range []struct {
		c          Cgroup
		controller string
		v2         bool
		want       []setting
	}{
		{c, "cpu", false, []setting{{"cpu.cfs_period_us", "100000"}, {"cpu.cfs_quota_us", "50000"}, {"cpu.shares", "512"}}},
		{c, "cpu", true, []setting{{"cpu.max", "50000 100000"}, {"cpu.weight", "50"}}},
		{c, "memory", false, []setting{{"memory.limit_in_bytes", "1048576"}}},
		{c, "memory", true, []setting{{"memory.max", "1048576"}}},
		{Cgroup{CPUMax: 2}, "cpu", false, []setting{{"cpu.cfs_period_us", "100000"}, {"cpu.cfs_quota_us", "200000"}}},
		{Cgroup{CPUWeight: 100}, "cpu", false, []setting{{"cpu.shares", "1024"}}},
		{Cgroup{CPUWeight: 10000}, "cpu", true, []setting{{"cpu.weight", "10000"}}},
	} {
		if diff := cmp.Diff(x.want, x.c.settings(x.controller, x.v2), cmp.AllowUnexported(setting{})); diff != "" {
			t.Errorf("%+v, %s: %s", x.c, x.controller, diff)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		w := rapid.IntRange(1, 10_000).Draw(t, "weight")
		// The kernel's bounds of cpu.shares.
		if s := shares(w); s < 2 || s > 262144 || w < 10_000 && shares(w+1) < s {
			t.Errorf("weight %d: %d shares", w, s)
		}
	})
}

func TestSettingIsReadBack(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	file("good", "")
	if err := (setting{"good", "50000 100000"}).set(dir); err != nil {
		t.Error(err)
	}
	// A file that takes everything and returns nothing.
	if err := os.Symlink("/dev/null", filepath.Join(dir, "deaf")); err != nil {
		t.Fatal(err)
	}
	if err := (setting{"deaf", "5"}).set(dir); err == nil || !strings.Contains(err.Error(), "wrote 5") {
		t.Errorf("%v; want it to say what was written", err)
	}
	if err := (setting{"none", "5"}).set(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%v; want that there is no such file", err)
	}
}

// kernelDir makes folders with the files that the kernel would put there.
func kernelDir(files ...string) func(string) error {
	return func(folder string) error {
		err := os.Mkdir(folder, 0o700)
		for _, f := range files {
			err = errors.Join(err, os.WriteFile(filepath.Join(folder, f), nil, 0o600))
		}
		return err
	}
}

func TestMakeGroup(t *testing.T) {
	text := func(parts ...string) string {
		b, err := os.ReadFile(filepath.Join(parts...))
		if err != nil {
			t.Error(err)
		}
		return strings.TrimSpace(string(b))
	}
	limits := Cgroup{CPUMax: 0.25, CPUWeight: 10, MemoryMax: 8 << 20}
	// A hierarchy of version 2 in which this process is in a/b.
	v2 := func(t *testing.T) (m membership, mkdir func(string) error) {
		dir := t.TempDir()
		mkdir = kernelDir("cgroup.controllers", "cgroup.subtree_control", "cpu.max", "cpu.weight", "memory.max")
		own := filepath.Join(dir, "a", "b")
		if err := errors.Join(mkdir(filepath.Join(dir, "a")), mkdir(own)); err != nil {
			t.Fatal(err)
		}
		return membership{map[string]string{"": own}, map[string]string{"": dir}}, mkdir
	}
	put := func(t *testing.T, folder, file, value string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(folder, file), []byte(value), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Run("version 2, below its own", func(t *testing.T) {
		m, mkdir := v2(t)
		own := m.folder[""]
		put(t, own, "cgroup.controllers", "cpuset cpu memory pids\n")
		put(t, own, "cgroup.subtree_control", "memory\n")
		g, err := makeGroup(limits, m, "dyno-1", mkdir)
		if err != nil {
			t.Fatal(err)
		}
		defer g.v2.Close()
		if want := (CgroupFolders{Unified: own + "/dyno-1"}); g.folders != want {
			t.Errorf("%+v, want %+v", g.folders, want)
		}
		for file, want := range map[string]string{"cpu.max": "25000 100000", "cpu.weight": "10", "memory.max": "8388608"} {
			if got := text(g.folders.Unified, file); got != want {
				t.Errorf("%s: %q, want %q", file, got, want)
			}
		}
		if got := text(own, "cgroup.subtree_control"); !strings.HasPrefix(got, "+cpu") {
			t.Errorf("%q; want cpu passed on", got)
		}
	})
	t.Run("version 2, a sibling of its own", func(t *testing.T) {
		m, mkdir := v2(t)
		own := m.folder[""]
		put(t, own, "cgroup.controllers", "cpu memory\n")
		if err := os.Remove(own + "/cgroup.subtree_control"); err != nil {
			t.Fatal(err)
		}
		put(t, filepath.Dir(own), "cgroup.controllers", "cpu memory\n")
		put(t, filepath.Dir(own), "cgroup.subtree_control", "cpu memory\n")
		g, err := makeGroup(limits, m, "dyno-1", mkdir)
		if err != nil {
			t.Fatal(err)
		}
		defer g.v2.Close()
		if want := filepath.Dir(own) + "/dyno-1"; g.folders.Unified != want {
			t.Errorf("%s, want %s", g.folders.Unified, want)
		}
	})
	t.Run("no controller", func(t *testing.T) {
		m, mkdir := v2(t)
		put(t, m.folder[""], "cgroup.controllers", "cpu\n")
		_, err := makeGroup(limits, m, "dyno-1", mkdir)
		if err == nil || !strings.Contains(err.Error(), "has no controller memory; it has: cpu") {
			t.Errorf("%v; want the controller that is missing", err)
		}
		_, err = makeGroup(limits, membership{}, "dyno-1", mkdir)
		if err == nil || !strings.Contains(err.Error(), "cpu or memory") {
			t.Errorf("%v; want the controllers that are missing", err)
		}
	})
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
		Cgroup: &Cgroup{CPUMax: 0.2, CPUWeight: 50},
		Ready:  Probe{Output: "^up$"},
	})
	at := p.Cgroup()
	if at.CPU == "" || at.CPUAcct == "" {
		t.Skip("the figures below are version 1's")
	}
	if got := number(t, at.CPU+"/cpu.cfs_quota_us"); got != 20_000 {
		t.Errorf("quota %d µs, want 20000", got)
	}
	if got := number(t, at.CPU+"/cpu.shares"); got != 512 {
		t.Errorf("%d shares, want 512", got)
	}
	// Everything of the target is in the group, and nothing of the supervisor.
	pids, err := p.PIDs()
	if err != nil {
		t.Fatal(err)
	}
	inside, err := words(at.CPU + "/cgroup.procs")
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(pids)
	if got := fmt.Sprint(inside); got != fmt.Sprint(pids) || len(pids) != 2 {
		t.Errorf("inside is %s, want the two of the target, %v", got, pids)
	}
	tasks, err := words(at.CPU + "/tasks")
	if err != nil {
		t.Fatal(err)
	}
	threads, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", p.Supervisor()))
	if err != nil {
		t.Fatal(err)
	}
	for _, th := range threads {
		if slices.Contains(tasks, th.Name()) {
			t.Errorf("the supervisor's thread %s is inside", th.Name())
		}
	}
	// This is measured by the group's own account, not by the clock of a shared machine. Nobody waits
	// for it to be throttled: on a busy machine it may not get what it is allowed.
	stat := func(word string) int {
		b, err := os.ReadFile(at.CPU + "/cpu.stat")
		if err != nil {
			t.Fatal(err)
		}
		return keyed(string(b), word)
	}
	periods, used := stat("nr_periods"), number(t, at.CPUAcct+"/cpuacct.usage")
	roles.Until(t, "ten periods", func() bool { return stat("nr_periods") >= periods+10 })
	used = number(t, at.CPUAcct+"/cpuacct.usage") - used
	periods = stat("nr_periods") - periods
	if most := (periods + 1) * int(30*time.Millisecond); used > most {
		t.Errorf("used %v in %d periods, of which each allows 20ms", time.Duration(used), periods)
	}
	folders := at.all()
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
	p := limited(t, Spec{Args: []string{"/proc/self/exe", "hog"}, Cgroup: &Cgroup{MemoryMax: 64 << 20}})
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
	own, err := readMembership("self")
	if err != nil {
		t.Fatal(err)
	}
	groups := func() []string {
		found, err := filepath.Glob(own.folder[cpuController] + "/dyno-*")
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	before := groups()
	_, err = Start(t.Context(), Spec{Args: []string{script}, Cgroup: &Cgroup{CPUMax: 0.5}})
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
	limited(t, Spec{Args: sh("exit 0"), Cgroup: &Cgroup{CPUMax: 0.5, MemoryMax: 256 << 20}}) // or skips
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
	target, err := readMembership(strconv.Itoa(pid))
	if err != nil {
		t.Fatal(err)
	}
	own, err := readMembership("self")
	if err != nil {
		t.Fatal(err)
	}
	folders := target.apartFrom(own).all()
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

// If the supervisor is killed, nothing of a target in a group survives, not even a process that has
// left its session, or is in a group that the target has made within its own.
func TestGroupsWithinAGroupOfAKilledSupervisor(t *testing.T) {
	p := limited(t, Spec{Args: sh("setsid sleep 1000 & echo up; wait"), Cgroup: &Cgroup{CPUMax: 0.5}, Ready: Probe{Output: "^up$"}})
	var pids []int
	roles.Until(t, "both processes are there", func() bool {
		var err error
		if pids, err = p.PIDs(); err != nil {
			t.Fatal(err)
		}
		return len(pids) == 2
	})
	tree, folders := identities(t, pids), p.cgroup.all()
	for _, f := range folders {
		within := filepath.Join(f, "a", "b")
		if err := os.MkdirAll(within, 0o755); err != nil {
			t.Fatal(err)
		}
		for _, pid := range pids {
			if err := write(filepath.Join(within, "cgroup.procs"), strconv.Itoa(pid)); err != nil {
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
	if got := p.Cgroup(); got != (CgroupFolders{}) {
		t.Fatalf("%+v; want none: it is where this test is", got)
	}
	// Another program puts the process into a group.
	own, err := readMembership("self")
	if err != nil {
		t.Fatal(err)
	}
	home, want := own.folder[cpuController], CgroupFolders{}
	folder := filepath.Join(home, fmt.Sprintf("dyno-test-%d", os.Getpid()))
	if want.CPU = folder; home == "" {
		home = own.folder[unified]
		folder = filepath.Join(home, filepath.Base(folder))
		want = CgroupFolders{Unified: folder}
	}
	if home == "" {
		t.Skip("no cgroups")
	}
	if err := os.Mkdir(folder, 0o755); err != nil {
		t.Skip("needs root: ", err)
	}
	t.Cleanup(func() {
		_ = p.Stop(context.Background())
		if err := removeGroups([]string{folder}); err != nil {
			t.Error(err)
		}
	})
	if err := write(folder+"/cgroup.procs", strconv.Itoa(p.PID())); err != nil {
		t.Fatal(err)
	}
	if got := p.Cgroup(); got.CPU != want.CPU || got.Unified != want.Unified {
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
		{Args: sh("exit 0"), Cgroup: &Cgroup{CPUMax: 0.5}},
		{Args: sh("exit 0"), Cgroup: &Cgroup{MemoryMax: 64 << 20}},
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
