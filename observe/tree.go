package observe

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"dyno/internal/texts"
)

// Bounds of a Tree. It holds four descriptors for a process and two for a thread.
// Further ones are not read: the columns they would belong to are then NaN.
const (
	maxProcesses = 1024
	maxThreads   = 2048
)

// A Tree observes a process and all that it has started.
//
// CPU time is exact to the scheduler's own tick (1 to 10 ms) while a process lives. Processes that have
// exited stay counted: from its parent's account of children that it waited for, or from the last
// reading, whichever is more. So time is never lost, with one exception: a process's use after its last
// reading, when its parent never waits for it.
//
// Switches and run-queue wait belong to threads and end with them: a thread's last
// reading stays counted, and one that came and went between two readings was
// never seen.
//
// It looks for new processes and threads only when the machine has given out a new id. That costs one
// small read a tick.
type Tree struct {
	name    string
	scope   scope
	groups  []string // the folders of control groups; none: the processes are a root's
	pages   float64  // bytes
	loadavg procFile
	// Features that some kernels lack.
	listsChildren  bool // /proc/PID/task/TID/children
	sizedFdFolders bool // the size of /proc/PID/fd is the number of entries
	waits          bool // /proc/PID/task/TID/schedstat

	processes []*process // parents before children, as found
	threads   int        // among all processes
	crowded   bool       // a bound was met
	lastPID   uint64     // when the tree was last looked through
	dirty     bool       // a process or thread has vanished since
	started   bool       // there was a reading
	dirents   direntReader
	buf       [8192]byte

	// Sums over what has vanished.
	gone struct {
		cpu, user, system            float64
		minor, major                 float64
		voluntary, involuntary, wait float64
	}
	waitedFor struct{ user, system, minor, major float64 } // largest sums of children's so far
	latestCPU float64
	busiest   float64 // CPU time of the thread that has used most
}

// A scope says what of the root and below counts.
type scope uint8

const (
	withRoot  scope = iota // the root and all below
	belowRoot              // all below; of the root only what it has waited for
	rootAlone              // the root only, without its children's times
	inGroup                // all in control groups
)

type process struct {
	pid                    int
	stat, statm, fds, task procFile
	threads                []*thread
	stats                  procStat
	cpu                    float64
	countsOwn              bool // false for a root that only reaps
	denied                 bool // fds may not be counted
}

type thread struct {
	tid                          int
	status, schedstat            procFile
	voluntary, involuntary, wait float64
	run, firstRun                float64 // CPU time, and that when it was first read
	seen                         bool
}

// NewTree observes the process root and all below it.
func NewTree(name string, root int) (*Tree, error) { return newTree(name, root, withRoot) }

// NewTreeBelow observes all processes below reaper, but not reaper itself: a process
// that others are re-parented to, and that waits for them.
func NewTreeBelow(name string, reaper int) (*Tree, error) { return newTree(name, reaper, belowRoot) }

// NewTreeIn observes all processes in control groups, given by one folder each, and in the groups below
// them.
func NewTreeIn(name string, groups ...string) (*Tree, error) {
	t, err := openTree(name, inGroup)
	if err != nil {
		return nil, err
	}
	t.groups = groups
	for _, group := range groups {
		if _, err := os.ReadFile(filepath.Join(group, processFile)); err != nil {
			_ = t.Close() // it closes one file, which was read
			return nil, unreadable(name, err, "help.cgroups")
		}
	}
	return t, nil
}

func newTree(name string, root int, s scope) (*Tree, error) {
	t, err := openTree(name, s)
	if err != nil {
		return nil, err
	}
	if !t.add(root, s != belowRoot) {
		_ = t.Close() // it closes one file, which was read
		return nil, &Unavailable{Observer: name, Reason: texts.New("unavailable.process", "process", strconv.Itoa(root)), Remedy: texts.New("help.user"), Err: syscall.ESRCH}
	}
	return t, nil
}

// openTree returns a tree without processes.
func openTree(name string, s scope) (*Tree, error) {
	t := &Tree{name: name, scope: s, pages: float64(os.Getpagesize()), latestCPU: math.NaN(), dirty: true}
	self := os.Getpid()
	if _, err := os.Stat(taskPath(self, self, "children")); err == nil {
		t.listsChildren = true
	}
	if _, err := os.Stat(taskPath(self, self, "schedstat")); err == nil {
		t.waits = true
	}
	if info, err := os.Stat("/proc/self/fd"); err == nil && info.Size() > 0 {
		t.sizedFdFolders = true
	}
	var err error
	if t.loadavg, err = openProc("/proc/loadavg"); err != nil {
		return nil, unreadable(name, err, "help.proc")
	}
	return t, nil
}

