package cgroup

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
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
		want           Folders
	}{
		"separate": {
			separateMounts, "9:name=systemd:/\n4:memory:/a/b\n2:cpuacct:/\n1:cpu:/x\n0::/\n",
			Folders{CPU: "/sys/fs/cgroup/cpu/x", CPUAcct: "/sys/fs/cgroup/cpuacct", Memory: "/sys/fs/cgroup/memory/a/b",
				Unified: "/sys/fs/cgroup/unified"},
		},
		"joined": {
			joinedMounts, "4:memory:/m:1\n1:cpu,cpuacct:/x\n",
			Folders{CPU: "/sys/fs/cgroup/cpu,cpuacct/x", CPUAcct: "/sys/fs/cgroup/cpu,cpuacct/x", Memory: "/mnt/with blank/memory/m:1"},
		},
		"unified":             {unifiedMount, "0::/user.slice/a.scope\n", Folders{Unified: "/sys/fs/cgroup/user.slice/a.scope"}},
		"a part":              {containerMount, "0::/docker/1a/b\n", Folders{Unified: "/sys/fs/cgroup/b"}},
		"that part":           {containerMount, "0::/docker/1a\n", Folders{Unified: "/sys/fs/cgroup"}},
		"another":             {containerMount, "0::/docker/1ab\n", Folders{}},
		"above the namespace": {unifiedMount, "0::/../x\n", Folders{}},
		"not mounted":         {"", "0::/x\n4:memory:/\n", Folders{}},
		"no group":            {separateMounts, "", Folders{}},
		"nonsense":            {"- - -\n1 2 3 4 5 - cgroup\n", "::\n:\n\n0::relative\n", Folders{}},
	} {
		if diff := cmp.Diff(c.want, parseMembership(c.mounts, c.groups).Folders); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", name, diff)
		}
	}
}

// A control group is found by its path, or by a unique name, wherever the hierarchies are mounted.
func TestFind(t *testing.T) {
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
		{controllers: []string{names[Unified]}, root: "/", point: v2},
	}
	web := Folders{CPU: v1 + "/slice/web.service", CPUAcct: v1 + "/slice/web.service", Unified: v2 + "/slice/web.service"}
	for name, want := range map[string]Folders{
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
		mounted := []hierarchy{{controllers: []string{names[Unified]}, root: "/", point: top}}
		if got, err := findCgroup(mounted, "of pod "+uid, ofPod(uid)); err != nil || got[Unified] != filepath.Join(top, group) {
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

func TestSettings(t *testing.T) {
	c := Limits{CPUMax: 0.5, CPUWeight: 50, MemoryMax: 1 << 20}
	for _, x := range []struct {
		c          Limits
		controller int
		v2         bool
		want       []setting
	}{
		{c, CPU, false, []setting{{"cpu.cfs_period_us", "100000"}, {"cpu.cfs_quota_us", "50000"}, {"cpu.shares", "512"}}},
		{c, CPU, true, []setting{{"cpu.max", "50000 100000"}, {"cpu.weight", "50"}}},
		{c, Memory, false, []setting{{"memory.limit_in_bytes", "1048576"}}},
		{c, Memory, true, []setting{{"memory.max", "1048576"}}},
		{Limits{CPUMax: 2}, CPU, false, []setting{{"cpu.cfs_period_us", "100000"}, {"cpu.cfs_quota_us", "200000"}}},
		{Limits{CPUWeight: 100}, CPU, false, []setting{{"cpu.shares", "1024"}}},
		{Limits{CPUWeight: 10000}, CPU, true, []setting{{"cpu.weight", "10000"}}},
	} {
		if diff := cmp.Diff(x.want, x.c.settings(x.controller, x.v2), cmp.AllowUnexported(setting{})); diff != "" {
			t.Errorf("%+v, %s: %s", x.c, names[x.controller], diff)
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
	limits := Limits{CPUMax: 0.25, CPUWeight: 10, MemoryMax: 8 << 20}
	// A hierarchy of version 2 in which this process is in a/b.
	v2 := func(t *testing.T) (m Membership, mkdir func(string) error) {
		dir := t.TempDir()
		mkdir = kernelDir("cgroup.controllers", "cgroup.subtree_control", "cpu.max", "cpu.weight", "memory.max")
		own := filepath.Join(dir, "a", "b")
		if err := errors.Join(mkdir(filepath.Join(dir, "a")), mkdir(own)); err != nil {
			t.Fatal(err)
		}
		return Membership{Folders{Unified: own}, Folders{Unified: dir}}, mkdir
	}
	put := func(t *testing.T, folder, file, value string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(folder, file), []byte(value), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Run("version 2, below its own", func(t *testing.T) {
		m, mkdir := v2(t)
		own := m.Folders[Unified]
		put(t, own, "cgroup.controllers", "cpuset cpu memory pids\n")
		put(t, own, "cgroup.subtree_control", "memory\n")
		g, err := makeGroup(limits, m, "dyno-1", mkdir)
		if err != nil {
			t.Fatal(err)
		}
		defer g.v2.Close()
		if want := (Folders{Unified: own + "/dyno-1"}); g.Folders != want {
			t.Errorf("%+v, want %+v", g.Folders, want)
		}
		for file, want := range map[string]string{"cpu.max": "25000 100000", "cpu.weight": "10", "memory.max": "8388608"} {
			if got := text(g.Folders[Unified], file); got != want {
				t.Errorf("%s: %q, want %q", file, got, want)
			}
		}
		if got := text(own, "cgroup.subtree_control"); !strings.HasPrefix(got, "+cpu") {
			t.Errorf("%q; want cpu passed on", got)
		}
	})
	t.Run("version 2, a sibling of its own", func(t *testing.T) {
		m, mkdir := v2(t)
		own := m.Folders[Unified]
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
		if want := filepath.Dir(own) + "/dyno-1"; g.Folders[Unified] != want {
			t.Errorf("%s, want %s", g.Folders[Unified], want)
		}
	})
	t.Run("no controller", func(t *testing.T) {
		m, mkdir := v2(t)
		put(t, m.Folders[Unified], "cgroup.controllers", "cpu\n")
		_, err := makeGroup(limits, m, "dyno-1", mkdir)
		if err == nil || !strings.Contains(err.Error(), "has no controller memory; it has: cpu") {
			t.Errorf("%v; want the controller that is missing", err)
		}
		_, err = makeGroup(limits, Membership{}, "dyno-1", mkdir)
		if err == nil || !strings.Contains(err.Error(), "cpu or memory") {
			t.Errorf("%v; want the controllers that are missing", err)
		}
	})
}
