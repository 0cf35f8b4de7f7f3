// Package imports makes experiments from files of other tools: scripts, recordings, logs, and
// descriptions of services. Each format has a file with its reader. A reader fills a draft (draft.go):
// a plan, and a list of the file's parts that the plan lacks.
package imports

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"dyno/internal/lazyregexp"
	"dyno/internal/textfile"
	"dyno/lab/plan"
	"dyno/lab/planfile"
	"dyno/load/scenario"
	"dyno/load/wire/http1"
)

// Bounds of input. Parsers of languages need some hundred times the size of their text.
const (
	maxRecord = 64 << 20 // bytes of a program's output
	maxText   = 4 << 20  // bytes of a text that a person may have written
	maxConfig = 1 << 20  // bytes of settings: TOML takes time by the square of their number
)

// A Format is a kind of file that is read.
type Format struct {
	Name  string
	About string
	most  int                   // bytes of a file that is read
	form  func() *regexp.Regexp // a pattern in the beginning of such files, and of no others
	read  func(d *draft, src []byte) error
}

// Formats returns the formats by name.
func Formats() []Format {
	return []Format{
		{"curl", "a shell script with commands of curl", maxText, shellForm, readCurl},
		{"ghz", "settings of ghz, in JSON or TOML", maxConfig, ghzForm, readGHZ},
		{"har", "a recording of a browser (HAR 1.2)", maxRecord, harForm, readHAR},
		{"jmeter", "a test plan of JMeter (.jmx)", maxRecord, jmeterForm, readJMeter},
		{"k6", "a script of k6, whose default function runs once, without a network", maxText, k6Form, readK6},
		{"locust", "a locustfile, which needs python3", maxText, locustForm, readLocust},
		{"nginx-log", "an access log of nginx or Apache, in the combined or common format", maxRecord, logForm, readLog},
		{"openapi", "a description of an API (OpenAPI 3, Swagger 2)", maxDescription, openAPIForm, readOpenAPI},
		{"postman", "a collection of Postman (v2.0 and v2.1)", maxRecord, postmanForm, readPostman},
		{"proto", "services of gRPC, in a .proto file", maxText, protoForm, readProto},
		{"vegeta", "targets of vegeta, in the format http or json", maxRecord, targetForm, readTargets},
	}
}

// The forms of the formats.
var (
	shellForm   = lazyregexp.New(`(?m)^\s*curl\s`)
	ghzForm     = lazyregexp.New(`(?m)(?:^|[{,])\s*"?call"?\s*[:=]\s*"[\w.]+[./]\w+"`)
	harForm     = lazyregexp.New(`\A\s*\{\s*"log"\s*:\s*\{`)
	jmeterForm  = lazyregexp.New(`<jmeterTestPlan\b`)
	k6Form      = lazyregexp.New(`from\s*['"]k6(?:/[\w/]+)?['"]`)
	locustForm  = lazyregexp.New(`(?m)^\s*(?:from\s+locust\S*\s+import|import\s+locust)\b`)
	logForm     = lazyregexp.New(`\A\S+ \S+ [^\n]*?\[[^\]\n]+\] "[A-Z]+ `)
	openAPIForm = lazyregexp.New(`(?:\A|[\s{,])["']?(?:openapi|swagger)["']?\s*:\s*["']?[23]\.`)
	postmanForm = lazyregexp.New(`"schema"\s*:\s*"https://schema\.(?:get)?postman\.com/`)
	protoForm   = lazyregexp.New(`(?m)^\s*(?:syntax|edition)\s*=\s*"`)
	targetForm  = lazyregexp.New(`\A(?:\s*#.*\n)*\s*(?:[A-Z]+[ \t]+https?://|\{"(?:method|url|body|header)"\s*:)`)
)

// An OtherFormatError is about a file that has the form of another format.
type OtherFormatError struct {
	Format string // which the file has
	err    error
}

func (e *OtherFormatError) Error() string { return e.err.Error() }

// Unwrap returns what is wrong with the file in the format that was asked for.
func (e *OtherFormatError) Unwrap() error { return e.err }

