// Package cgroup finds, makes and removes control groups of both versions (cgroups(7)).
package cgroup

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"dyno/internal/units"
)

// Limits limit what all processes of a group use together. A field that is zero sets no limit.
type Limits struct {
	// CPUMax is how many CPUs the processes may use, such as 0.5. It limits their CPU
	// time in each 100 ms; after that they wait for the next (cpu.max, cpu.cfs_quota_us).
	CPUMax float64
	// CPUWeight is their share of contended CPUs: 1 to 10,000; the kernel's default is
	// 100 (cpu.weight; cpu.shares in version 1).
	CPUWeight int
	// MemoryMax is how many bytes they may hold, including the page cache but not swap
	// (memory.max, memory.limit_in_bytes). The kernel kills a process that needs more.
	MemoryMax int64
}

// The controllers that are used here.
const (
	CPU     = iota // of version 1
	CPUAcct        // of version 1
	Memory         // of version 1
	Unified        // all of version 2
	controllers
)

// names are the controllers' names in /proc/PID/cgroup.
var names = [controllers]string{"cpu", "cpuacct", "memory", ""}

// Folders are the folders of a control group by controller. One is empty if the group is not in that hierarchy.
// Controllers that are mounted together have the same folder.
type Folders [controllers]string

const (
	cpuPeriod = 100_000 // µs, the kernel's default
	// leastCPUMax is the smallest limit that the kernel takes: 1 ms in a period.
	leastCPUMax = 0.01
	maxCPUs     = units.MaxCPU + 1
	// removeWait bounds how long the removal of a group is tried. The kernel may count a
	// dead process in its group for a moment after its parent has waited for it.
	removeWait = 2 * time.Second
)

// Validate calls a function for each field that the kernel would refuse.
func (c *Limits) Validate(fault func(field, format string, args ...any)) {
	if c.CPUMax != 0 && !(c.CPUMax >= leastCPUMax && c.CPUMax <= maxCPUs) {
		fault("cgroup.cpu_max", "%v CPUs; want %v to %d, or 0 for no limit", c.CPUMax, leastCPUMax, maxCPUs)
	}
	if c.CPUWeight != 0 && (c.CPUWeight < 1 || c.CPUWeight > 10_000) {
		fault("cgroup.cpu_weight", "%d; want 1 to 10000, or 0 for the default", c.CPUWeight)
	}
	if c.MemoryMax < 0 {
		fault("cgroup.memory_max", "%d bytes; want more, or 0 for no limit", c.MemoryMax)
	}
}

// needs returns the controllers that the limits ask for.
func (c *Limits) needs() (needed []int) {
	if c.CPUMax > 0 || c.CPUWeight > 0 {
		needed = append(needed, CPU)
	}
	if c.MemoryMax > 0 {
		needed = append(needed, Memory)
	}
	return needed
}

// A setting is a value for a file of a group.
type setting struct{ file, value string }

// settings returns what to write for the limits of one controller.
func (c *Limits) settings(controller int, v2 bool) (all []setting) {
	quota := strconv.Itoa(int(math.Round(c.CPUMax * cpuPeriod)))
	memory := strconv.FormatInt(c.MemoryMax, 10)
	switch {
	case controller == Memory && v2:
		return []setting{{"memory.max", memory}}
	case controller == Memory:
		return []setting{{"memory.limit_in_bytes", memory}}
	case v2:
		if c.CPUMax > 0 {
			all = append(all, setting{"cpu.max", fmt.Sprintf("%s %d", quota, cpuPeriod)})
		}
		if c.CPUWeight > 0 {
			all = append(all, setting{"cpu.weight", strconv.Itoa(c.CPUWeight)})
		}
		return all
	}
	if c.CPUMax > 0 {
		all = append(all, setting{"cpu.cfs_period_us", strconv.Itoa(cpuPeriod)}, setting{"cpu.cfs_quota_us", quota})
	}
	if c.CPUWeight > 0 {
		all = append(all, setting{"cpu.shares", strconv.Itoa(shares(c.CPUWeight))})
	}
	return all
}

