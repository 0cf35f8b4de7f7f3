package draft

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

	"dyno/internal/textfile"
	"dyno/lab/plan"
	"dyno/lab/planfile"
	"dyno/load/scenario"
	"dyno/load/wire/http1"
)

// Bounds of input. Parsers of languages need some hundred times the size of their text.
const (
	MaxRecord = 64 << 20 // bytes of a program's output
	MaxText   = 4 << 20  // bytes of a text that a person may have written
	MaxConfig = 1 << 20  // bytes of settings: TOML takes time by the square of their number
)

// A Format is a kind of file that is read.
type Format struct {
	Name      string
	About     string
	Most      int                   // bytes of a file that is read
	Recording bool                  // it has responses, or may have them
	Form      func() *regexp.Regexp // a pattern in the beginning of such files, and of no others
	Read      func(d *Draft, src []byte) error
}

// An OtherFormatError is about a file that has the form of another format.
type OtherFormatError struct {
	Format string // which the file has
	err    error
}

func (e *OtherFormatError) Error() string { return e.err.Error() }

// Unwrap returns what is wrong with the file in the format that was asked for.
func (e *OtherFormatError) Unwrap() error { return e.err }

// explain says which other format a file has that cannot be read.
func explain(formats []Format, format string, src []byte, err error) error {
	const beginning = 64 << 10
	other := ""
	for _, f := range formats {
		if !f.Form().Match(src[:min(len(src), beginning)]) {
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
	AllowFiles  bool
	NoCorrelate bool   // requests of a recording send what they sent, and not what responses say
	NoStatic    bool   // static files of a recording are left out
	NoThink     bool   // there are no pauses
	Recorded    string // the file with the responses; empty: the one that the file names
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

// Read imports a file that has one of the formats. The errors that it returns are about the whole file.
func Read(formats []Format, s Source) (*Result, error) {
	i := slices.IndexFunc(formats, func(f Format) bool { return f.Name == s.Format })
	if i < 0 {
		return nil, fmt.Errorf("%q is no format", s.Format)
	}
	if !formats[i].Recording && (s.NoCorrelate || s.NoStatic) {
		return nil, errors.New("--no-correlate and --no-static are for recordings (har, jmeter, postman)")
	}
	if s.Recorded != "" && s.Format != "jmeter" {
		return nil, errors.New("--recorded is for test plans of JMeter (jmeter)")
	}
	src, err := ReadBounded(s.File, formats[i].Most)
	if err != nil {
		return nil, err
	}
	src = bytes.TrimPrefix(src, []byte("\ufeff"))
	d := New(s)
	d.Src = src
	if s.URL != "" {
		if _, err := http1.ParseURL(s.URL); err != nil {
			return nil, fmt.Errorf("--url: %w", err)
		}
		d.Base = strings.TrimSuffix(s.URL, "/")
	}
	if err = formats[i].Read(d, src); err == nil {
		err = d.finish()
	}
	if err != nil {
		return nil, explain(formats, s.Format, src, fmt.Errorf("%s: %w", s.File, err))
	}
	slices.SortStableFunc(d.Items, func(a, b Item) int { return a.Line - b.Line })
	head := fmt.Sprintf("# Made by dyno import %s of %s. dyno run FILE runs it, dyno check FILE checks it.\n", s.Format, filepath.Base(s.File))
	return &Result{append([]byte(head), d.text...), d.files, d.Items}, nil
}

// ReadBounded returns what a file holds, up to a number of bytes.
func ReadBounded(name string, most int) ([]byte, error) {
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

// New returns a draft of an experiment with one round, and a load without a warm-up, as in other
// tools.
func New(s Source) *Draft {
	name := Name(strings.TrimSuffix(filepath.Base(s.File), filepath.Ext(s.File)))
	d := &Draft{
		Source: s, Experiment: plan.New(cmp.Or(name, s.Format), plan.HTTP), Scenario: &scenario.Spec{},
		names: map[string]int{}, lines: map[string]int{}, variables: map[string]variable{},
		Used: map[string]bool{}, Numbers: map[string]bool{}, Extracted: map[string]bool{},
	}
	d.Experiment.Design.Rounds = 1
	d.Load().Warmup = 0
	return d
}
