package manual

import (
	"bufio"
	"context"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"dyno/internal/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

// hangGuard bounds what the commands of a page take. It is no expectation of speed.
const hangGuard = 5 * time.Minute

// disturbance is in what dyno prints if the machine disturbed a load. Such output says nothing about the page.
var disturbance = regexp.MustCompile(`(?i)(have|were|was) disturbed|other programs .*(took|used)|work to do and no CPU|something else had the CPU|host took the CPUs|(generator|dyno) was the limit`)

// measured are dyno's exit codes after a load: done, invalid, a regression, a broken threshold.
var measured = []int{0, 4, 5, 99}

// documents is the folder of the pages.
const documents = "../../docs"

// long are the pages whose loads take time, by the beginnings of their names. -short leaves them out.
var long = regexp.MustCompile(`^(how-to/|explanation/|tutorial\.)`)

// TestPages runs the commands of all pages.
func TestPages(t *testing.T) {
	pages := readPages(t)
	programs := build(t)
	run, notRun := 0, 0
	for _, name := range slices.Sorted(maps.Keys(pages)) {
		p := pages[name]
		notRun += p.notRun
		original, translated := strings.CutSuffix(name, ".zh.md")
		if len(p.steps) == 0 || translated && reflect.DeepEqual(commands(p), commands(pages[original+".md"])) {
			continue
		}
		run += len(commands(p))
		t.Run(name, func(t *testing.T) {
			if testing.Short() && long.MatchString(name) {
				t.Skip("-short: scripts/nightly.sh runs it")
			}
			carryOut(t, p, programs)
		})
	}
	t.Logf("%d commands; %d are not run", run, notRun)
}

// readPages returns the pages by their names below docs.
func readPages(t *testing.T) map[string]page {
	pages := map[string]page{}
	err := filepath.WalkDir(documents, func(path string, d fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".md" {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(documents, path)
		if err != nil {
			return err
		}
		if pages[name], err = readPage(string(text)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return pages
}

// commands returns the steps of a page without their places, and without the files, in which comments
// are translated.
func commands(p page) (all []step) {
	for _, s := range p.steps {
		if s.line = 0; s.file == "" {
			all = append(all, s)
		}
	}
	return all
}

// build returns the folder with the programs, where make build writes them: what is there is not linked again.
// DYNO_PROGRAMS names another folder, of a dyno that is installed (scripts/bare.sh).
func build(t *testing.T) string {
	if installed := os.Getenv("DYNO_PROGRAMS"); installed != "" {
		return installed
	}
	dir, err := filepath.Abs("../../bin")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "go", "build", "-o", "bin/", "./cmd/...")
	cmd.Dir = "../.."
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-trimpath")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return dir
}

// carryOut runs a page. It fails the test at the first command that does not do what the page says.
func carryOut(t testing.TB, p page, programs string) {
	t.Helper()
	s := open(t, programs)
	defer s.end()
	disturbed := false // a load was: what later commands make of it says nothing either
	for _, step := range p.steps {
		if step.file != "" {
			t.Logf("a file: %s", step.file)
			path := filepath.Join(s.folder, step.file)
			if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(step.text), 0o600); err != nil {
				t.Fatal(err)
			}
			continue
		}
		var output []string
		var code int
		var err error
		if step.background() {
			output, err = s.begin(step)
		} else {
			output, code, err = s.run(step.command)
		}
		t.Logf("exit code %d: $ %s", code, step.command) // scripts/bare.sh prints these lines
		printed := strings.Join(output, "\n")
		disturbed = disturbed || disturbance.MatchString(printed)
		failure := ""
		switch {
		case err != nil:
			failure = fmt.Sprintf("%v; it printed:\n%s", err, printed)
		case code != step.code:
			failure = fmt.Sprintf("exit code %d, want %d; it printed:\n%s", code, step.code, printed)
		case len(step.output) > 0 && !matches(step.output, output):
			failure = fmt.Sprintf("it printed\n%s\nand the page shows\n%s", printed, strings.Join(step.output, "\n"))
		default:
			continue
		}
		failure = fmt.Sprintf("line %d: $ %s: %s", step.line, step.command, failure)
		if err != nil || !slices.Contains(measured, code) || !disturbed {
			t.Fatalf("%s%s", failure, s.logged())
		}
		t.Logf("not compared, because the machine disturbed the load: %s", failure)
	}
}

// A session is the shell of a page.
type session struct {
	t        testing.TB
	shell    *exec.Cmd
	folder   string
	logs     []string // of commands in the background
	commands *os.File
	output   *bufio.Reader
	cancel   func()
}

// loop carries out commands, which a byte of zero ends. After the output of each it writes such a byte, the
// exit code, and another one.
const loop = `while IFS= read -r -d '' command <&3; do
	eval "$command" </dev/null 3<&-
	printf '\0%d\0' $?
done 2>&1`

// open starts a shell in an empty folder. Where that is possible, it has a network of its own, in which all ports
// are free.
func open(t testing.TB, programs string) *session {
	t.Helper()
	s := &session{t: t, folder: t.TempDir()}
	commands, toShell, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	fromShell, output, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), hangGuard)
	s.shell = exec.CommandContext(ctx, "bash", "-c", loop)
	s.shell.Dir = s.folder
	s.shell.Env = []string{"PATH=" + programs + ":" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "LANG=C.UTF-8", "DYNO_QUIET_WAIT=0"}
	s.shell.Stdout, s.shell.ExtraFiles = output, []*os.File{commands}
	s.shell.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	s.shell.Cancel = s.kill
	isolated := isolates()
	if isolated {
		s.shell.SysProcAttr.Cloneflags = syscall.CLONE_NEWNET
	}
	if err := s.shell.Start(); err != nil {
		t.Fatal(err)
	}
	_, _ = commands.Close(), output.Close()
	s.commands, s.output, s.cancel = toShell, bufio.NewReader(fromShell), func() { cancel(); _ = fromShell.Close() }
	if isolated {
		if out, code, err := s.run("ip link set lo up"); code != 0 || err != nil {
			t.Fatal(out, err)
		}
	}
	return s
}

// isolates tells whether this process may give another one a network of its own.
func isolates() bool {
	cmd := exec.Command("ip", "link", "set", "lo", "up")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	return cmd.Run() == nil
}

// run carries out a command to its end.
func (s *session) run(command string) (output []string, code int, err error) {
	if _, err := s.commands.WriteString(command + "\x00"); err != nil {
		return nil, 0, err
	}
	printed, err := s.output.ReadString(0)
	if err != nil {
		return split(printed), 0, fmt.Errorf("the shell ended, or it took more than %v: %w", hangGuard, err)
	}
	status, err := s.output.ReadString(0)
	if err != nil {
		return nil, 0, err
	}
	code, err = strconv.Atoi(strings.TrimSuffix(status, "\x00"))
	return split(strings.TrimSuffix(printed, "\x00")), code, err
}

// begin starts a command in the background, and waits for its output.
func (s *session) begin(of step) (output []string, err error) {
	log := filepath.Join(s.t.TempDir(), "log")
	s.logs = append(s.logs, log)
	if err := os.WriteFile(log, nil, 0o600); err != nil {
		return nil, err
	}
	if _, _, err := s.run(">" + log + " 2>&1 " + of.command); err != nil {
		return nil, err
	}
	if len(of.output) == 0 {
		_, _, err = s.run("for _ in {1..150}; do [ -s " + log + " ] && break; sleep 0.02; done")
		return nil, err
	}
	for end := time.Now().Add(hangGuard / 4); ; {
		text, err := os.ReadFile(log)
		if output = split(string(text)); err != nil || matches(of.output, output) || time.Now().After(end) {
			return output, err
		}
		if _, _, err := s.run("sleep 0.02"); err != nil {
			return output, err
		}
	}
}

// logged returns what commands in the background have printed.
func (s *session) logged() (all string) {
	for _, log := range s.logs {
		text, err := os.ReadFile(log)
		all += fmt.Sprintf("\nin the background:\n%s", text)
		if err != nil {
			all += err.Error()
		}
	}
	return all
}

// end ends the shell and all commands in the background.
func (s *session) end() {
	_, _, _ = s.run("kill $(jobs -p) 2>/dev/null; wait")
	_ = s.commands.Close()
	_ = s.kill()
	_ = s.shell.Wait()
	s.cancel()
}

// kill ends the processes of the shell's group.
func (s *session) kill() error { return syscall.Kill(-s.shell.Process.Pid, syscall.SIGKILL) }

// TestSession: commands share a shell and its folder, and none outlives it.
func TestSession(t *testing.T) {
	const (
		file  = "```sh title=\"in/say.sh\"\necho ready\nsleep 60\n```\n"
		block = "```console\n%s\n```\n"
	)
	for _, c := range []struct{ text, want string }{
		{"$ sh in/say.sh &\nready\n$ a=5; cd in; ls\nsay.sh\n$ echo $a; cat; sh -c 'exit 7'\n5\n[exit code 7]", ""},
		{"$ sh in/say.sh & \n$ kill $!; wait $!\n[exit code 143]", ""},
		{"$ echo 5\nfive", "line 6: $ echo 5: it printed\n5\nand the page shows\nfive"},
		{"$ echo a; false", "line 6: $ echo a; false: exit code 1, want 0; it printed:\na"},
		{"$ true\n[exit code 4]", "exit code 0, want 4"},
		{"$ exit 3", "the shell ended"},
		{"$ sh in/say.sh &\n$ false", "in the background:\nready"},
		{"$ echo Other programs took CPU time.\nfast\n$ echo a\nb", ""},
		{"$ echo Other programs took CPU time.\n$ exit 1", "the shell ended"},
		{"$ echo Other programs took CPU time.; sh -c 'exit 4'\n[exit code 5]", ""},
		{"$ echo Other programs took CPU time.; sh -c 'exit 2'\n[exit code 5]", "exit code 2, want 5"},
	} {
		p, err := readPage(file + fmt.Sprintf(block, c.text))
		if err != nil {
			t.Fatal(err)
		}
		r := &recorder{TB: t}
		done := make(chan struct{})
		go func() { // which Fatalf ends
			defer close(done)
			carryOut(r, p, "/nowhere")
		}()
		if <-done; c.want == "" && r.failure != "" || !strings.Contains(r.failure, c.want) {
			t.Errorf("%s: %q, want %q", c.text, r.failure, c.want)
		}
	}
}

// A recorder takes what a test fails with.
type recorder struct {
	testing.TB
	failure string
}

func (r *recorder) Fatalf(format string, args ...any) {
	r.failure = fmt.Sprintf(format, args...)
	runtime.Goexit()
}
