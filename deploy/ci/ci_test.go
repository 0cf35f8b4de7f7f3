// Package ci_test runs the shell of the action and of the template for pipelines, as a runner would: with a
// real comparison of two commits, and with stand-ins for the servers that comments are written to.
package ci_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"dyno/internal/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

// options make the comparison short: its verdict is the machine's.
const options = "-c 2 --rounds 2 -z 200ms --warmup 0 --remeasure=false --control=false"

// codes are the possible exit codes of a comparison of two good servers. A busy machine may leave one without a CPU
// for the whole window.
var codes = []string{"0", "3", "4", "5"}

// A step is one of a composite action.
type step struct {
	Name, ID, If, Uses, Shell, Run string
	Env, With                      map[string]string
}

// An action is action.yml.
type action struct {
	Inputs  map[string]struct{ Description, Default string }
	Outputs map[string]struct{ Value string }
	Runs    struct {
		Using string
		Steps []step
	}
}

// A template is the job of gitlab.yml.
type template struct {
	Job struct {
		Variables    map[string]string
		Script       []string
		AllowFailure struct {
			ExitCodes int `yaml:"exit_codes"`
		} `yaml:"allow_failure"`
		Artifacts struct {
			When    string
			Paths   []string
			Reports struct{ Junit string }
		}
	} `yaml:".dyno-compare"`
}

func read(t *testing.T, file string, into any) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err == nil {
		err = yaml.Unmarshal(text, into)
	}
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
}

func readAction(t *testing.T) (a action) {
	t.Helper()
	read(t, "action.yml", &a)
	return a
}

func readTemplate(t *testing.T) (g template) {
	t.Helper()
	read(t, "gitlab.yml", &g)
	return g
}

// A machine is a runner's: a folder for it, and the values that expressions in braces have.
type machine struct {
	t      *testing.T
	dir    string // the checkout
	env    []string
	values map[string]string
}

var expression = regexp.MustCompile(`\$\{\{ *(.*?) *\}\}`)

// expand replaces expressions by their values.
func (m *machine) expand(text string) string {
	m.t.Helper()
	return expression.ReplaceAllStringFunc(text, func(found string) string {
		name := expression.FindStringSubmatch(found)[1]
		value, ok := m.values[name]
		if !ok {
			m.t.Errorf("nothing is known of %s", name)
		}
		return value
	})
}

// shell runs a script as runners do, and returns what it printed and its exit code.
func (m *machine) shell(dir, script string, env ...string) (out string, code int) {
	m.t.Helper()
	file := filepath.Join(m.t.TempDir(), "script.sh")
	if err := os.WriteFile(file, []byte(script), 0o600); err != nil {
		m.t.Fatal(err)
	}
	cmd := exec.CommandContext(m.t.Context(), "bash", "--noprofile", "--norc", "-eo", "pipefail", file)
	cmd.Dir, cmd.Env = dir, slices.Concat(os.Environ(), m.env, env)
	text, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		m.t.Fatal(err)
	}
	return string(text), cmd.ProcessState.ExitCode()
}

// step runs a step of the action, which must end with a code, and learns its outputs.
func (m *machine) step(s step, want int) string {
	m.t.Helper()
	outputs := filepath.Join(m.t.TempDir(), "outputs")
	env := []string{"GITHUB_OUTPUT=" + outputs}
	for name, value := range s.Env {
		env = append(env, name+"="+m.expand(value))
	}
	out, code := m.shell(m.dir, s.Run, env...)
	if code != want {
		m.t.Fatalf("%s: exit code %d, want %d:\n%s", s.Name, code, want, out)
	}
	text, err := os.ReadFile(outputs)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		m.t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		m.values["steps."+s.ID+".outputs."+name] = value
	}
	return out
}

// server is a server whose answer a change changes.
const server = `package main

import (
	"flag"
	"io"
	"net/http"
)

func main() {
	listen := flag.String("listen", "", "")
	flag.Parse()
	http.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "base") })
	panic(http.ListenAndServe(*listen, nil))
}
`

// plan is an experiment with both.
const plan = `name: both
target:
  protocol: http
  start: ["./{{side}}/server", --listen, "127.0.0.1:{{port}}"]
  ready: /
load: {closed: {connections: 2}, warmup: 0, window: 200ms}
design: {rounds: 2, remeasure: false, control: false}
compare:
  base: base
  variants: {base: {side: base}, head: {side: head}}
`

// git runs git in a folder, as nobody in particular.
func git(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1", "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@b.c", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@b.c")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %q: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(text), 0o644)); err != nil {
		t.Fatal(err)
	}
}

