package calibrate

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// hang is how long a test waits for what must happen at once.
const hang = time.Minute

func TestChild(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), hang)
	defer cancel()
	f, err := child{args: []string{"sh", "-c", "echo out; echo err >&2; exit 4"}, accept: []int{4}}.run(ctx)
	if err != nil || string(f.stdout) != "out\n" || f.wall <= 0 {
		t.Errorf("%q, %v", f.stdout, err)
	}
	if _, err := (child{args: []string{"sh", "-c", "echo first >&2; echo why >&2; exit 3"}}).run(ctx); err == nil || !strings.HasSuffix(err.Error(), "exit status 3: why") {
		t.Errorf("%v: want the exit status and the last line", err)
	}
	if _, err := (child{args: []string{"/does/not/exist"}}).run(ctx); err == nil {
		t.Error("started what does not exist")
	}
	ended, end := context.WithCancelCause(ctx)
	cause := errors.New("enough")
	started := child{args: []string{"sleep", "600"}, during: func(*os.Process) { end(cause) }}
	if _, err := started.run(ended); !errors.Is(err, cause) {
		t.Errorf("%v, want the context's cause", err)
	}
}

func TestBounded(t *testing.T) {
	var kept strings.Builder
	b := &bounded{&kept, 5}
	for _, s := range []string{"abc", "def", "ghi"} {
		if n, err := io.WriteString(b, s); n != 3 || err != nil {
			t.Errorf("%d, %v", n, err)
		}
	}
	if kept.String() != "abcde" {
		t.Errorf("kept %q", kept.String())
	}
}

// A process that is stopped and continued goes on, and is left running.
func TestDutyCycle(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), "cat")
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
	ctx, cancel := context.WithCancel(t.Context())
	cycled := make(chan struct{})
	go func() {
		dutyCycle(ctx, cmd.Process, 0.2)
		close(cycled)
	}()
	lines := bufio.NewScanner(out)
	say := func(i int) {
		t.Helper()
		if _, err := fmt.Fprintln(in, i); err != nil {
			t.Fatal(err)
		}
		if !lines.Scan() || lines.Text() != fmt.Sprint(i) {
			t.Fatalf("%q, %v", lines.Text(), lines.Err())
		}
	}
	for i := range 20 {
		say(i)
	}
	cancel()
	<-cycled
	say(20)
	if err := errors.Join(in.Close(), cmd.Wait()); err != nil {
		t.Error(err)
	}
}

func TestHierarchies(t *testing.T) {
	const v1 = `proc /proc proc rw 0 0
cgroup /sys/fs/cgroup/cpuset cgroup rw,cpuset 0 0
cgroup /sys/fs/cgroup/cpu,cpuacct cgroup rw,nosuid,cpu,cpuacct 0 0
cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0
`
	for _, c := range []struct {
		mounts, own string
		want        []hierarchy
	}{
		{v1, "4:cpuset:/\n3:cpu,cpuacct:/user/a\n0::/b\n", []hierarchy{{"/sys/fs/cgroup/cpu,cpuacct/user/a", false}, {"/sys/fs/cgroup/unified/b", true}}},
		{"cgroup2 /sys/fs/cgroup cgroup2 rw,nsdelegate 0 0\n", "0::/user.slice/x.scope\n", []hierarchy{{"/sys/fs/cgroup/user.slice/x.scope", true}}},
		{"proc /proc proc rw 0 0\n", "0::/\n", nil},
		{"short\n", "odd\n", nil},
	} {
		if diff := cmp.Diff(c.want, hierarchies(c.mounts, c.own), cmp.AllowUnexported(hierarchy{})); diff != "" {
			t.Error(diff)
		}
	}
	if q := quotaMicroseconds(0.2); q != 20000 {
		t.Errorf("a fifth is %d µs of 100,000", q)
	}
	if q := quotaMicroseconds(0.0001); q != 1000 {
		t.Errorf("the least is %d µs", q)
	}
}

// A group is made and removed where that is permitted, and leaves nothing where
// it is not.
func TestGroup(t *testing.T) {
	g, err := newGroup()
	if err != nil {
		t.Skipf("control groups cannot be written here: %v", err)
	}
	defer func() {
		if err := g.remove(); err != nil {
			t.Error(err)
		}
	}()
	if err := g.limit(0.5); err != nil {
		t.Error(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), hang)
	defer cancel()
	f, err := child{args: []string{"sh", "-c", `echo $$ >"$0" && cat /proc/self/cgroup`, g.processes()}}.run(ctx)
	if err != nil || !strings.Contains(string(f.stdout), "dyno-calibrate-") {
		t.Errorf("%s, %v", f.stdout, err)
	}
}
