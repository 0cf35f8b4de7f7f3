package differential

import (
	"context"
	"crypto/sha256"
	"flag"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/diff"
	"github.com/rogpeppe/go-internal/txtar"

	"dyno/cli/imports"
	"dyno/cli/imports/draft"
	script "dyno/cli/imports/k6"
	"dyno/host/child"
	"dyno/internal/leak"
	"dyno/lab/generator"
	"dyno/lab/plan"
	"dyno/lab/planfile"
	"dyno/load/pace"
	"dyno/load/scenario"
)

var (
	record = flag.Bool("record", false, "record what tools in PATH send")
	update = flag.Bool("update", false, "rewrite the differences that imports list")
)

// TestMain lets the test binary be the process in which scripts of k6 run.
func TestMain(m *testing.M) {
	if code, ran := child.Run(os.Args[1:], script.Role()); ran {
		os.Exit(code)
	}
	leak.Main(m)
}

// hangGuard bounds what a tool takes. It is no expectation of speed.
const hangGuard = 2 * time.Minute

// A tool sends what a file says.
type tool struct {
	format  string
	program string // in PATH
	live    bool   // the program is always there, so nothing is recorded
	// command runs the program on a file in its working folder.
	command func(file string) []string
	own     []omission // fields that the tool adds of its own accord
	inOrder bool       // it sends one request after the other
	// answer answers requests; nil: all have defaultAnswer.
	answer func(method, target string) (status int, header, body string)
	// general tells whether an item of the import is about all files of the format. Then it names no
	// difference.
	general func(i draft.Item) bool
	url     string // of --url
	noBody  bool   // bodies are not compared: the file has none
}

// hasProgram tells whether the tool can be run.
func (k *tool) hasProgram() bool {
	_, err := exec.LookPath(k.program)
	return err == nil
}

// send runs the tool on a file in a copy of its folder, and returns what it sent.
func (k *tool) send(t *testing.T, dir, file string) string {
	t.Helper()
	s := newServer(t)
	s.answer = k.answer
	copied := t.TempDir()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		src, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		to := filepath.Join(copied, strings.TrimPrefix(path, dir))
		if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
			return err
		}
		return os.WriteFile(to, []byte(strings.ReplaceAll(string(src), writtenPort, strings.TrimPrefix(s.address, writtenHost))), 0o600)
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), hangGuard)
	defer cancel()
	args := k.command(file)
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Dir = copied
	cmd.Env = append(os.Environ(), "HOME="+copied) // without settings of the user's own
	output, err := cmd.CombinedOutput()
	sent := s.take()
	if len(sent) == 0 {
		t.Logf("%s sent nothing: %v\n%s", k.program, err, output)
	}
	return s.texts(sent, k.own, k.inOrder)
}

// imported imports a file, runs each flow of the experiment once, and returns what was sent, and the list.
func (k *tool) imported(t *testing.T, dir, file string) (sent string, items []draft.Item) {
	t.Helper()
	s := newServer(t)
	s.answer = k.answer
	all, items := k.sent(t, s, dir, file)
	return s.texts(all, k.own, k.inOrder), items
}

// sent imports a file, and runs each flow of the experiment once against a server. It returns what was
// sent, and the list.
func (k *tool) sent(t *testing.T, s *server, dir, file string) (all []request, items []draft.Item) {
	t.Helper()
	t.Chdir(dir)
	const out = "imported-experiment.yaml"
	result, err := imports.Read(draft.Source{Format: k.format, File: file, URL: k.url, Out: out})
	if err != nil {
		return nil, []draft.Item{{Line: 1, What: "the whole file", Why: err.Error()}}
	}
	for _, f := range result.Files {
		if err := os.WriteFile(f.Name, f.Content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	e, err := planfile.ParseWithFiles(out, result.Text, planfile.Options{})
	if err != nil {
		t.Fatalf("what was made of the file is no experiment: %v\n%s", err, result.Text)
	}
	for _, v := range once(e) {
		v.Target.Address = s.address
		run(t, v)
		all = append(all, s.take()...)
	}
	for i := range all {
		if k.noBody {
			all[i].body = nil
		}
	}
	if t.Failed() {
		t.Logf("%s", result.Text)
	}
	return all, result.Items
}

// once returns loads that send each flow of an experiment once, without pauses.
func once(e *plan.Experiment) (all []*plan.Variant) {
	v := &e.Variants[0]
	l := &v.Load
	l.Closed, l.Open, l.Warmup, l.Window, l.Timeout = &plan.Closed{Connections: 1}, nil, 0, 0, 10*time.Second
	l.HTTP2.Streams = min(l.HTTP2.Streams, 1)
	s := l.Scenario
	if s == nil {
		if l.Requests == 0 || l.Requests > 10 { // the tool sends no more than a few
			l.Requests = 1
		}
		return []*plan.Variant{v}
	}
	s.Users, s.InTurn, s.Restart = 1, false, false
	s.EachStep(func(_ string, st *scenario.Step) { st.Weight, st.Think = 0, pace.Think{} })
	flows := [][]scenario.Step{s.Steps}
	if len(s.Flows) > 0 {
		flows = nil
		for i := range s.Flows {
			flows = append(flows, s.Flows[i].Steps)
		}
	}
	for _, steps := range flows {
		one, scenario := *v, *s
		scenario.Steps, scenario.Flows = steps, nil
		one.Load.Scenario, one.Load.Requests = &scenario, uint64(len(steps))
		all = append(all, &one)
	}
	return all
}

// run carries a load out, and returns what failed.
func run(t *testing.T, v *plan.Variant) (failures map[string]uint64) {
	t.Helper()
	if err := v.Fill(nil); err != nil {
		t.Fatal(err)
	}
	c, codecs, err := generator.Config(t.Context(), v, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = codecs.Close() }()
	portions, err := generator.Split(c, 1)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), hangGuard)
	defer cancel()
	result, err := generator.Run(ctx, v, 1, c, portions)
	if err != nil {
		t.Fatal(err)
	}
	return result.Failures
}

