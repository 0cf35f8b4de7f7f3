package observe

import (
	"dyno/internal/roles"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

func newTestTree(t *testing.T, pid int) *Tree {
	t.Helper()
	tree, err := NewTree("target", pid)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tree.Close() })
	return tree
}

// reading returns a row by column name.
func reading(t *testing.T, o Observer) map[string]float64 {
	t.Helper()
	cols := o.Columns()
	row := make([]float64, len(cols))
	if err := o.Observe(row); err != nil {
		t.Fatal(err)
	}
	m := make(map[string]float64)
	for i, c := range cols {
		m[c.Name] = row[i]
	}
	return m
}

// near is the tolerance between counters that the kernel rounds to 10 ms each.
const near = 0.030

func wantNear(t *testing.T, what string, got, want float64) {
	t.Helper()
	if !(math.Abs(got-want) <= near) {
		t.Errorf("%s: %.3f s; want %.3f", what, got, want)
	}
}

func burnt(t *testing.T, line string) (user, system float64) {
	t.Helper()
	var u, s int64
	if _, err := fmt.Sscan(line, &u, &s); err != nil {
		t.Fatal(err)
	}
	return float64(u) / 1e9, float64(s) / 1e9
}

// Memory that is touched for the first time costs page faults.
func TestTreeCountsPageFaults(t *testing.T) {
	tree, err := NewTree("self", os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tree.Close() }()
	var rows [2][treeColumns]float64
	for i := range rows {
		if err := tree.Observe(rows[i][:]); err != nil {
			t.Fatal(err)
		}
		touched := make([]byte, 64<<20)
		for at := 0; at < len(touched); at += os.Getpagesize() {
			touched[at] = 1
		}
		runtime.KeepAlive(touched)
	}
	for i, c := range tree.Columns() {
		if c.Name == "minor_faults_total" && !(rows[1][i] > rows[0][i] && rows[0][i] > 0) || c.Name == "major_faults_total" && !(rows[1][i] >= 0) {
			t.Errorf("%s: %v, then %v", c.Name, rows[0][i], rows[1][i])
		}
	}
}

func TestCPUIsWhatTheKernelCounted(t *testing.T) {
	c := roles.Start(t, roles.Command("burn"))
	tree := newTestTree(t, c.Process.Pid)
	user, system := burnt(t, c.Line(t))
	asleep(t, c.Process.Pid)
	got := reading(t, tree)
	wantNear(t, "cpu", got["cpu_seconds"], user+system)
	wantNear(t, "user", got["cpu_user_seconds"], user)
	wantNear(t, "system", got["cpu_system_seconds"], system)
	if tree.CPUSeconds() != got["cpu_seconds"] {
		t.Error("CPUSeconds is not the last reading")
	}
}

func TestGaugesAreExact(t *testing.T) {
	c := roles.Start(t, exec.Command("sh", "-c", "exec 3</dev/null 4</dev/null 5</dev/null; echo up; read x"))
	tree := newTestTree(t, c.Process.Pid)
	c.Line(t)
	asleep(t, c.Process.Pid)
	got := reading(t, tree)
	statm := strings.Fields(readLine(procPath(c.Process.Pid, "statm")))
	pages, err := strconv.Atoi(statm[1])
	if err != nil {
		t.Fatal(err)
	}
	list, err := os.ReadDir(procPath(c.Process.Pid, "fd"))
	if err != nil {
		t.Fatal(err)
	}
	fds := float64(len(list))
	if fds < 6 {
		t.Fatalf("%v descriptors; want the six that were opened and what the tests inherited", fds)
	}
	want := map[string]float64{
		"rss_bytes":   float64(pages * os.Getpagesize()),
		"descriptors": fds,
		"processes":   1,
		"threads":     1,
	}
	for name, w := range want {
		if got[name] != w {
			t.Errorf("%s: %v; want %v", name, got[name], w)
		}
	}
	// The other way to count, for kernels that do not tell the number.
	tree.sizedFdFolders = false
	if n := reading(t, tree)["descriptors"]; n != fds {
		t.Errorf("counted %v descriptors; want %v", n, fds)
	}
}