// shares returns a weight in the form of version 1, by the kernel's own conversion: a
// weight of 100 is 1,024 shares, and 2 shares is the minimum.
func shares(weight int) int { return max(2, (weight*1024+50)/100) }

// set writes values to the files of a group.
func set(folder string, all []setting) error {
	for _, s := range all {
		if err := s.set(folder); err != nil {
			return err
		}
	}
	return nil
}

// set writes the value and reads it back. The kernel rounds memory to pages.
func (s setting) set(folder string) error {
	path := filepath.Join(folder, s.file)
	if err := write(path, s.value); err != nil {
		return err
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	got := strings.TrimSpace(string(b))
	if got == s.value {
		return nil
	}
	g, err1 := strconv.ParseInt(got, 10, 64)
	w, err2 := strconv.ParseInt(s.value, 10, 64)
	if err1 == nil && err2 == nil && g == w-w%int64(os.Getpagesize()) {
		return nil
	}
	return fmt.Errorf("%s: wrote %s, but it reads %s", path, s.value, got)
}

// write writes to an existing file: creating a file in the kernel's file system is never
// right.
func write(path, value string) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(value)
	return errors.Join(err, f.Close())
}

// A Membership is the set of a process's groups, as folders that are mounted and visible to this
// process.
type Membership struct {
	Folders Folders
	top     Folders // where each hierarchy is mounted
}

// ReadMembership reads the membership of a process, given by its id or as self.
func ReadMembership(process string) (Membership, error) {
	// The mounts are this process's, because it opens the folders.
	mountinfo, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return Membership{}, err
	}
	groups, err := os.ReadFile("/proc/" + process + "/cgroup")
	if err != nil {
		return Membership{}, err
	}
	return parseMembership(string(mountinfo), string(groups)), nil
}

// parseMembership reads the texts of /proc/PID/mountinfo and /proc/PID/cgroup
// (proc_pid_mountinfo(5), cgroups(7)). It leaves out a group outside of the mounted part,
// as in a container.
func parseMembership(mountinfo, groups string) (m Membership) {
	paths := make(map[string]string)
	for line := range strings.Lines(groups) {
		f := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		if len(f) == 3 {
			for c := range strings.SplitSeq(f[1], ",") {
				paths[c] = f[2]
			}
		}
	}
	for _, h := range hierarchies(mountinfo) {
		for c, name := range names {
			if folder, ok := visible(h.root, h.point, paths[name]); ok && m.Folders[c] == "" && slices.Contains(h.controllers, name) {
				m.Folders[c], m.top[c] = folder, h.point
			}
		}
	}
	return m
}

// A hierarchy is mounted, and has a root of its own.
type hierarchy struct {
	controllers []string // they stand among options such as rw
	root, point string
}

// hierarchies reads the text of /proc/PID/mountinfo.
func hierarchies(mountinfo string) (all []hierarchy) {
	for line := range strings.Lines(mountinfo) {
		before, after, ok := strings.Cut(line, " - ")
		b, a := strings.Fields(before), strings.Fields(after)
		if !ok || len(b) < 5 || len(a) < 3 {
			continue
		}
		h := hierarchy{root: unescape(b[3]), point: unescape(b[4])}
		switch a[0] {
		case "cgroup":
			h.controllers = slices.DeleteFunc(strings.Split(a[2], ","), func(c string) bool { return c == names[Unified] })
		case "cgroup2":
			h.controllers = []string{names[Unified]}
		}
		all = append(all, h)
	}
	return all
}

// maxGroups bounds the search for a group by its own name.
const maxGroups = 100_000

// Find returns the folders of a control group that is visible here: by its path in the hierarchies,
// such as /system.slice/nginx.service, or by its own name alone, such as nginx.service.
func Find(name string) (Folders, error) {
	return findVisible(name, func(own string) bool { return own == name })
}

// FindPod returns the folders of the control group of a pod of Kubernetes, by the pod's UID.
func FindPod(uid string) (Folders, error) {
	if !isPodUID.MatchString(uid) {
		return Folders{}, fmt.Errorf("%.40q is no UID of a pod", uid)
	}
	return findVisible("of pod "+uid, ofPod(uid))
}