// Name returns the name given.
func (t *Tree) Name() string { return t.name }

const treeColumns = 13

// Columns returns the columns.
func (t *Tree) Columns() []Column {
	return []Column{
		{"cpu_seconds", Counter, "CPU time, children that have exited included"},
		{"cpu_user_seconds", Counter, "CPU time in user mode, in steps of 10 ms a process"},
		{"cpu_system_seconds", Counter, "CPU time in the kernel, in steps of 10 ms a process"},
		{"rss_bytes", Gauge, "resident memory, pages shared by processes counted in each"},
		{"processes", Gauge, "processes, zombies included"},
		{"threads", Gauge, "threads"},
		{"descriptors", Gauge, "open file descriptors"},
		{"voluntary_switches", Counter, "context switches because a thread waited"},
		{"involuntary_switches", Counter, "context switches because a thread was preempted"},
		{"run_queue_wait_seconds", Counter, "time in which threads were runnable but waited for a CPU"},
		{"busiest_thread_seconds", Counter, "CPU time of the thread that has used most since it was first seen"},
		{"minor_faults_total", Counter, "page faults that needed no input, children that have exited included"},
		{"major_faults_total", Counter, "page faults that waited for input, children that have exited included"},
	}
}

// CPUSeconds returns the CPU time of the last reading, or NaN.
func (t *Tree) CPUSeconds() float64 { return t.latestCPU }

// PIDs returns the processes of the last reading.
func (t *Tree) PIDs() (pids []int) {
	for _, p := range t.processes {
		pids = append(pids, p.pid)
	}
	return pids
}

// Observe reads the tree.
func (t *Tree) Observe(row []float64) error {
	t.discover()
	var cpu, user, system, childUser, childSystem, rss, processes, threads, fds float64
	var minor, major, childMinor, childMajor float64
	var voluntary, involuntary, wait float64
	busiest := t.busiest
	keep := t.processes[:0]
	for _, p := range t.processes {
		if !t.read(p) {
			t.bury(p)
			continue
		}
		keep = append(keep, p)
		if t.scope != rootAlone {
			childUser += ticks(p.stats.childUser)
			childSystem += ticks(p.stats.childSystem)
			childMinor += float64(p.stats.childMinor)
			childMajor += float64(p.stats.childMajor)
		}
		if !p.countsOwn {
			continue
		}
		cpu += p.cpu
		user += ticks(p.stats.user)
		system += ticks(p.stats.system)
		minor += float64(p.stats.minor)
		major += float64(p.stats.major)
		processes++
		threads += float64(p.stats.threads)
		rss += t.rss(p)
		fds += t.descriptors(p)
		for _, th := range p.threads {
			voluntary += th.voluntary
			involuntary += th.involuntary
			wait += th.wait
			busiest = max(busiest, th.run-th.firstRun)
		}
	}
	clear(t.processes[len(keep):])
	t.processes = keep

	if !t.started { // processes that ended before the first reading
		t.started = true
		t.gone.cpu, t.gone.user, t.gone.system = childUser+childSystem, childUser, childSystem
		t.gone.minor, t.gone.major = childMinor, childMajor
	}
	// Both are lower bounds of the CPU time of the dead: their last readings, and what their parents
	// have accounted for. Neither shrinks.
	w, g := &t.waitedFor, &t.gone
	w.user, w.system = max(w.user, childUser), max(w.system, childSystem)
	w.minor, w.major = max(w.minor, childMinor), max(w.major, childMajor)
	t.latestCPU = cpu + max(w.user+w.system, g.cpu)
	row[0] = t.latestCPU
	row[1] = user + max(w.user, g.user)
	row[2] = system + max(w.system, g.system)
	row[3] = rss
	row[4] = processes
	row[5] = threads
	row[6] = fds
	row[7] = voluntary + g.voluntary
	row[8] = involuntary + g.involuntary
	row[9], row[10] = math.NaN(), math.NaN()
	if t.waits {
		t.busiest = busiest
		row[9], row[10] = wait+g.wait, busiest
	}
	row[11], row[12] = minor+max(w.minor, g.minor), major+max(w.major, g.major)
	if t.crowded {
		for i := range row {
			row[i] = math.NaN()
		}
		t.latestCPU = math.NaN()
		return fmt.Errorf("more than %d processes or %d threads, or no descriptors left to read them", maxProcesses, maxThreads)
	}
	return nil
}