func TestSwitchesOfAllThreads(t *testing.T) {
	c := roles.Start(t, roles.Command("threads"))
	tree := newTestTree(t, c.Process.Pid)
	tid := c.Line(t)
	asleep(t, c.Process.Pid)
	before := reading(t, tree)
	if voluntary := before["voluntary_switches"]; voluntary < 500 {
		t.Errorf("%v voluntary switches after 500 sleeps", voluntary)
	}

	// The busy thread ends: what it did stays.
	if _, err := fmt.Fprintln(c.Stdin); err != nil {
		t.Fatal(err)
	}
	roles.Until(t, "the thread has ended", func() bool {
		_, err := os.Stat(procPath(c.Process.Pid, "task/"+tid))
		return errors.Is(err, os.ErrNotExist)
	})
	after := reading(t, tree)
	if after["voluntary_switches"] < before["voluntary_switches"] {
		t.Errorf("switches fell from %v to %v", before["voluntary_switches"], after["voluntary_switches"])
	}
}

func TestNginxIsThreeProcesses(t *testing.T) {
	if _, err := exec.LookPath("nginx"); err != nil {
		t.Skip("nginx is not installed")
	}
	dir := t.TempDir()
	conf := filepath.Join(dir, "c")
	text := fmt.Sprintf(`daemon off; worker_processes 2; pid %[1]s/pid; error_log stderr; events {}
http { access_log off; client_body_temp_path %[1]s/b; proxy_temp_path %[1]s/p; fastcgi_temp_path %[1]s/f;
uwsgi_temp_path %[1]s/u; scgi_temp_path %[1]s/s; server { listen unix:%[1]s/sock; } }`, dir)
	if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c := roles.Start(t, exec.Command("nginx", "-p", dir, "-e", "stderr", "-c", conf))
	t.Cleanup(func() { // runs first: the master ends its workers
		_ = c.Process.Signal(syscall.SIGTERM)
		_, _ = c.Out.ReadString(0)
	})
	for _, listed := range []bool{true, false} { // both ways to find children
		t.Run(fmt.Sprintf("children listed: %v", listed), func(t *testing.T) {
			tree := newTestTree(t, c.Process.Pid)
			tree.listsChildren = tree.listsChildren && listed
			var got map[string]float64
			roles.Until(t, "a master and two workers", func() bool {
				tree.dirty = true
				got = reading(t, tree)
				return got["processes"] == 3
			})
			// Workers that have just begun still open files.
			roles.Until(t, "the sums of what each process has", func() bool {
				fds, rss := 0.0, 0.0
				got = reading(t, tree)
				for _, p := range tree.processes {
					list, err := os.ReadDir(procPath(p.pid, "fd"))
					if err != nil {
						t.Fatal(err)
					}
					fds += float64(len(list))
					pages, err := strconv.Atoi(strings.Fields(readLine(procPath(p.pid, "statm")))[1])
					if err != nil {
						t.Fatal(err)
					}
					rss += float64(pages * os.Getpagesize())
				}
				return got["descriptors"] == fds && got["rss_bytes"] == rss && got["threads"] == 3
			})
		})
	}
}

