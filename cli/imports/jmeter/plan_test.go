package jmeter

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/text/encoding/charmap"

	"dyno/cli/imports/draft"
)

// A test plan means the same in each charset of its first line, with or without a byte order mark.
func TestCharsetsOfPlans(t *testing.T) {
	src, err := os.ReadFile("../testdata/jmeter/latin.jmx")
	if err != nil {
		t.Fatal(err)
	}
	text, err := charmap.ISO8859_1.NewDecoder().String(string(src))
	if err != nil {
		t.Fatal(err)
	}
	utf8 := strings.Replace(text, "ISO-8859-1", "UTF-8", 1)
	encoded := map[string]string{"latin": string(src), "utf-8": utf8, "utf-8 with a mark": "\ufeff" + utf8}
	for name, plan := range encoded {
		file := filepath.Join(t.TempDir(), "plan.jmx")
		if err := os.WriteFile(file, []byte(plan), 0o600); err != nil {
			t.Fatal(err)
		}
		r, err := draft.Read([]draft.Format{Format()}, draft.Source{Format: "jmeter", File: file})
		if err != nil || !strings.Contains(string(r.Text), `body: "né & < \r\nx"`) {
			t.Errorf("%s: %v\n%+v", name, err, r)
		}
	}
}

// Loops within loops, and variables within variables, end all the same.
func TestPlansThatGrow(t *testing.T) {
	const levels = 25
	var variables, loops strings.Builder
	for n := range levels {
		fmt.Fprintf(&variables, `<Arguments testname="a"><collectionProp name="Arguments.arguments"><elementProp name="v" elementType="Argument"><stringProp name="Argument.name">v%d</stringProp>`+
			`<stringProp name="Argument.value">x${v%d}${v%[2]d}${v%[2]d}</stringProp></elementProp></collectionProp></Arguments><hashTree/>`, n+1, n)
		loops.WriteString(`<LoopController testname="l"><stringProp name="LoopController.loops">50</stringProp></LoopController><hashTree>`)
	}
	sampler := fmt.Sprintf(`<HTTPSamplerProxy testname="s"><stringProp name="HTTPSampler.domain">127.0.0.1</stringProp><stringProp name="HTTPSampler.path">/${v%d}</stringProp></HTTPSamplerProxy><hashTree/>`, levels)
	plan := `<jmeterTestPlan><hashTree><TestPlan/><hashTree>` + variables.String() + `<ThreadGroup testname="g"/><hashTree>` + sampler +
		loops.String() + strings.Repeat("</hashTree>", levels) + `</hashTree></hashTree></hashTree></jmeterTestPlan>`
	file := filepath.Join(t.TempDir(), "plan.jmx")
	if err := os.WriteFile(file, []byte(plan), 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := draft.Read([]draft.Format{Format()}, draft.Source{Format: "jmeter", File: file})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"elements when they are written out", "variables within variables make its value longer"} {
		if !slices.ContainsFunc(r.Items, func(i draft.Item) bool { return strings.Contains(i.Why, want) }) {
			t.Errorf("the list lacks %q", want)
		}
	}
}