// checkout is a repository of two commits as a runner has it: only the newer one is there.
func checkout(t *testing.T) (dir, base, head string) {
	t.Helper()
	origin := t.TempDir()
	git(t, origin, "init", "--quiet", "--initial-branch=main")
	write(t, filepath.Join(origin, "go.mod"), "module server\n\ngo 1.21\n")
	write(t, filepath.Join(origin, "main.go"), server)
	git(t, origin, "add", ".")
	git(t, origin, "commit", "--quiet", "--message=base")
	base = git(t, origin, "rev-parse", "HEAD")
	write(t, filepath.Join(origin, "main.go"), strings.Replace(server, `"base")`, `"head")`, 1))
	write(t, filepath.Join(origin, "load/both.yaml"), plan)
	git(t, origin, "add", ".")
	git(t, origin, "commit", "--quiet", "--message=head")
	head = git(t, origin, "rev-parse", "HEAD")
	dir = filepath.Join(t.TempDir(), "checkout")
	git(t, origin, "clone", "--quiet", "--depth=1", "file://"+origin, dir)
	return dir, base, head
}

// compared fails if a run folder is not of two variants that were both measured.
func compared(t *testing.T, dir string, names ...string) {
	t.Helper()
	var run struct {
		Complete bool
		Variants []struct {
			Name   string
			Trials int
		}
	}
	text, err := os.ReadFile(filepath.Join(dir, "run.json"))
	if err == nil {
		err = json.Unmarshal(text, &run)
	}
	if err != nil {
		t.Fatal(err)
	}
	var measured []string
	for _, v := range run.Variants {
		if v.Trials == 2 {
			measured = append(measured, v.Name)
		}
	}
	if !run.Complete || !slices.Equal(measured, names) {
		t.Errorf("complete: %v, and 2 trials of %q; want %q", run.Complete, measured, names)
	}
}

// differ fails if two builds are not those of the two commits.
func differ(t *testing.T, dir string) {
	t.Helper()
	for _, side := range []string{"base", "head"} {
		text, err := os.ReadFile(filepath.Join(dir, side, "main.go"))
		if err != nil || !strings.Contains(string(text), `"`+side+`")`) {
			t.Errorf("%s is not the commit meant: %v\n%s", side, err, text)
		}
		if _, err := os.Stat(filepath.Join(dir, side, "server")); err != nil {
			t.Error(err)
		}
	}
}