func TestBelowLeavesTheReaperOut(t *testing.T) {
	c := roles.Start(t, exec.Command("sh", "-c", "sleep 1000 & sleep 1000 & echo $! up; wait"))
	t.Cleanup(func() { killBelow(t, c.Process.Pid) })
	c.Line(t)
	below, err := NewTreeBelow("target", c.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	defer below.Close()
	whole := newTestTree(t, c.Process.Pid)
	if b, w := reading(t, below)["processes"], reading(t, whole)["processes"]; b != 2 || w != 3 {
		t.Errorf("%v below, %v with the root; want 2 and 3", b, w)
	}
}

func killBelow(t *testing.T, pid int) {
	t.Helper()
	for _, s := range strings.Fields(readLine(taskPath(pid, pid, "children"))) {
		n, err := strconv.Atoi(s)
		if err != nil {
			t.Fatal(err)
		}
		_ = syscall.Kill(n, syscall.SIGKILL)
	}
}

func TestTimeOfTheDeadStays(t *testing.T) {
	t.Run("waited for by the parent", func(t *testing.T) {
		c := roles.Start(t, exec.Command("sh", "-c", "/proc/$PPID/exe burn < /dev/null; echo reaped; read x"))
		tree := newTestTree(t, c.Process.Pid)
		user, system := burnt(t, c.Line(t))
		if c.Line(t) != "reaped" {
			t.Fatal("no child?")
		}
		got := reading(t, tree)
		if got["processes"] != 1 {
			t.Errorf("%v processes; want 1", got["processes"])
		}
		wantNear(t, "cpu", got["cpu_seconds"], user+system)
		wantNear(t, "user", got["cpu_user_seconds"], user)
		wantNear(t, "system", got["cpu_system_seconds"], system)
	})
	t.Run("waited for by nobody", func(t *testing.T) {
		c := roles.Start(t, roles.Command("careless"))
		tree := newTestTree(t, c.Process.Pid)
		user, system := burnt(t, c.Line(t))
		asleep(t, c.Process.Pid)
		before := reading(t, tree)
		if before["processes"] != 2 || before["cpu_seconds"] < user+system-near {
			t.Fatalf("%v; want 2 processes and %v s", before, user+system)
		}
		if _, err := fmt.Fprintln(c.Stdin); err != nil {
			t.Fatal(err)
		}
		var after map[string]float64
		roles.Until(t, "one process is left", func() bool {
			after = reading(t, tree)
			return after["processes"] == 1
		})
		for _, name := range []string{"cpu_seconds", "cpu_user_seconds", "cpu_system_seconds", "voluntary_switches"} {
			if after[name] < before[name] {
				t.Errorf("%s fell from %v to %v", name, before[name], after[name])
			}
		}
	})
	t.Run("of the root", func(t *testing.T) {
		c := roles.Start(t, roles.Command("burn"))
		tree := newTestTree(t, c.Process.Pid)
		c.Line(t)
		asleep(t, c.Process.Pid)
		before := reading(t, tree)
		_ = c.Process.Kill()
		_ = c.Wait()
		after := reading(t, tree)
		if after["cpu_seconds"] < before["cpu_seconds"] || after["processes"] != 0 || after["rss_bytes"] != 0 {
			t.Errorf("%v; want the CPU time of %v and no process", after, before)
		}
	})
}

func TestZombieIsCountedOnce(t *testing.T) {
	c := roles.Start(t, roles.Command("burn"))
	tree := newTestTree(t, c.Process.Pid)
	user, system := burnt(t, c.Line(t))
	if err := c.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	roles.Until(t, "it is a zombie", func() bool {
		s, err := parseStat([]byte(readLine(procPath(c.Process.Pid, "stat")) + " "))
		return err == nil && s.zombie
	})
	for range 3 {
		got := reading(t, tree)
		wantNear(t, "cpu", got["cpu_seconds"], user+system)
		if got["processes"] != 1 || got["rss_bytes"] != 0 {
			t.Errorf("%v; want one process without memory", got)
		}
	}
}

func TestNoSuchProcess(t *testing.T) {
	c := exec.Command("true")
	if err := c.Run(); err != nil {
		t.Fatal(err)
	}
	_, err := NewTree("target", c.Process.Pid)
	var u *Unavailable
	if !errors.As(err, &u) || u.Observer != "target" || u.Reason.Kind == "" || u.Remedy.Kind == "" {
		t.Errorf("%v; want an *Unavailable with reason and remedy", err)
	}
}

// A kernel that does not tell threads' waits still tells their switches.
func TestTreeWithoutWaits(t *testing.T) {
	c := roles.Start(t, roles.Command("threads"))
	tree := newTestTree(t, c.Process.Pid)
	tree.waits = false
	c.Line(t)
	row := reading(t, tree)
	if voluntary := row["voluntary_switches"]; !(voluntary >= 500) {
		t.Errorf("%v voluntary switches after 500 sleeps", voluntary)
	}
	if wait := row["run_queue_wait_seconds"]; !math.IsNaN(wait) {
		t.Errorf("a wait of %v", wait)
	}
}

// Without enough descriptors for a tree, it is not taken for a smaller one.
func TestTreeWithoutDescriptors(t *testing.T) {
	c := roles.Start(t, exec.Command("sh", "-c", "sleep 1000 & echo up; wait"))
	t.Cleanup(func() { killBelow(t, c.Process.Pid) })
	c.Line(t)
	var was syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &was); err != nil {
		t.Fatal(err)
	}
	limited := func(n int, do func()) {
		l := was
		l.Cur = uint64(n)
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &l); err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &was); err != nil {
				t.Fatal(err)
			}
		}()
		do()
	}
	for _, lists := range []bool{true, false} {
		enough := false
		for n := 3; n < 64 && !enough; n++ {
			tree := newTestTree(t, c.Process.Pid)
			tree.listsChildren = tree.listsChildren && lists
			row := make([]float64, treeColumns)
			var err error
			limited(n, func() { err = tree.Observe(row) })
			if enough = err == nil; enough && row[4] != 2 {
				t.Errorf("with %d descriptors there are %v processes and no error", n, row[4])
			}
			if err := tree.Close(); err != nil {
				t.Error(err)
			}
		}
		if !enough {
			t.Error("64 descriptors are too few")
		}
	}
}

