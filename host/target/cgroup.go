package target

import (
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
)

// A Cgroup limits what all processes of a target use together. The target has a control
// group of its own for this (cgroups(7)). A field that is zero sets no limit.
type Cgroup struct {
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

// CgroupFolders are the folders that hold the figures of a target's control groups. A
// field is empty if the target has no group of its own there. In version 1, controllers
// that are mounted together have the same folder.
type CgroupFolders struct {
	CPU, CPUAcct, Memory string // version 1
	Unified              string // version 2
}

// The controllers of version 1 that are used here.
const (
	cpuController     = "cpu"
	cpuAcctController = "cpuacct"
	memoryController  = "memory"
)

const (
	cpuPeriod = 100_000 // µs, the kernel's default
	// LeastCPUMax is the smallest limit that the kernel takes: 1 ms in a period.
	LeastCPUMax = 0.01
	// removeWait bounds how long the removal of a group is tried. The kernel may count a
	// dead process in its group for a moment after its parent has waited for it.
	removeWait = 2 * time.Second
)

func (c *Cgroup) validate(fault func(field, format string, args ...any)) {
	if c.CPUMax != 0 && !(c.CPUMax >= LeastCPUMax && c.CPUMax <= maxCPU) {
		fault("cgroup.cpu_max", "%v CPUs; want %v to %d, or 0 for no limit", c.CPUMax, LeastCPUMax, maxCPU)
	}
	if c.CPUWeight != 0 && (c.CPUWeight < 1 || c.CPUWeight > 10_000) {
		fault("cgroup.cpu_weight", "%d; want 1 to 10000, or 0 for the default", c.CPUWeight)
	}
	if c.MemoryMax < 0 {
		fault("cgroup.memory_max", "%d bytes; want more, or 0 for no limit", c.MemoryMax)
	}
}

// needs returns the controllers that the limits ask for.
func (c *Cgroup) needs() (controllers []string) {
	if c.CPUMax > 0 || c.CPUWeight > 0 {
		controllers = append(controllers, cpuController)
	}
	if c.MemoryMax > 0 {
		controllers = append(controllers, memoryController)
	}
	return controllers
}

// A setting is a value for a file of a group.
type setting struct{ file, value string }

// settings returns what to write for the limits of one controller.
func (c *Cgroup) settings(controller string, v2 bool) (all []setting) {
	quota := strconv.Itoa(int(math.Round(c.CPUMax * cpuPeriod)))
	memory := strconv.FormatInt(c.MemoryMax, 10)
	switch {
	case controller == memoryController && v2:
		return []setting{{"memory.max", memory}}
	case controller == memoryController:
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

// A membership is the set of groups that a process is in, as folders that are mounted and
// visible to this process. Groups of version 1 are listed by controller, the group of
// version 2 under unified.
type membership struct {
	folder map[string]string
	top    map[string]string // where each hierarchy is mounted
}

// unified names version 2 among the controllers of version 1, as in /proc/PID/cgroup.
const unified = ""

// readMembership reads the membership of a process, given by its id or as self.
func readMembership(process string) (membership, error) {
	// The mounts are those of this process, because this process opens the folders.
	mountinfo, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return membership{}, err
	}
	groups, err := os.ReadFile("/proc/" + process + "/cgroup")
	if err != nil {
		return membership{}, err
	}
	return parseMembership(string(mountinfo), string(groups)), nil
}

// parseMembership reads the texts of /proc/PID/mountinfo and /proc/PID/cgroup
// (proc_pid_mountinfo(5), cgroups(7)). It leaves out a group outside of the mounted part,
// as in a container.
func parseMembership(mountinfo, groups string) membership {
	m := membership{make(map[string]string), make(map[string]string)}
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
		for _, c := range h.controllers {
			path, in := paths[c]
			if folder, ok := visible(h.root, h.point, path); in && ok && m.folder[c] == "" {
				m.folder[c], m.top[c] = folder, h.point
			}
		}
	}
	return m
}

// A hierarchy is one that is mounted, below a root of its own.
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
			h.controllers = slices.DeleteFunc(strings.Split(a[2], ","), func(c string) bool { return c == unified })
		case "cgroup2":
			h.controllers = []string{unified}
		}
		all = append(all, h)
	}
	return all
}

// maxGroups bounds the search for a group by its own name.
const maxGroups = 100_000

// FindCgroup returns the folders of a control group that is visible here: by its path in the hierarchies,
// such as /system.slice/nginx.service, or by its own name alone, such as nginx.service.
func FindCgroup(name string) (CgroupFolders, error) {
	return findVisible(name, func(own string) bool { return own == name })
}