// isPodUID matches UIDs, and the hashes that static pods have in their place.
var isPodUID = regexp.MustCompile(`^[0-9a-f-]{32,36}$`)

// ofPod returns what knows the group of a pod by the group's own name. The kubelet makes groups such as pod1a-2b, or
// has systemd make them: kubepods-burstable-pod1a_2b.slice.
func ofPod(uid string) func(own string) bool {
	slice := "pod" + strings.ReplaceAll(uid, "-", "_") + ".slice"
	return func(own string) bool { return own == "pod"+uid || strings.HasSuffix(own, slice) }
}

// findVisible returns the folders of a control group in the hierarchies that are mounted here.
func findVisible(name string, is func(own string) bool) (Folders, error) {
	mountinfo, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return Folders{}, err
	}
	return findCgroup(hierarchies(string(mountinfo)), name, is)
}

// findCgroup finds a group by its path, or without one by its own name.
func findCgroup(mounted []hierarchy, name string, is func(own string) bool) (Folders, error) {
	mounted = slices.DeleteFunc(mounted, func(h hierarchy) bool {
		return !slices.ContainsFunc(h.controllers, func(c string) bool { return slices.Contains(names[:], c) })
	})
	path := filepath.Clean("/" + name) // never above the mount
	if path == "/" {
		return Folders{}, errors.New("the root of all control groups is the whole machine: name one below it")
	}
	var f Folders
	for _, h := range mounted {
		folder := filepath.Join(h.point, path)
		if !strings.Contains(name, "/") {
			// Each hierarchy may have the group in another place.
			found := h.find(is)
			if len(found) > 1 {
				return Folders{}, fmt.Errorf("%d control groups are called %s, such as %s and %s: name one with its path", len(found), name, found[0], found[1])
			}
			folder = filepath.Join(append([]string{h.point}, found...)...)
		}
		if _, err := os.Stat(filepath.Join(folder, "cgroup.procs")); err != nil || folder == h.point {
			continue
		}
		for c, name := range names {
			if f[c] == "" && slices.Contains(h.controllers, name) {
				f[c] = folder
			}
		}
	}
	if f == (Folders{}) {
		return f, fmt.Errorf("no control group %s is visible here", name)
	}
	return f, nil
}

// find returns the paths of the groups with some names.
func (h hierarchy) find(is func(own string) bool) (found []string) {
	left := maxGroups
	walk(h.point, func(folder string) (more bool) {
		if is(filepath.Base(folder)) && folder != h.point {
			found = append(found, strings.TrimPrefix(folder, h.point))
		}
		left--
		return left > 0
	})
	return found
}

// walk calls a function with the folders of a group and of all groups below it, while it returns true.
// There is nothing below what cannot be read.
func walk(folder string, each func(folder string) (more bool)) (more bool) {
	if !each(folder) {
		return false
	}
	entries, _ := os.ReadDir(folder)
	for _, e := range entries {
		if e.IsDir() && !walk(filepath.Join(folder, e.Name()), each) {
			return false
		}
	}
	return true
}

// PIDs returns the processes in a group and in those below it.
func PIDs(folder string) (pids []int) {
	walk(folder, func(folder string) (more bool) {
		all, _ := words(filepath.Join(folder, "cgroup.procs")) // a group that has gone has none
		for _, text := range all {
			if pid, err := strconv.Atoi(text); err == nil {
				pids = append(pids, pid)
			}
		}
		return true
	})
	return pids
}

// Processes returns a folder that lists the group's processes.
func (f Folders) Processes() string { return cmp.Or(f[Unified], f[CPUAcct], f[CPU], f[Memory]) }

// Or returns the folders. Where there are none it takes another group's.
func (f Folders) Or(other Folders) Folders {
	for c := range f {
		f[c] = cmp.Or(f[c], other[c])
	}
	return f
}

// ApartFrom returns the groups that are neither a hierarchy's root nor another process's.
func (m Membership) ApartFrom(other Membership) Folders {
	for c, f := range m.Folders {
		if f == m.top[c] || f == other.Folders[c] {
			m.Folders[c] = ""
		}
	}
	return m.Folders
}

