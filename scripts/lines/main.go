// Lines counts the lines of Go in this repository, code and tests: of the rooms of both modules, the largest
// packages and the longest functions. Generated files do not count.
//
//	go run ./scripts/lines
package main

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"maps"
	"os"
	"os/exec"
	"path"
	"slices"
	"strings"
	"text/tabwriter"
)

// shown is how many packages and functions are listed.
const shown = 20

// other is the folder of the module with what is only measured or only measures dyno.
const other = "experiments"

// A size is that of a room or a package, in lines.
type size struct{ code, tests int }

// A function is one outside of tests.
type function struct {
	lines       int
	name, place string
}

func main() {
	if err := run(os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "lines:", err)
		os.Exit(1)
	}
}

func run(w io.Writer) error {
	list, err := exec.Command("git", "ls-files", "-z", "*.go").Output()
	if err != nil {
		return fmt.Errorf("git ls-files: %w", err)
	}
	rooms, packages := map[string]size{}, map[string]size{}
	var functions []function
	for name := range strings.SplitSeq(strings.TrimSuffix(string(list), "\x00"), "\x00") {
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, name, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		if ast.IsGenerated(file) {
			continue
		}
		isTest, lines := strings.HasSuffix(name, "_test.go"), set.File(file.Pos()).LineCount()-1
		add(rooms, room(name), isTest, lines)
		add(packages, path.Dir(name), isTest, lines)
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && !isTest {
				from, to := set.Position(f.Pos()), set.Position(f.End())
				functions = append(functions, function{to.Line - from.Line + 1, f.Name.Name, fmt.Sprintf("%s:%d", name, from.Line)})
			}
		}
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, module := range []string{"main module", other} {
		var total size
		fmt.Fprintf(t, "%s\tcode\ttests\n", module)
		for _, name := range slices.Sorted(maps.Keys(rooms)) {
			if strings.HasPrefix(name, other) == (module == other) {
				total.code, total.tests = total.code+rooms[name].code, total.tests+rooms[name].tests
				fmt.Fprintf(t, "%s\t%d\t%d\n", name, rooms[name].code, rooms[name].tests)
			}
		}
		fmt.Fprintf(t, "all\t%d\t%d\n\n", total.code, total.tests)
	}
	fmt.Fprint(t, "largest packages\tcode\ttests\n")
	names := slices.SortedFunc(maps.Keys(packages), func(a, b string) int { return cmp.Compare(packages[b].code, packages[a].code) })
	for _, name := range names[:min(shown, len(names))] {
		fmt.Fprintf(t, "%s\t%d\t%d\n", name, packages[name].code, packages[name].tests)
	}
	fmt.Fprint(t, "\nlongest functions\tlines\n")
	slices.SortFunc(functions, func(a, b function) int { return cmp.Compare(b.lines, a.lines) })
	for _, f := range functions[:min(shown, len(functions))] {
		fmt.Fprintf(t, "%s, %s\t%d\n", f.name, f.place, f.lines)
	}
	return t.Flush()
}

// room returns the folder that a file is counted in: that at the top, and of services and the other module the
// one below it.
func room(name string) string {
	parts := strings.Split(path.Dir(name), "/")
	if (parts[0] == "services" || parts[0] == other) && len(parts) > 1 {
		return path.Join(parts[:2]...)
	}
	return parts[0]
}

func add(to map[string]size, name string, isTest bool, lines int) {
	s := to[name]
	if isTest {
		s.tests += lines
	} else {
		s.code += lines
	}
	to[name] = s
}