// FindPod returns the folders of the control group of a pod of Kubernetes, by the pod's UID.
func FindPod(uid string) (CgroupFolders, error) {
	if !isPodUID.MatchString(uid) {
		return CgroupFolders{}, fmt.Errorf("%.40q is no UID of a pod", uid)
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
func findVisible(name string, is func(own string) bool) (CgroupFolders, error) {
	mountinfo, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return CgroupFolders{}, err
	}
	return findCgroup(hierarchies(string(mountinfo)), name, is)
}

// findCgroup finds a group by its path, or without one by its own name.
func findCgroup(mounted []hierarchy, name string, is func(own string) bool) (CgroupFolders, error) {
	mounted = slices.DeleteFunc(mounted, func(h hierarchy) bool {
		return !slices.ContainsFunc(h.controllers, func(c string) bool {
			return slices.Contains([]string{cpuController, cpuAcctController, memoryController, unified}, c)
		})
	})
	path := filepath.Clean("/" + name) // never above the mount
	if path == "/" {
		return CgroupFolders{}, errors.New("the root of all control groups is the whole machine: name one below it")
	}
	var f CgroupFolders
	for _, h := range mounted {
		folder := filepath.Join(h.point, path)
		if !strings.Contains(name, "/") {
			// Each hierarchy may have the group in another place.
			found := h.find(is)
			if len(found) > 1 {
				return CgroupFolders{}, fmt.Errorf("%d control groups are called %s, such as %s and %s: name one with its path", len(found), name, found[0], found[1])
			}
			folder = filepath.Join(append([]string{h.point}, found...)...)
		}
		if _, err := os.Stat(filepath.Join(folder, "cgroup.procs")); err != nil || folder == h.point {
			continue
		}
		for _, of := range []struct {
			controller string
			folder     *string
		}{{cpuController, &f.CPU}, {cpuAcctController, &f.CPUAcct}, {memoryController, &f.Memory}, {unified, &f.Unified}} {
			if *of.folder == "" && slices.Contains(h.controllers, of.controller) {
				*of.folder = folder
			}
		}
	}
	if f == (CgroupFolders{}) {
		return f, fmt.Errorf("no control group %s is visible here", name)
	}
	return f, nil
}

// find returns the paths of the groups with some names.
func (h hierarchy) find(is func(own string) bool) (found []string) {
	left := maxGroups
	walkGroups(h.point, func(folder string) (more bool) {
		if is(filepath.Base(folder)) && folder != h.point {
			found = append(found, strings.TrimPrefix(folder, h.point))
		}
		left--
		return left > 0
	})
	return found
}

// walkGroups calls a function with the folder of a group and of each one below it, for as long as it returns true.
// There is nothing below what cannot be read.
func walkGroups(folder string, each func(folder string) (more bool)) (more bool) {
	if !each(folder) {
		return false
	}
	entries, _ := os.ReadDir(folder)
	for _, e := range entries {
		if e.IsDir() && !walkGroups(filepath.Join(folder, e.Name()), each) {
			return false
		}
	}
	return true
}

// Processes returns a folder that lists the group's processes.
func (f CgroupFolders) Processes() string { return cmp.Or(f.Unified, f.CPUAcct, f.CPU, f.Memory) }

// apartFrom returns the groups that are neither a hierarchy's root nor those of
// another process.
func (m membership) apartFrom(other membership) CgroupFolders {
	own := func(controller string) string {
		f := m.folder[controller]
		if f == m.top[controller] || f == other.folder[controller] {
			return ""
		}
		return f
	}
	return CgroupFolders{CPU: own(cpuController), CPUAcct: own(cpuAcctController), Memory: own(memoryController), Unified: own(unified)}
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

// A group is a target's control group, in one or several hierarchies.
type group struct {
	folders CgroupFolders
	made    []string // all folders, without repetition
	v1      []string // those of them that are of version 1
	home    []string // for each of v1, the group of this process
	v2      *os.File // the folder of version 2; nil without one
}

// makeGroup makes a group with this name and these limits. It is a child of this process's
// own group, or a sibling where version 2 does not let a group with processes pass on its
// controllers. Either all limits are in force or nothing is left. The function that makes a
// folder, in which the kernel then creates the files, is a parameter.
func makeGroup(c Cgroup, m membership, name string, mkdir func(string) error) (_ *group, err error) {
	g := &group{}
	defer func() {
		if err != nil {
			err = errors.Join(err, g.remove())
		}
	}()
	var inV2 []string
	for _, controller := range c.needs() {
		if m.folder[controller] == "" {
			inV2 = append(inV2, controller)
			continue
		}
		if err := g.makeV1(m, controller, name, mkdir); err != nil {
			return nil, err
		}
		for _, s := range c.settings(controller, false) {
			if err := s.set(g.folder(controller)); err != nil {
				return nil, err
			}
		}
	}
	if len(inV2) > 0 {
		if m.folder[unified] == "" {
			return nil, fmt.Errorf("no hierarchy with the controller %s is mounted and visible here", strings.Join(inV2, " or "))
		}
		if err := g.makeV2(m, inV2, name, mkdir); err != nil {
			return nil, err
		}
		for _, controller := range inV2 {
			for _, s := range c.settings(controller, true) {
				if err := s.set(g.folders.Unified); err != nil {
					return nil, err
				}
			}
		}
	}
	// These controllers only count. If one is missing, its figures are not observed, but
	// no limit is missing.
	for _, controller := range []string{cpuAcctController, memoryController} {
		if m.folder[controller] != "" {
			_ = g.makeV1(m, controller, name, mkdir)
		}
	}
	return g, nil
}

// folder returns the field of a controller of version 1.
func (g *group) folder(controller string) string {
	switch controller {
	case cpuController:
		return g.folders.CPU
	case cpuAcctController:
		return g.folders.CPUAcct
	}
	return g.folders.Memory
}

func (g *group) makeV1(m membership, controller, name string, mkdir func(string) error) error {
	home := m.folder[controller]
	folder := filepath.Join(home, name)
	if !slices.Contains(g.made, folder) {
		if err := mkdir(folder); err != nil {
			return err
		}
		g.made, g.v1, g.home = append(g.made, folder), append(g.v1, folder), append(g.home, home)
	}
	switch controller {
	case cpuController:
		g.folders.CPU = folder
	case cpuAcctController:
		g.folders.CPUAcct = folder
	default:
		g.folders.Memory = folder
	}
	return nil
}

func (g *group) makeV2(m membership, controllers []string, name string, mkdir func(string) error) error {
	own := m.folder[unified]
	parents := []string{own}
	if own != m.top[unified] {
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
		g.made, g.folders.Unified = append(g.made, folder), folder
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

// enter moves the calling thread into the group's hierarchies of version 1. Processes
// that it forks are in the group from their first moment.
func (g *group) enter() error { return moveThread(g.v1) }

// leave moves the thread back.
func (g *group) leave() error { return moveThread(g.home) }

func moveThread(folders []string) error {
	for _, f := range folders {
		if err := write(filepath.Join(f, "tasks"), "0"); err != nil { // 0 is the thread that writes
			return err
		}
	}
	return nil
}

// oomKills returns how many processes of the group the kernel has killed because memory
// ran out.
func (f CgroupFolders) oomKills() int {
	path := filepath.Join(f.Memory, "memory.oom_control")
	switch {
	case f.Unified != "" && f.Memory == "":
		path = filepath.Join(f.Unified, "memory.events")
	case f.Memory == "":
		return 0
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return 0 // not known; the exit status then tells
	}
	return keyed(string(b), "oom_kill")
}

// keyed returns the number after a word at the beginning of a line, or 0.
func keyed(text, word string) int {
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) == 2 && f[0] == word {
			n, err := strconv.Atoi(f[1])
			if err == nil {
				return n
			}
		}
	}
	return 0
}

// all returns the folders without repetition.
func (f CgroupFolders) all() (folders []string) {
	for _, folder := range []string{f.CPU, f.CPUAcct, f.Memory, f.Unified} {
		if folder != "" && !slices.Contains(folders, folder) {
			folders = append(folders, folder)
		}
	}
	return folders
}

// remove removes a group whose processes are gone.
func (g *group) remove() error {
	if g == nil {
		return nil
	}
	if g.v2 != nil {
		_ = g.v2.Close() // nothing was written
	}
	return removeGroups(g.made)
}

// removeGroups removes groups, including those that a target has made below them.
func removeGroups(folders []string) error {
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

// withRemedy adds a hint to an error of a control group.
func withRemedy(err error) error {
	switch {
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		return fmt.Errorf("cgroup: %w (run as root or, with cgroup v2, as: systemd-run --user --scope dyno …)", err)
	case errors.Is(err, syscall.EBUSY):
		return fmt.Errorf("cgroup: %w (run as: systemd-run --scope dyno …)", err)
	}
	return fmt.Errorf("cgroup: %w (mount the controller, as version 1 or in cgroup v2, or remove the limit)", err)
}