// visible returns the folder of a group if the part of the hierarchy below root is
// mounted at point.
func visible(root, point, path string) (folder string, ok bool) {
	if !strings.HasPrefix(path, "/") || slices.Contains(strings.Split(path, "/"), "..") {
		return "", false // beyond the root of the process's name space
	}
	if root != "/" {
		if path, ok = strings.CutPrefix(path, root); !ok || path != "" && path[0] != '/' {
			return "", false
		}
	}
	return filepath.Join(point, path), true
}

// unescape replaces the four characters that mountinfo writes in octal.
func unescape(s string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(s)
}

// A Group is a control group that was made, in one or several hierarchies.
type Group struct {
	Folders Folders
	made    []string // all folders, without repetition
	v1      []string // folders of version 1
	home    []string // for each of v1, the group of this process
	v2      *os.File // the folder of version 2; nil without one
}

// Make makes a group with this name and these limits. It is a child of this process's own group. Where
// version 2 does not let a group with processes pass on its controllers, it is a sibling. Either all
// limits are in force or nothing is left.
func Make(c Limits, m Membership, name string) (*Group, error) {
	return makeGroup(c, m, name, func(folder string) error { return os.Mkdir(folder, 0o755) })
}

// makeGroup makes a group. The function that makes a folder, in which the kernel then creates the files, is a parameter.
func makeGroup(c Limits, m Membership, name string, mkdir func(string) error) (_ *Group, err error) {
	g := &Group{}
	defer func() {
		if err != nil {
			err = errors.Join(err, g.Remove())
		}
	}()
	var inV2 []string // the names of controllers
	var settings []setting
	for _, controller := range c.needs() {
		if m.Folders[controller] == "" {
			inV2, settings = append(inV2, names[controller]), append(settings, c.settings(controller, true)...)
			continue
		}
		if err := g.makeV1(m, controller, name, mkdir); err != nil {
			return nil, err
		}
		if err := set(g.Folders[controller], c.settings(controller, false)); err != nil {
			return nil, err
		}
	}
	if len(inV2) > 0 {
		if m.Folders[Unified] == "" {
			return nil, fmt.Errorf("no hierarchy with the controller %s is mounted and visible here", strings.Join(inV2, " or "))
		}
		if err := g.makeV2(m, inV2, name, mkdir); err != nil {
			return nil, err
		}
		if err := set(g.Folders[Unified], settings); err != nil {
			return nil, err
		}
	}
	// These controllers only count. If one is missing, its figures are not observed, but
	// no limit is missing.
	for _, controller := range []int{CPUAcct, Memory} {
		if m.Folders[controller] != "" {
			_ = g.makeV1(m, controller, name, mkdir)
		}
	}
	return g, nil
}

func (g *Group) makeV1(m Membership, controller int, name string, mkdir func(string) error) error {
	home := m.Folders[controller]
	folder := filepath.Join(home, name)
	if !slices.Contains(g.made, folder) {
		if err := mkdir(folder); err != nil {
			return err
		}
		g.made, g.v1, g.home = append(g.made, folder), append(g.v1, folder), append(g.home, home)
	}
	g.Folders[controller] = folder
	return nil
}

func (g *Group) makeV2(m Membership, controllers []string, name string, mkdir func(string) error) error {
	own := m.Folders[Unified]
	parents := []string{own}
	if own != m.top[Unified] {
		parents = append(parents, filepath.Dir(own))
	}
	var faults []error
	for _, parent := range parents {
		err := passOn(parent, controllers)
		folder := filepath.Join(parent, name)
		if err == nil {
			err = mkdir(folder)
		}
		if err != nil {
			faults = append(faults, err)
			continue
		}
		g.made, g.Folders[Unified] = append(g.made, folder), folder
		g.v2, err = os.Open(folder)
		return err
	}
	return errors.Join(faults...)
}