// explain says which other format a file has that cannot be read.
func explain(format string, src []byte, err error) error {
	const beginning = 64 << 10
	other := ""
	for _, f := range Formats() {
		if !f.form().Match(src[:min(len(src), beginning)]) {
			continue
		}
		if f.Name == format {
			return err
		}
		other = cmp.Or(other, f.Name)
	}
	if other == "" {
		return err
	}
	return &OtherFormatError{other, err}
}

// An Item is a part of a file that the experiment does not have, or has in another form.
type Item struct {
	Line int    // in the file
	What string // as it stands there, or its name
	Why  string
	Hint string
}

// A Source is a file to import.
type Source struct {
	Format string
	File   string // its name
	URL    string // the server to load; empty: that which the file names
	Out    string // the experiment's file, to whose folder other files are added; empty: none is written
	// AllowFiles lets the file name others that are not below its folder.
	AllowFiles bool
	// Options are those by which the experiment will be read. Processes that carry scripts out read none.
	Options planfile.Options `json:"-"`
}

// A Result is what an import has made.
type Result struct {
	Text  []byte // of the experiment
	Files []File // that it needs, next to it
	Items []Item // by line
}

// A File is needed by an experiment, such as the body of a request.
type File struct {
	Name    string // relative to the experiment's folder
	Content []byte
	Private bool // other users of the machine may not read it
}

// Read imports a file. The errors that it returns are about the whole file.
func Read(s Source) (*Result, error) {
	i := slices.IndexFunc(Formats(), func(f Format) bool { return f.Name == s.Format })
	if i < 0 {
		return nil, fmt.Errorf("%q is no format", s.Format)
	}
	format := Formats()[i]
	src, err := readBounded(s.File, format.most)
	if err != nil {
		return nil, err
	}
	src = bytes.TrimPrefix(src, []byte("\ufeff"))
	d := newDraft(s)
	d.src = src
	if s.URL != "" {
		if _, err := http1.ParseURL(s.URL); err != nil {
			return nil, fmt.Errorf("--url: %w", err)
		}
		d.base = strings.TrimSuffix(s.URL, "/")
	}
	if err = format.read(d, src); err == nil {
		err = d.finish()
	}
	if err != nil {
		return nil, explain(s.Format, src, fmt.Errorf("%s: %w", s.File, err))
	}
	slices.SortStableFunc(d.items, func(a, b Item) int { return a.Line - b.Line })
	head := fmt.Sprintf("# Made by dyno import %s of %s. dyno run FILE runs it, dyno check FILE checks it.\n", s.Format, filepath.Base(s.File))
	return &Result{append([]byte(head), d.text...), d.files, d.items}, nil
}

// readBounded returns what a file holds, up to a number of bytes.
func readBounded(name string, most int) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // nothing was written
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	var src []byte
	if info.Size() <= int64(most) { // which pipes do not know
		src, err = io.ReadAll(io.LimitReader(f, int64(most)+1))
	}
	switch {
	case err != nil:
		return nil, err
	case info.Size() > int64(most), len(src) > most:
		return nil, fmt.Errorf("%s: more than %d MiB: import a part of the file", name, most>>20)
	case len(bytes.TrimSpace(src)) == 0:
		return nil, errors.New(name + ": the file is empty")
	}
	return textfile.TrimMark(name, src) // the rest may have another encoding, as in logs
}

// lineAt returns the line of an offset in a text.
func lineAt(src []byte, offset int64) int {
	return 1 + bytes.Count(src[:min(max(offset, 0), int64(len(src)))], []byte("\n"))
}

// newDraft returns a draft of an experiment with one round, and a load without a warm-up, as in other
// tools.
func newDraft(s Source) *draft {
	name := notInName().ReplaceAllString(strings.TrimSuffix(filepath.Base(s.File), filepath.Ext(s.File)), "-")
	d := &draft{source: s, e: plan.New(strings.Trim(name, "-."), plan.HTTP), scenario: &scenario.Spec{}}
	if d.e.Name == "" {
		d.e.Name = s.Format
	}
	d.e.Design.Rounds = 1
	d.load().Warmup = 0
	return d
}