// read reads a process and its threads; false means that it is gone. Values that cannot be read for
// another reason stay the same.
func (t *Tree) read(p *process) bool {
	cpu, clockErr := clockSeconds(processClock(p.pid))
	// After the clock: as long as this file can be read, the number has not gone
	// to another process.
	b, err := p.stat.read(t.buf[:])
	if vanished(err) {
		return false
	}
	if err != nil {
		return true
	}
	s, err := parseStat(b)
	if err != nil {
		return true
	}
	if clockErr != nil {
		cpu = ticks(s.user + s.system)
	}
	p.stats = s
	p.cpu = max(p.cpu, cpu)
	keep := p.threads[:0]
	for _, th := range p.threads {
		if t.readThread(th) {
			keep = append(keep, th)
		} else {
			t.buryThread(th)
		}
	}
	clear(p.threads[len(keep):])
	p.threads = keep
	return true
}

func (t *Tree) readThread(th *thread) bool {
	th.wait = math.NaN()
	if t.waits {
		b, err := th.schedstat.read(t.buf[:])
		if vanished(err) {
			return false
		}
		if run, wait, _, perr := parseSchedstat(b); err == nil && perr == nil {
			th.run, th.wait = float64(run)/1e9, float64(wait)/1e9
			if !th.seen {
				th.seen, th.firstRun = true, th.run
			}
		}
	}
	b, err := th.status.read(t.buf[:])
	if vanished(err) {
		return false
	}
	if v, i, perr := parseSwitches(b); err == nil && perr == nil {
		th.voluntary, th.involuntary = float64(v), float64(i)
	} else {
		th.voluntary, th.involuntary = math.NaN(), math.NaN()
	}
	return true
}

func (t *Tree) rss(p *process) float64 {
	b, err := p.statm.read(t.buf[:])
	if err != nil {
		return 0 // it exits at this moment: its memory is gone
	}
	pages, err := parseStatm(b)
	if err != nil {
		return math.NaN()
	}
	return float64(pages) * t.pages
}

// descriptors counts, NaN when the process is another user's.
func (t *Tree) descriptors(p *process) float64 {
	if p.denied {
		return math.NaN()
	}
	if t.sizedFdFolders { // Linux 6.2
		n, err := p.fds.size()
		if err != nil {
			return 0
		}
		return n
	}
	n := 0.0
	_ = t.dirents.numbers(p.fds, func(int) { n++ }) // fails when it exits: no descriptors
	return n
}

// discover finds new processes and threads.
func (t *Tree) discover() {
	// Read first: what is forked during the walk changes it again.
	pid, err := t.readLastPID()
	if err == nil && pid == t.lastPID && !t.dirty {
		return
	}
	t.lastPID = pid
	// The walk can miss a process that loses its parent meanwhile. Then the parent has
	// vanished, which the following readings notice.
	t.dirty = false
	t.crowded = false
	if t.scope == inGroup {
		for _, group := range t.groups {
			t.findMembers(group)
		}
	}
	for i := 0; i < len(t.processes); i++ { // grows as children are found
		p := t.processes[i]
		t.findThreads(p)
		if t.scope == withRoot || t.scope == belowRoot {
			t.findChildren(p)
		}
	}
}

// processFile lists the processes of a control group.
const processFile = "cgroup.procs"

// findMembers finds the processes in a control group and below it. One that is gone has none.
func (t *Tree) findMembers(group string) {
	b, err := os.ReadFile(filepath.Join(group, processFile))
	t.crowded = t.crowded || exhausted(err)
	for line := range bytes.Lines(b) {
		if pid, _, ok := number(line); ok && pid > 0 { // 0: it is in another name space
			t.add(int(pid), true)
		}
	}
	entries, err := os.ReadDir(group)
	t.crowded = t.crowded || exhausted(err)
	for _, e := range entries {
		if e.IsDir() {
			t.findMembers(filepath.Join(group, e.Name()))
		}
	}
}

