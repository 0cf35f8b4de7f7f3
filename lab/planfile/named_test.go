package planfile

import (
	"go/scanner"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"dyno/lab/plan"
)

// Hints, help and manuals name fields of the file that exist. Where metrics of the target are
// named, only the sections are looked for that have none.
func TestNamedFieldsExist(t *testing.T) {
	field := func(sections string) *regexp.Regexp {
		return regexp.MustCompile(`(?:^|[^\w./-])((?:` + sections + `)(?:\.[a-z_0-9]+(?:\[[^\]]*\])?)+)`)
	}
	some, most := field("load|design"), field("load|design|target|compare|observe|profile|capacity|ladder")
	found := 0
	check := func(file, text string, named *regexp.Regexp) {
		for _, match := range named.FindAllStringSubmatch(text, -1) {
			path := match[1]
			switch ext := filepath.Ext(path); {
			case ext == ".go", ext == ".json", ext == ".yaml": // a file
				continue
			case strings.HasSuffix(path, "_per_request"): // a metric
				continue
			}
			if found++; plan.DeclaredAt(path) == nil {
				t.Errorf("%s: there is no field %s", file, path)
			}
		}
	}
	for pattern, named := range map[string]*regexp.Regexp{
		"../../README*.md": some, "../../docs/*.md": some, "../../docs/*/*.md": some, "../../internal/texts/*.json": some,
		"../../report/*.go": some, "../../judge/*/*.go": some,
		"../trial/*.go": some, "../generator/*.go": some, "../../cli/*.go": most, "../../cli/*/*.go": most, "../plan/*.go": most, "../protocols/*.go": most, "*.go": most,
	} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %d files, %v", pattern, len(files), err)
		}
		for _, file := range files {
			content, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			switch {
			case strings.HasSuffix(file, "_test.go"):
			case filepath.Ext(file) == ".go":
				for _, text := range literals(content) {
					check(file, text, named)
				}
			default:
				check(file, string(content), named)
			}
		}
	}
	if found < 100 {
		t.Errorf("only %d fields were found", found)
	}
}

// literals returns the texts in a Go file: of comments, some are about Go.
func literals(source []byte) (texts []string) {
	set := token.NewFileSet()
	var s scanner.Scanner
	s.Init(set.AddFile("", set.Base(), len(source)), source, nil, 0)
	for {
		switch _, kind, text := s.Scan(); kind {
		case token.EOF:
			return texts
		case token.STRING:
			if unquoted, err := strconv.Unquote(text); err == nil {
				texts = append(texts, unquoted)
			}
		}
	}
}