func contents(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// fakeGh replaces GitHub's gh in the action. It keeps the comments of one pull request in a file.
const fakeGh = `#!/bin/sh
set -eu
method=GET
[ -n "$GH_TOKEN" ] && [ "$1" = api ] && shift
while [ $# -gt 0 ]; do
	case $1 in
	--silent | --paginate) ;;
	--method) method=$2 && shift ;;
	--jq) query=$2 && shift ;;
	--field) file=${2#body=@} && shift ;;
	-*) exit 2 ;;
	*) path=$1 ;;
	esac
	shift
done
case "$method $path" in
"GET repos/owner/name/issues/7/comments") jq -r "$query" "$COMMENTS" ;;
"POST repos/owner/name/issues/7/comments") new=$(jq --rawfile body "$file" '. + [{id: (length + 1), user: {type: "Bot"}, body: $body}]' "$COMMENTS") ;;
"PATCH repos/owner/name/issues/comments/"*) new=$(jq --argjson id "${path##*/}" --rawfile body "$file" 'map(if .id == $id then .body = $body else . end)' "$COMMENTS") ;;
*) exit 1 ;;
esac
[ "$method" = GET ] || printf '%s\n' "$new" >"$COMMENTS"
`

// needJq skips a test where jq is missing: the script for GitLab runs it, and so does what stands in for gh,
// which has a jq built in.
func needJq(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("jq"); err != nil {
		t.Skip("the scripts read answers of GitHub and GitLab with jq, which is not installed: apt-get install jq")
	}
}

func TestAction(t *testing.T) {
	needJq(t)
	a := readAction(t)
	dir, base, head := checkout(t)
	temp, bin := t.TempDir(), t.TempDir()
	here, err := filepath.Abs(".")
	if err != nil {
		t.Fatal(err)
	}
	comments, summary := filepath.Join(temp, "comments.json"), filepath.Join(temp, "summary")
	write(t, filepath.Join(bin, "gh"), fakeGh)
	if err := os.Chmod(filepath.Join(bin, "gh"), 0o700); err != nil {
		t.Fatal(err)
	}
	foreignComment := `{"id":1,"user":{"type":"User"},"body":"<!-- dyno compare: dyno -->"}`
	write(t, comments, "["+foreignComment+"]")
	m := &machine{t: t, dir: dir, env: []string{"PATH=" + bin + ":" + os.Getenv("PATH"), "COMMENTS=" + comments, "GITHUB_STEP_SUMMARY=" + summary, "GITHUB_REPOSITORY=owner/name", "DYNO_QUIET_WAIT=0"},
		values: map[string]string{
			"runner.temp": temp, "github.action_path": here, "github.sha": head, "github.event.pull_request.base.sha": base,
			"github.event.pull_request.number": "7", "github.token": "token",
		}}
	for name, i := range a.Inputs {
		m.values["inputs."+name] = m.expand(i.Default)
	}
	m.values["inputs.build"] = "go build -o server ."
	m.values["inputs.start"] = "./server --listen '127.0.0.1:{{port}}'"
	m.values["inputs.options"] = options

	work := filepath.Join(temp, "dyno")
	steps := map[string]step{}
	for _, s := range a.Runs.Steps {
		steps[s.Name] = s
		switch s.Name {
		case "artefact":
			if !regexp.MustCompile(`^actions/upload-artifact@[0-9a-f]{40}$`).MatchString(s.Uses) {
				t.Errorf("%s is not pinned", s.Uses)
			}
			for _, file := range strings.Fields(m.expand(s.With["path"])) {
				if _, err := os.Stat(file); err != nil {
					t.Error(err)
				}
			}
		case "verdict":
			for code, want := range map[string]int{"0": 0, "4": 0, "5": 5, "99": 99, "3": 3} {
				m.values["steps.compare.outputs.code"] = code
				if out := m.step(s, want); (code == "0") != (out == "") {
					t.Errorf("code %s: %q", code, out)
				}
			}
		default:
			m.step(s, 0)
		}
		switch s.Name {
		case "build":
			differ(t, work)
		case "compare":
			if code := m.values["steps.compare.outputs.code"]; !slices.Contains(codes, code) {
				t.Fatalf("exit code %s", code)
			}
			compared(t, filepath.Join(work, "run"), "a", "b")
		case "report":
			if text := contents(t, summary); !strings.HasPrefix(text, "## compare\n") || !strings.Contains(text, "\n| metric | variant |") {
				t.Errorf("the job's summary:\n%s", text)
			}
		}
	}
	for name, o := range a.Outputs {
		if m.expand(o.Value) == "" {
			t.Errorf("the output %s is empty", name)
		}
	}

	// A later run rewrites its comment, and leaves those of others.
	write(t, filepath.Join(work, "report.md"), "later\n")
	m.step(steps["comment"], 0)
	var left []struct {
		ID   int
		Body string
	}
	if err := json.Unmarshal([]byte(contents(t, comments)), &left); err != nil {
		t.Fatal(err)
	}
	if len(left) != 2 || left[0].Body != "<!-- dyno compare: dyno -->" || left[1].Body != "<!-- dyno compare: dyno -->\nlater\n" {
		t.Errorf("comments: %+v", left)
	}
	m.values["github.event.pull_request.number"] = "8"
	if out := m.step(steps["comment"], 0); !strings.Contains(out, "::warning title=dyno::there is no comment") {
		t.Errorf("without the right to comment: %q", out)
	}

	// An experiment file in place of a command; and a command that does not start.
	if err := os.RemoveAll(filepath.Join(work, "run")); err != nil {
		t.Fatal(err)
	}
	m.values["inputs.experiment"], m.values["inputs.options"] = "load/both.yaml", ""
	m.step(steps["compare"], 0)
	if code := m.values["steps.compare.outputs.code"]; !slices.Contains(codes, code) {
		t.Errorf("of an experiment: exit code %s", code)
	}
	compared(t, filepath.Join(work, "run"), "base", "head")
	if err := os.RemoveAll(filepath.Join(work, "run")); err != nil {
		t.Fatal(err)
	}
	m.values["inputs.experiment"], m.values["inputs.options"] = "", "--no-such-flag"
	m.step(steps["compare"], 0)
	if code := m.values["steps.compare.outputs.code"]; code != "2" {
		t.Errorf("of a flag that there is not: exit code %s", code)
	}
	m.step(steps["report"], 0)
	if text := contents(t, filepath.Join(work, "report.md")); !strings.Contains(text, "measured nothing") {
		t.Errorf("the report of no run: %s", text)
	}

	// A commit that is not named, and dyno from elsewhere: what comes must have its sum.
	m.values["inputs.base"] = ""
	if out := m.step(steps["build"], 2); !strings.Contains(out, "base is empty") {
		t.Errorf("without a base: %s", out)
	}
	program := filepath.Join(temp, "program")
	write(t, program, "#!/bin/sh\n")
	sum := sha256.Sum256([]byte("#!/bin/sh\n"))
	m.values["inputs.dyno-url"], m.values["inputs.dyno-sha256"] = "file://"+program, hex.EncodeToString(sum[:])
	m.step(steps["dyno"], 0)
	m.values["inputs.dyno-sha256"] = strings.Repeat("0", 64)
	m.step(steps["dyno"], 1)
}

// Inputs reach the shell as environment variables only, where no value can become a command.
func TestActionIsClosed(t *testing.T) {
	a := readAction(t)
	text := contents(t, "action.yml")
	for _, s := range a.Runs.Steps {
		if expression.MatchString(s.Run) || s.Run != "" && s.Shell != "bash" || (s.Run == "") == (s.Uses == "") {
			t.Errorf("%s: want a script for bash without expressions, or an action", s.Name)
		}
	}
	for name, i := range a.Inputs {
		if i.Description == "" || !strings.Contains(text, "inputs."+name) {
			t.Errorf("%s: want a description, and somebody who reads it", name)
		}
	}
	for _, found := range regexp.MustCompile(`inputs\.([a-z0-9-]+)`).FindAllStringSubmatch(text, -1) {
		if _, ok := a.Inputs[found[1]]; !ok {
			t.Errorf("there is no input %s", found[1])
		}
	}
	var example struct {
		Jobs struct{ Compare struct{ Steps []step } }
	}
	read(t, "pull-request.yml", &example)
	for name := range example.Jobs.Compare.Steps[1].With {
		if _, ok := a.Inputs[name]; !ok {
			t.Errorf("pull-request.yml: there is no input %s", name)
		}
	}
}

// A forge stands in for GitLab's API, with the notes of one merge request.
type forge struct{ notes []note }

type note struct {
	ID     int            `json:"id"`
	Author map[string]int `json:"author"`
	Body   string         `json:"body"`
}

func (f *forge) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	const notes = "/projects/3/merge_requests/7/notes"
	id, isNote := strings.CutPrefix(r.URL.Path, notes+"/")
	switch {
	case r.Header.Get("PRIVATE-TOKEN") != "secret":
		w.WriteHeader(http.StatusUnauthorized)
	case r.URL.Path == "/user":
		fmt.Fprint(w, `{"id": 5}`)
	case r.URL.Path == notes && r.Method == http.MethodGet:
		_ = json.NewEncoder(w).Encode(f.notes) // the script notices what does not arrive
	case r.URL.Path == notes:
		f.notes = append(f.notes, note{ID: len(f.notes) + 1, Author: map[string]int{"id": 5}, Body: r.FormValue("body")})
	case isNote && r.Method == http.MethodPut:
		n, err := strconv.Atoi(id)
		if err != nil || n < 1 || n > len(f.notes) {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		f.notes[n-1].Body = r.FormValue("body")
	default:
		w.WriteHeader(http.StatusNotFound)
	}
}

func TestGitLab(t *testing.T) {
	needJq(t)
	g := readTemplate(t)
	dir, base, head := checkout(t)
	marker := "<!-- dyno compare: dyno -->"
	f := &forge{notes: []note{{ID: 1, Author: map[string]int{"id": 4}, Body: marker}}}
	api := httptest.NewServer(f)
	defer api.Close()
	program, err := filepath.Abs("../../bin/dyno") // where make build writes it: what is there is not linked again
	if err != nil {
		t.Fatal(err)
	}
	build := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-o", "bin/", "./cmd/dyno")
	build.Dir, build.Env = "../..", append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	sum := sha256.Sum256([]byte(contents(t, program)))
	values := map[string]string{
		"CI_MERGE_REQUEST_DIFF_BASE_SHA": base, "CI_COMMIT_SHA": head, "CI_SERVER_URL": "https://gitlab.example",
		"CI_API_V4_URL": api.URL, "CI_PROJECT_ID": "3", "CI_MERGE_REQUEST_IID": "7", "DYNO_TOKEN": "secret",
	}
	for name, v := range g.Job.Variables {
		values[name] = os.Expand(v, func(name string) string {
			value, ok := values[name]
			if !ok {
				t.Errorf("nothing is known of %s", name)
			}
			return value
		})
	}
	values["DYNO_BUILD"], values["DYNO_START"], values["DYNO_OPTIONS"] = "go build -o server .", "./server --listen '127.0.0.1:{{port}}'", options
	values["DYNO_DOWNLOAD"], values["DYNO_SHA256"] = "file://"+program, hex.EncodeToString(sum[:])
	m := &machine{t: t, dir: dir}
	env := func(more ...string) (list []string) {
		for name, value := range values {
			list = append(list, name+"="+value)
		}
		return append(list, more...)
	}

	out, code := m.shell(dir, strings.Join(g.Job.Script, "\n"), env()...)
	if !slices.Contains(codes, strconv.Itoa(code)) {
		t.Fatalf("exit code %d:\n%s", code, out)
	}
	work := filepath.Join(dir, "dyno-compare")
	differ(t, work)
	compared(t, filepath.Join(work, "run"), "a", "b")
	for _, file := range append(g.Job.Artifacts.Paths, g.Job.Artifacts.Reports.Junit) {
		if _, err := os.Stat(filepath.Join(dir, file)); err != nil {
			t.Error(err)
		}
	}
	if g.Job.AllowFailure.ExitCodes != 4 || g.Job.Artifacts.When != "always" {
		t.Errorf("an invalid run is a warning, and artefacts are always kept: %+v", g.Job)
	}
	if len(f.notes) != 2 || f.notes[0].Body != marker || !strings.HasPrefix(f.notes[1].Body, marker+"\n## compare\n") {
		t.Fatalf("comments: %+v\n%s", f.notes, out)
	}

	// A later run rewrites its comment, and one without the right to comment says so.
	comment := g.Job.Script[4]
	write(t, filepath.Join(work, "report.md"), "later\n")
	if out, code := m.shell(work, comment, env()...); code != 0 || len(f.notes) != 2 || f.notes[0].Body != marker || f.notes[1].Body != marker+"\nlater\n" {
		t.Errorf("exit code %d, comments: %+v\n%s", code, f.notes, out)
	}
	if out, code := m.shell(work, comment, env("DYNO_TOKEN=another")...); code != 0 || !strings.Contains(out, "there is no comment") {
		t.Errorf("exit code %d:\n%s", code, out)
	}
	if out, code := m.shell(work, comment, env("DYNO_COMMENT=false")...); code != 0 || out != "" {
		t.Errorf("exit code %d:\n%s", code, out)
	}

	// An experiment file, and what is wrong with the inputs.
	if err := os.RemoveAll(filepath.Join(work, "run")); err != nil {
		t.Fatal(err)
	}
	out, code = m.shell(dir, g.Job.Script[2]+"\nexit $code", env("DYNO_EXPERIMENT=load/both.yaml", "DYNO_OPTIONS=")...)
	if !slices.Contains(codes, strconv.Itoa(code)) {
		t.Fatalf("exit code %d:\n%s", code, out)
	}
	compared(t, filepath.Join(work, "run"), "base", "head")
	if out, code := m.shell(dir, g.Job.Script[1], env("DYNO_BASE=")...); code != 2 || !strings.Contains(out, "base is empty") {
		t.Errorf("without a base: exit code %d:\n%s", code, out)
	}
	if out, code := m.shell(dir, g.Job.Script[0], env("DYNO_SHA256="+strings.Repeat("0", 64))...); code == 0 {
		t.Errorf("of another sum than the download's: exit code 0\n%s", out)
	}

	// dyno built from a repository. It stands for dyno's, which needs no building once more.
	source := t.TempDir()
	git(t, source, "init", "--quiet", "--initial-branch=main")
	write(t, filepath.Join(source, "go.mod"), "module dyno\n\ngo 1.21\n")
	write(t, filepath.Join(source, "cmd/dyno/main.go"), "package main\n\nfunc main() {}\n")
	git(t, source, "add", ".")
	git(t, source, "commit", "--quiet", "--message=dyno")
	if out, code := m.shell(dir, g.Job.Script[0]+"\ndyno-compare/dyno", env("DYNO_DOWNLOAD=", "DYNO_SOURCE=file://"+source)...); code != 0 {
		t.Errorf("built from source: exit code %d\n%s", code, out)
	}
}

// Each script is one that shells can read, and that shellcheck has nothing to say about.
func TestScriptsAreSound(t *testing.T) {
	scripts := map[string]string{"gitlab.yml": "#!/bin/sh\nset -e\n" + strings.Join(readTemplate(t).Job.Script, "\n")}
	for _, s := range readAction(t).Runs.Steps {
		if s.Run != "" {
			scripts["action.yml: "+s.Name] = "#!/bin/bash\nset -e\n" + s.Run
		}
	}
	checker, err := exec.LookPath("shellcheck")
	for name, script := range scripts {
		cmd := exec.CommandContext(t.Context(), "bash", "-n")
		if err == nil {
			cmd = exec.CommandContext(t.Context(), checker, "--severity=warning", "-")
		}
		cmd.Stdin = bytes.NewBufferString(script)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
	}
}