// compareFiles compares what becomes of each file in testdata/FORMAT.
func (k *tool) compareFiles(t *testing.T) {
	t.Helper()
	folder, err := filepath.Abs(filepath.Join("testdata", k.format))
	if err != nil {
		t.Fatal(err)
	}
	names, err := filepath.Glob(filepath.Join(folder, "*.*"))
	if err != nil {
		t.Fatal(err)
	}
	different := 0
	for _, path := range names {
		file := filepath.Base(path)
		if strings.HasPrefix(file, "part-") || strings.HasSuffix(file, ".sent") || strings.HasSuffix(file, ".differs") {
			continue
		}
		t.Run(file, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.CopyFS(dir, os.DirFS(folder)); err != nil {
				t.Fatal(err)
			}
			theirs := k.recorded(t, path+".sent", func() string { return k.send(t, folder, file) })
			ours, items := k.imported(t, dir, file)
			if !listed(t, path+".differs", theirs, ours, items) {
				different++
			}
		})
	}
	t.Logf("%s: %d files with differences, all of them listed", k.format, different)
}

// recorded returns what the tool sent: now, or when it was recorded.
func (k *tool) recorded(t *testing.T, path string, send func() string) string {
	t.Helper()
	switch {
	case k.live:
		if !k.hasProgram() {
			t.Skipf("%s is not installed", k.program)
		}
		return send()
	case *record:
		if !k.hasProgram() {
			t.Skipf("%s is not in PATH", k.program)
		}
		sent := send()
		if err := os.WriteFile(path, []byte(sent), 0o666); err != nil { //nolint:gosec // it is committed
			t.Fatal(err)
		}
		return sent
	}
	kept, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v: record what %s sends with -record", err, k.program)
	}
	if !testing.Short() && k.hasProgram() {
		if sent := send(); sent != string(kept) {
			t.Errorf("%s no longer sends what was recorded (-record records it):\n%s", k.program, diff.Diff("recorded", kept, "sent", []byte(sent)))
		}
	}
	return string(kept)
}

// listed compares, and tells whether there is no difference. Differences are faults unless a file has them, which quotes
// the lines of the import that name them.
func listed(t *testing.T, path, theirs, ours string, items []draft.Item) bool {
	t.Helper()
	changes := string(diff.Diff("tool", []byte(theirs), "import", []byte(ours)))
	kept, err := os.ReadFile(path)
	if err != nil && changes == "" {
		return true
	}
	var quoted []string
	rest := string(kept)
	for strings.HasPrefix(rest, "# ") {
		line, after, _ := strings.Cut(rest, "\n")
		quoted, rest = append(quoted, strings.TrimPrefix(line, "# ")), after
	}
	switch {
	case changes == "":
		t.Errorf("there is no difference any more: remove %s", path)
	case len(quoted) == 0:
		t.Errorf("the import differs silently: write the lines of its list that say so to %s, as '# TEXT'\nthe list:\n%s\n%s", path, texts(items), changes)
		return false
	}
	for _, q := range quoted {
		if !slices.ContainsFunc(items, func(i draft.Item) bool { return strings.Contains(text(i), q) }) {
			t.Errorf("the import does not list %q; it lists:\n%s", q, texts(items))
		}
	}
	if want := "# " + strings.Join(quoted, "\n# ") + "\n" + changes; *update {
		if err := os.WriteFile(path, []byte(want), 0o666); err != nil { //nolint:gosec // it is committed
			t.Fatal(err)
		}
	} else if changes != rest {
		t.Errorf("the differences are others than in %s:\n%s", path, changes)
	}
	return false
}

