package observation

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"dyno/lab/plan"
	"dyno/lab/planfile"
	"dyno/observe/scrape"
	"dyno/results/rundir"
)

// A plan cannot give an endpoint or a command the name of one of dyno's observers.
func TestNamesOfObserversAreTaken(t *testing.T) {
	observers := map[string]bool{"target_wakeup": true, "target_cpus": true, "generator_cpus": true, "service_a": true, "neighbour0": true}
	for _, c := range rundir.Columns() {
		if observer, _, _ := strings.Cut(c.Name, "_"); !strings.Contains(observer, "*") && observer != "service" {
			observers[observer] = true
		}
	}
	if len(observers) < 15 {
		t.Errorf("only %v", observers)
	}
	for name := range observers {
		_, err := planfile.Parse("names.yaml", []byte(`{name: names, target: {protocol: http, address: "127.0.0.1:1"}, load: {closed: {connections: 1}}, `+
			`design: {rounds: 1}, observe: {commands: {`+name+`: {run: [date]}}}}`), planfile.Options{})
		if err == nil || !strings.Contains(err.Error(), "observe.commands."+name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The largest recording that a plan can ask for can be read back.
func TestLargestRecording(t *testing.T) {
	most := func(of reflect.Type, field, tag string) int {
		f, found := of.FieldByName(field)
		_, text, ranged := strings.Cut(f.Tag.Get(tag), "..")
		if !ranged {
			text = f.Tag.Get(tag)
		}
		n, err := strconv.Atoi(text)
		if !found || err != nil {
			t.Fatalf("%s of %v: %s is %q", field, of, tag, f.Tag.Get(tag))
		}
		return n
	}
	const (
		trees     = 10 // columns of a process and all below it
		ofWorkers = 3
		calls     = 600 // the kernel has fewer
	)
	observed, variant := reflect.TypeFor[plan.Observe](), reflect.TypeFor[plan.Variant]()
	named := most(observed, "Endpoints", "most") + most(observed, "Commands", "most")
	processes := 1 + most(variant, "Services", "most")
	columns := named*(scrape.DefaultMaxColumns+1) + 2*processes*trees + // both sides of a duet
		most(reflect.TypeFor[plan.Load](), "Workers", "range")*ofWorkers + len(rundir.Columns()) + calls
	if columns > rundir.MaxColumns || rundir.MaxColumns*mostRows > rundir.MaxCells {
		t.Errorf("%d columns and %d rows; at most %d columns and %d values can be read", columns, mostRows, rundir.MaxColumns, rundir.MaxCells)
	}
}

// A declared column is one in the source of an observer. A * stands for what is only known
// at run time.
type declared struct {
	name, kind string
}

// declaredIn finds the columns in a file: values with a kind and a name, and calls of the
// functions that make them.
func declaredIn(file *ast.File) (all []declared) {
	makers := map[string]string{"gauge": "Gauge", "total": "Counter", "count": "Counter", "c": "Counter"}
	add := func(name ast.Expr, kind string) {
		if text := spelled(name); strings.Trim(text, "*") != "" {
			all = append(all, declared{text, kind})
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			if f, ok := n.Fun.(*ast.Ident); ok && makers[f.Name] != "" && len(n.Args) > 1 {
				add(n.Args[0], makers[f.Name])
			}
		case *ast.CompositeLit:
			for _, e := range n.Elts {
				if pair, ok := e.(*ast.KeyValueExpr); ok {
					e = pair.Value
				}
				if kind := lastName(e); kind == "Gauge" || kind == "Counter" || kind == "Peak" {
					first := n.Elts[0]
					if pair, ok := first.(*ast.KeyValueExpr); ok {
						first = pair.Value
					}
					add(first, kind)
				}
			}
		}
		return true
	})
	return all
}

func lastName(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return e.Sel.Name
	}
	return ""
}

// spelled returns the text of an expression.
func spelled(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.BasicLit:
		text, _ := strconv.Unquote(e.Value) // the parser has checked it
		return text
	case *ast.BinaryExpr:
		return spelled(e.X) + spelled(e.Y)
	case *ast.CallExpr: // fmt.Sprintf
		if len(e.Args) > 0 {
			return strings.ReplaceAll(spelled(e.Args[0]), "%d", "*")
		}
	}
	return "*"
}

// is tells whether a declared column may be one of the table's, of whichever observer.
func (d declared) is(c rundir.Column) bool {
	like := func(pattern, name string) bool {
		matched, err := path.Match(pattern, name)
		return matched && err == nil
	}
	if d.name == c.Name || like("*_"+d.name, c.Name) {
		return true
	}
	for at, r := range c.Name {
		if r == '_' && like(c.Name, c.Name[:at+1]+d.name) {
			return true
		}
	}
	return false
}

// What observers record is in the table of columns, with the same kind, and all of the table
// is recorded. Names of what others count are theirs.
func TestColumnsAreNamed(t *testing.T) {
	var all []declared
	err := filepath.WalkDir("../../observe", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "scrape" || d.Name() == "profile"):
			return fs.SkipDir
		case d.IsDir() || filepath.Ext(name) != ".go" || strings.HasSuffix(name, "_test.go"):
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err == nil {
			all = append(all, declaredIn(file)...)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	columns := rundir.Columns()
	for _, observer := range []string{kernelColumns, socketColumns, networkColumns, runtimeColumns, cgroupColumns} {
		if !slices.ContainsFunc(columns, func(c rundir.Column) bool { return strings.HasPrefix(c.Name, observer+"_") }) {
			t.Errorf("no column of %s is in rundir.Columns", observer)
		}
	}
	if len(all) < 80 {
		t.Errorf("only %d columns in the sources of observers: %v", len(all), all)
	}
	for _, d := range all {
		if !slices.ContainsFunc(columns, d.is) {
			t.Errorf("%s is not in rundir.Columns", d.name)
		}
	}
	for _, c := range columns {
		if !slices.ContainsFunc(all, func(d declared) bool { return d.is(c) && (d.kind == "Counter") == c.Counter }) {
			t.Errorf("no observer has a column %s that is a counter: %v", c.Name, c.Counter)
		}
	}
}