func (t *Tree) readLastPID() (uint64, error) {
	b, err := t.loadavg.read(t.buf[:])
	if err != nil {
		return 0, err
	}
	return parseLastPID(b)
}

func (t *Tree) findThreads(p *process) {
	if !p.countsOwn {
		return
	}
	_ = t.dirents.numbers(p.task, func(tid int) { // fails when it is gone: read will tell
		for _, th := range p.threads {
			if th.tid == tid {
				return
			}
		}
		if t.threads >= maxThreads {
			t.crowded = true
			return
		}
		th := &thread{tid: tid, schedstat: procFile{-1}}
		var err, err2 error
		if t.waits {
			th.schedstat, err = openProc(taskPath(p.pid, tid, "schedstat"))
		}
		th.status, err2 = openProc(taskPath(p.pid, tid, "status"))
		if err = errors.Join(err, err2); err != nil {
			t.crowded = t.crowded || exhausted(err)
			th.schedstat.close()
			th.status.close()
			return
		}
		p.threads = append(p.threads, th)
		t.threads++
	})
}

func (t *Tree) findChildren(p *process) {
	if !t.listsChildren {
		t.findChildrenByParent(p)
		return
	}
	// A child is listed under the thread that forked it.
	_ = t.dirents.numbers(p.task, func(tid int) {
		b, err := os.ReadFile(taskPath(p.pid, tid, "children"))
		if err != nil {
			t.crowded = t.crowded || exhausted(err)
			return
		}
		for {
			pid, rest, ok := number(b)
			if !ok {
				return
			}
			t.add(int(pid), true)
			b = rest
		}
	})
}

// findChildrenByParent looks through all processes of the machine, on a kernel
// without CONFIG_PROC_CHILDREN.
func (t *Tree) findChildrenByParent(p *process) {
	proc, err := openProc("/proc")
	if err != nil {
		t.crowded = t.crowded || exhausted(err)
		return
	}
	defer proc.close()
	var d direntReader
	_ = d.numbers(proc, func(pid int) {
		b, err := os.ReadFile(procPath(pid, "stat"))
		if err != nil {
			t.crowded = t.crowded || exhausted(err)
			return
		}
		if s, err := parseStat(b); err == nil && s.parent == p.pid {
			t.add(pid, true)
		}
	})
}

// add opens a process's files; false means that it cannot be read, which for a
// child means that it is gone.
func (t *Tree) add(pid int, countsOwn bool) bool {
	for _, p := range t.processes {
		if p.pid == pid {
			return true
		}
	}
	if len(t.processes) >= maxProcesses {
		t.crowded = true
		return false
	}
	p := &process{pid: pid, countsOwn: countsOwn}
	var errs [3]error
	p.stat, errs[0] = openProc(procPath(pid, "stat"))
	p.statm, errs[1] = openProc(procPath(pid, "statm"))
	p.task, errs[2] = openProc(procPath(pid, "task"))
	var fdErr error
	p.fds, fdErr = openProc(procPath(pid, "fd"))
	if p.denied = errors.Is(fdErr, os.ErrPermission); p.denied {
		fdErr = nil
	}
	if err := errors.Join(errs[0], errs[1], errs[2], fdErr); err != nil {
		t.crowded = t.crowded || exhausted(err)
		p.close()
		return false
	}
	t.processes = append(t.processes, p)
	return true
}

func exhausted(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE)
}

// bury keeps a vanished process's last reading.
func (t *Tree) bury(p *process) {
	t.dirty = true
	if p.countsOwn {
		t.gone.cpu += p.cpu
		t.gone.user += ticks(p.stats.user)
		t.gone.system += ticks(p.stats.system)
		t.gone.minor += float64(p.stats.minor)
		t.gone.major += float64(p.stats.major)
	}
	for _, th := range p.threads {
		t.buryThread(th)
	}
	p.close()
}

func (t *Tree) buryThread(th *thread) {
	t.dirty = true // its number may be another's already
	t.gone.voluntary += th.voluntary
	t.gone.involuntary += th.involuntary
	t.gone.wait += th.wait
	t.threads--
	th.status.close()
	th.schedstat.close()
}

func (p *process) close() {
	p.stat.close()
	p.statm.close()
	p.task.close()
	p.fds.close()
}

