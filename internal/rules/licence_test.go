package rules

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// permitted are the licences whose code may be part of the binary, which is
// Apache-2.0 itself.
var permitted = []string{"Apache-2.0", "BSD", "MIT", "ISC", "MPL-2.0"}

// spaces, and marks of a quotation, are the most frequent difference between licence texts.
var spaces = regexp.MustCompile(`[\s>]+`)

// classify names the licence of a text, "" if it is none that it knows. The
// order matters: some texts name others'.
func classify(text string) string {
	text = strings.ToLower(spaces.ReplaceAllString(text, " "))
	head := text[:min(len(text), 400)]
	for _, l := range []struct{ name, in, has string }{
		{"AGPL", head, "gnu affero general public license"},
		{"LGPL", head, "gnu lesser general public license"},
		{"LGPL", head, "gnu library general public license"},
		{"GPL", head, "gnu general public license"},
		{"SSPL", head, "server side public license"},
		{"BUSL", head, "business source license"},
		{"MPL-2.0", head, "mozilla public license version 2.0"},
		{"MPL-2.0", head, "mozilla public license, version 2.0"},
		{"Apache-2.0", text, "apache license version 2.0"},
		{"Apache-2.0", text, "apache license, version 2.0"},
		{"MIT", text, "permission is hereby granted, free of charge, to any person obtaining a copy"},
		{"ISC", text, "permission to use, copy, modify, and/or distribute this software for any purpose"},
		{"ISC", text, "permission to use, copy, modify, and distribute this software for any purpose"},
		{"BSD", text, "redistribution and use in source and binary forms, with or without modification, are permitted"},
	} {
		if strings.Contains(l.in, l.has) {
			return l.name
		}
	}
	return ""
}

// checkLicence returns what is wrong with a module's licence texts; any one of them may apply.
func checkLicence(name string, texts []string) (faults []string) {
	if len(texts) == 0 {
		return []string{name + ": no licence file: nobody may copy it"}
	}
	var found []string
	for _, text := range texts {
		l := classify(text)
		if slices.Contains(permitted, l) {
			return nil
		}
		found = append(found, l)
	}
	return []string{fmt.Sprintf("%s: licence %q: not among %v", name, found, permitted)}
}

func TestLicences(t *testing.T) {
	checked := 0
	for dir, name := range listModules(t, root(t), "-e", "work") {
		var texts []string
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			upper := strings.ToUpper(e.Name())
			if e.Type().IsRegular() && (strings.HasPrefix(upper, "LICEN") || strings.HasPrefix(upper, "COPYING")) {
				text, err := os.ReadFile(filepath.Join(dir, e.Name()))
				if err != nil {
					t.Fatal(err)
				}
				texts = append(texts, string(text))
			}
		}
		for _, f := range checkLicence(name, texts) {
			t.Error(f)
		}
		checked++
	}
	if checked == 0 {
		t.Error("no modules at all: is go list right?")
	}
}