func TestOtherUsersProcess(t *testing.T) {
	cmd := exec.Command("/proc/self/exe", "denied")
	if os.Getuid() == 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if got, want := string(out), "<nil> true NaN\n"; got != want {
		t.Errorf("%q; want %q: CPU time known, descriptors not", got, want)
	}
}

func TestCloseGivesEverythingBack(t *testing.T) {
	count := func() int {
		list, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(list)
	}
	before := count()
	for range 3 {
		g, err := NewGenerator(os.Getpid())
		if err != nil {
			t.Fatal(err)
		}
		_ = g.Observe(make([]float64, len(g.Columns())))
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	}
	if after := count(); after != before {
		t.Errorf("%d descriptors before, %d after", before, after)
	}
}

func TestGenerator(t *testing.T) {
	tid := os.Getpid() // the main thread
	g, err := NewGenerator(tid)
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	// A child's time is not the generator's.
	c := roles.Start(t, roles.Command("burn"))
	user, system := burnt(t, c.Line(t))
	if err := c.Stdin.Close(); err != nil {
		t.Fatal(err)
	}
	_ = c.Wait()
	var before, after syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &before); err != nil {
		t.Fatal(err)
	}
	got := reading(t, g)
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &after); err != nil {
		t.Fatal(err)
	}
	seconds := func(r syscall.Rusage) float64 { return float64(r.Utime.Nano()+r.Stime.Nano()) / 1e9 }
	if cpu := got["cpu_seconds"]; cpu < seconds(before)-near || cpu > seconds(after)+near {
		t.Errorf("cpu %v s; getrusage says %v to %v (the child used %v)", cpu, seconds(before), seconds(after), user+system)
	}
	if got["processes"] != 1 {
		t.Errorf("%v processes; want 1", got["processes"])
	}
	if w := got["worker0_cpu_seconds"]; !(w > 0 && w <= got["cpu_seconds"]+near) {
		t.Errorf("worker %v s of %v", w, got["cpu_seconds"])
	}
	if w := got["worker0_run_queue_wait_seconds"]; !(w >= 0) {
		t.Errorf("worker waited %v s", w)
	}
	var u *Unavailable
	if _, err := NewGenerator(math.MaxInt32); !errors.As(err, &u) {
		t.Errorf("a thread that there is not: %v; want an *Unavailable", err)
	}
	names := make([]string, 0)
	for _, c := range g.Columns() {
		names = append(names, c.Name)
	}
	if slices.Contains(names, "") || len(slices.Compact(slices.Sorted(slices.Values(names)))) != len(names) {
		t.Errorf("names %q", names)
	}
}