// passOn enables the controllers for the groups below parent. They stay enabled, because
// another group may use them for limits by then.
func passOn(parent string, controllers []string) error {
	has, err := words(filepath.Join(parent, "cgroup.controllers"))
	if err != nil {
		return err
	}
	control := filepath.Join(parent, "cgroup.subtree_control")
	passed, err := words(control)
	if err != nil {
		return err
	}
	for _, c := range controllers {
		switch {
		case slices.Contains(passed, c):
		case !slices.Contains(has, c):
			return fmt.Errorf("%s has no controller %s; it has: %s", parent, c, strings.Join(has, " "))
		default:
			err := write(control, "+"+c)
			if errors.Is(err, syscall.EBUSY) {
				return fmt.Errorf("%w: the group has processes of its own, so it cannot pass %s on", err, c)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

func words(path string) ([]string, error) {
	b, err := os.ReadFile(path)
	return strings.Fields(string(b)), err
}

// Enter moves the calling thread into the group's hierarchies of version 1. Processes
// that it forks are in the group from their first moment.
func (g *Group) Enter() error { return moveThread(g.v1) }

// Leave moves the thread back.
func (g *Group) Leave() error { return moveThread(g.home) }

// FD returns a descriptor of the group in version 2, if it is there: clone3 starts a process in it.
func (g *Group) FD() (fd int, ok bool) {
	if g.v2 == nil {
		return 0, false
	}
	return int(g.v2.Fd()), true
}

func moveThread(folders []string) error {
	for _, f := range folders {
		if err := write(filepath.Join(f, "tasks"), "0"); err != nil { // 0 is the thread that writes
			return err
		}
	}
	return nil
}

// OOMKills returns how many processes of the group the kernel has killed because memory
// ran out.
func (f Folders) OOMKills() int {
	path := filepath.Join(f[Memory], "memory.oom_control")
	switch {
	case f[Unified] != "" && f[Memory] == "":
		path = filepath.Join(f[Unified], "memory.events")
	case f[Memory] == "":
		return 0
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return 0 // not known; the exit status then tells
	}
	n, _ := Value(b, "oom_kill")
	return int(n)
}

// Value returns the number after a word that begins a line of a group's file. It does not allocate.
func Value(text []byte, word string) (n uint64, ok bool) {
	for line := range bytes.Lines(text) {
		if rest, found := bytes.CutPrefix(line, []byte(word)); found && len(rest) > 0 && rest[0] == ' ' {
			n, err := strconv.ParseUint(string(bytes.TrimSpace(rest)), 10, 64)
			return n, err == nil
		}
	}
	return 0, false
}

// All returns the folders without repetition.
func (f Folders) All() (folders []string) {
	for _, folder := range f {
		if folder != "" && !slices.Contains(folders, folder) {
			folders = append(folders, folder)
		}
	}
	return folders
}

// Remove removes a group whose processes are gone.
func (g *Group) Remove() error {
	if g == nil {
		return nil
	}
	if g.v2 != nil {
		_ = g.v2.Close() // nothing was written
	}
	return Remove(g.made)
}

// Kill kills all processes of a group and of those below it, where the kernel does that: in version 2 since Linux 5.14.
func Kill(folder string) { _ = write(filepath.Join(folder, "cgroup.kill"), "1") }

// Remove removes groups, including those that others have made below them.
func Remove(folders []string) error {
	end := time.Now().Add(removeWait)
	for pause := time.Millisecond; ; pause = min(2*pause, 100*time.Millisecond) {
		var faults []error
		for _, f := range folders {
			faults = append(faults, removeBelow(f))
		}
		err := errors.Join(faults...)
		if err == nil || time.Now().After(end) {
			return err
		}
		time.Sleep(pause)
	}
}

func removeBelow(folder string) error {
	entries, err := os.ReadDir(folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.IsDir() {
			if err := removeBelow(filepath.Join(folder, e.Name())); err != nil {
				return err
			}
		}
	}
	if err := syscall.Rmdir(folder); err != nil && !errors.Is(err, syscall.ENOENT) {
		return &fs.PathError{Op: "remove", Path: folder, Err: err}
	}
	return nil
}