// text is a line of an import's list.
func text(i draft.Item) string { return fmt.Sprintf("%d: %s: %s; %s", i.Line, i.What, i.Why, i.Hint) }

func texts(items []draft.Item) string {
	var b strings.Builder
	for _, i := range items {
		b.WriteString(text(i) + "\n")
	}
	return b.String()
}

// generatedInputs is how many inputs are generated for each format, and fewInputs how many with -short.
const (
	generatedInputs = 50
	fewInputs       = 12
)

func inputs() int {
	if testing.Short() && !*record {
		return fewInputs
	}
	return generatedInputs
}

// compareGenerated compares what becomes of generated inputs: each is a file, with others that it names. They are small,
// so a line of the import's list about one of its lines names the difference.
func (k *tool) compareGenerated(t *testing.T, file string, generate func(r *rand.Rand) map[string]string) {
	t.Helper()
	path := filepath.Join("testdata", k.format, "generated.sent")
	var archive *txtar.Archive
	switch {
	case !k.hasProgram() && (k.live || *record):
		t.Skipf("%s is not installed", k.program)
	case k.live:
	case *record:
		archive = &txtar.Archive{}
	default:
		var err error
		if archive, err = txtar.ParseFile(path); err != nil {
			t.Fatalf("%v: record what %s sends with -record", err, k.program)
		}
	}
	root, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	var counts outcomes
	for n := range inputs() {
		files := generate(rand.New(rand.NewPCG(uint64(n), 1))) //nolint:gosec // the same each time
		dir := t.TempDir()
		for name, content := range files {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		section := fmt.Sprintf("%02d %.8x", n, sha256.Sum256([]byte(fmt.Sprint(files))))
		var theirs string
		switch {
		case k.live:
			theirs = k.send(t, dir, file)
		case *record:
			theirs = k.send(t, dir, file)
			archive.Files = append(archive.Files, txtar.File{Name: section, Data: []byte(theirs)})
		default:
			at := slices.IndexFunc(archive.Files, func(f txtar.File) bool { return f.Name == section })
			if at < 0 {
				t.Fatalf("%s has nothing of input %s: record it with -record", path, section)
			}
			theirs = string(archive.Files[at].Data)
			if !testing.Short() && k.hasProgram() {
				if sent := k.send(t, dir, file); sent != theirs {
					t.Errorf("input %s: %s no longer sends what was recorded:\n%s", section, k.program, diff.Diff("recorded", []byte(theirs), "sent", []byte(sent)))
				}
			}
		}
		counts.add(t, section, k, dir, file, theirs)
		t.Chdir(root)
	}
	counts.log(t, k)
	if *record {
		if err := os.WriteFile(filepath.Join(root, path), txtar.Format(archive), 0o666); err != nil { //nolint:gosec // it is committed
			t.Fatal(err)
		}
	}
}

// compareKnown is compareGenerated for formats that say themselves what was sent, such as recordings and logs: known
// says it of each input.
func (k *tool) compareKnown(t *testing.T, file string, generate func(r *rand.Rand) (content string, known []request)) {
	t.Helper()
	root, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	var counts outcomes
	for n := range inputs() {
		content, known := generate(rand.New(rand.NewPCG(uint64(n), 1))) //nolint:gosec // the same each time
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, file), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		counts.add(t, fmt.Sprintf("%02d", n), k, dir, file, (&server{address: written}).texts(known, k.own, k.inOrder))
		t.Chdir(root)
	}
	counts.log(t, k)
}

// outcomes count inputs.
type outcomes struct{ equal, different, silent int }

// add compares an import with what the tool sent.
func (o *outcomes) add(t *testing.T, name string, k *tool, dir, file, theirs string) {
	t.Helper()
	src, err := os.ReadFile(filepath.Join(dir, file))
	if err != nil {
		t.Fatal(err)
	}
	ours, items := k.imported(t, dir, file)
	named := func(i draft.Item) bool {
		return i.Line > 0 && !strings.HasPrefix(i.Why, "this is a credential") && (k.general == nil || !k.general(i))
	}
	switch changes := diff.Diff("tool", []byte(theirs), "import", []byte(ours)); {
	case changes == nil:
		o.equal++
	case slices.ContainsFunc(items, named):
		o.different++
		t.Logf("input %s differs, and the list says so:\n%s%s", name, texts(items), changes)
	default:
		o.silent++
		t.Errorf("input %s differs silently:\n%s\nthe list:\n%s%s", name, src, texts(items), changes)
	}
}

func (o *outcomes) log(t *testing.T, k *tool) {
	t.Helper()
	t.Logf("%s: %d generated inputs: %d equal, %d with listed differences, %d silent", k.format, o.equal+o.different+o.silent, o.equal, o.different, o.silent)
}