// Several processes make one load: what they use is added up, also when one has ended.
func TestGeneratorOfSeveralProcesses(t *testing.T) {
	other := roles.Start(t, roles.Command("burn"))
	line := other.Line(t)
	user, system := burnt(t, line)
	var ignored, tid int
	if _, err := fmt.Sscan(line, &ignored, &ignored, &tid); err != nil {
		t.Fatal(err)
	}
	g, err := NewGenerator(os.Getpid(), tid)
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	both := reading(t, g)
	if both["processes"] != 2 || both["threads"] < 2 {
		t.Errorf("%v processes, %v threads", both["processes"], both["threads"])
	}
	if w := both["worker1_cpu_seconds"]; math.Abs(w-user-system) > 0.5*(user+system) {
		t.Errorf("the other's worker used %v s, want about %v", w, user+system)
	}
	if cpu := both["cpu_seconds"]; cpu < user+system || math.Abs(g.CPUSeconds()-cpu) > 1e-9 {
		t.Errorf("%v s in both, and %v in one of them", cpu, user+system)
	}
	if err := other.Stdin.Close(); err != nil {
		t.Fatal(err)
	}
	_ = other.Wait()
	if after := reading(t, g); after["processes"] != 1 || after["cpu_seconds"] < both["cpu_seconds"] || !math.IsNaN(after["worker1_cpu_seconds"]) {
		t.Errorf("when one had ended: %v", after)
	}
}

// The processes of a control group are those that its folder lists, and the folders below it. Children that it does not
// list do not count.
func TestTreeInGroup(t *testing.T) {
	if tree, err := NewTreeIn("target", t.TempDir()); err == nil {
		t.Error("a group without a list of processes", tree)
	}
	group := t.TempDir()
	below := filepath.Join(group, "below")
	write := func(folder string, pids ...int) {
		t.Helper()
		text := "0\n" // one of another name space
		for _, pid := range pids {
			text += strconv.Itoa(pid) + "\n"
		}
		if err := os.WriteFile(filepath.Join(folder, processFile), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(group)
	if err := os.Mkdir(below, 0o700); err != nil {
		t.Fatal(err)
	}
	tree, err := NewTreeIn("target", group)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tree.Close() }()
	if n := reading(t, tree)["processes"]; n != 0 {
		t.Errorf("%v processes", n)
	}
	write(group, os.Getpid())
	child := exec.CommandContext(t.Context(), "sleep", "600")
	if err := child.Start(); err != nil { // with that, there is something new
		t.Fatal(err)
	}
	defer func() {
		_ = child.Process.Kill()
		_ = child.Wait() // it was killed
	}()
	got := reading(t, tree)
	if got["processes"] != 1 || !(got["cpu_seconds"] > 0) || !(got["rss_bytes"] > 0) {
		t.Errorf("%v", got)
	}
	write(below, child.Process.Pid)
	tree.dirty = true // no fork happened
	if n := reading(t, tree)["processes"]; n != 2 {
		t.Errorf("%v processes", n)
	}

	other := t.TempDir()
	if tree, err := NewTreeIn("target", below, other); err == nil {
		t.Error("one of two groups without a list of processes", tree)
	}
	write(other, os.Getpid())
	both, err := NewTreeIn("target", below, other)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = both.Close() }()
	if n := reading(t, both)["processes"]; n != 2 {
		t.Errorf("%v processes in two groups", n)
	}
}