// Close closes what the tree holds open.
func (t *Tree) Close() error {
	for _, p := range t.processes {
		for _, th := range p.threads {
			th.status.close()
			th.schedstat.close()
		}
		p.close()
	}
	t.processes = nil
	t.loadavg.close()
	t.loadavg.fd = -1
	return nil
}

// A Generator observes this process, and its threads that make the load; or several processes that make
// it together.
type Generator struct {
	trees   []*Tree // this process first
	workers []worker
	row     [treeColumns]float64
	buf     [256]byte
}

type worker struct {
	tid       int
	own       bool // of this process: its clock can be read
	schedstat procFile
}

// NewGenerator observes this process. workers are thread ids (gettid(2)) of its own, or of
// other processes, which are observed, too.
func NewGenerator(workers ...int) (*Generator, error) {
	const name = "generator"
	g := &Generator{}
	own := os.Getpid()
	seen := map[int]bool{}
	add := func(pid int) error {
		if seen[pid] {
			return nil
		}
		seen[pid] = true
		t, err := newTree(name, pid, rootAlone)
		if err == nil {
			g.trees = append(g.trees, t)
		}
		return err
	}
	if err := add(own); err != nil {
		return nil, err
	}
	for _, tid := range workers {
		pid, err := processOf(tid)
		if err == nil {
			err = add(pid)
		}
		var f procFile
		if err == nil {
			f, err = openProc(taskPath(pid, tid, "schedstat"))
		}
		if err != nil {
			_ = g.Close()
			return nil, unreadable(name, err, "help.schedinfo")
		}
		g.workers = append(g.workers, worker{tid, pid == own, f})
	}
	return g, nil
}

// processOf returns the process that a thread belongs to.
func processOf(tid int) (pid int, err error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", tid))
	if err != nil {
		return 0, err
	}
	n, ok := field(b, "\nTgid:")
	if !ok {
		return 0, errFormat
	}
	return int(n), nil //nolint:gosec // a process's number
}

// Name returns "generator".
func (g *Generator) Name() string { return g.trees[0].name }

const workerColumns = 3

// Columns returns a tree's columns, and workerColumns for each worker.
func (g *Generator) Columns() []Column {
	cols := g.trees[0].Columns()
	for i := range g.workers {
		cols = append(cols,
			Column{fmt.Sprintf("worker%d_cpu_seconds", i), Counter, "CPU time of one worker thread"},
			Column{fmt.Sprintf("worker%d_run_queue_wait_seconds", i), Counter, "time in which it was runnable but waited for a CPU"},
			Column{fmt.Sprintf("worker%d_timeslices_total", i), Counter, "how often it was given a CPU"})
	}
	return cols
}

// CPUSeconds returns the CPU time of the last reading, or NaN.
func (g *Generator) CPUSeconds() (sum float64) {
	for _, t := range g.trees {
		sum += t.CPUSeconds()
	}
	return sum
}

// Observe reads the processes, whose sums it gives, and their workers. A worker that has ended is NaN.
func (g *Generator) Observe(row []float64) error {
	err := g.trees[0].Observe(row[:treeColumns])
	for _, t := range g.trees[1:] {
		err = errors.Join(err, t.Observe(g.row[:]))
		for c, v := range g.row {
			row[c] += v
		}
	}
	for i, w := range g.workers {
		cells := row[treeColumns+workerColumns*i:][:workerColumns]
		for c := range cells {
			cells[c] = math.NaN()
		}
		b, rerr := w.schedstat.read(g.buf[:])
		if rerr != nil {
			continue
		}
		run, wait, slices, perr := parseSchedstat(b)
		// The clock, unlike the file, counts what a running thread has used
		// since the last tick. That of another process's thread cannot be read.
		if cpu, cerr := clockSeconds(threadClock(w.tid)); w.own && cerr == nil {
			cells[0] = cpu
		} else if !w.own && perr == nil {
			cells[0] = float64(run) / float64(time.Second)
		}
		if perr == nil {
			cells[1] = float64(wait) / float64(time.Second)
			cells[2] = float64(slices)
		}
	}
	return err
}

// Close closes what the generator holds open.
func (g *Generator) Close() error {
	for _, w := range g.workers {
		w.schedstat.close()
	}
	g.workers = nil
	var err error
	for _, t := range g.trees {
		err = errors.Join(err, t.Close())
	}
	return err
}
