package manual

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// A step is a command of a page, or a file that it shows.
type step struct {
	line    int // of the page
	command string
	output  []string // that the page shows; none is not compared
	code    int
	file    string // the name of a file; there is no command then
	text    string // of the file
}

// A page is what there is to run of a page.
type page struct {
	steps  []step
	notRun int // commands in blocks with notest
}

// fence matches a line that begins or ends a block; info is its language and attributes.
var fence = regexp.MustCompile("^( *)(```+)(.*)$")

// attribute matches NAME="VALUE".
var attribute = regexp.MustCompile(`(\w+)="([^"]*)"`)

// readPage finds the blocks of a page that are run.
func readPage(text string) (p page, err error) {
	lines := strings.Split(text, "\n")
	for i := 0; i < len(lines); i++ {
		begin := fence.FindStringSubmatch(lines[i])
		if begin == nil {
			continue
		}
		first := i + 1
		for i = first; i < len(lines); i++ {
			if end := fence.FindStringSubmatch(lines[i]); end != nil && end[2] == begin[2] && strings.TrimSpace(end[3]) == "" {
				break
			}
		}
		if i == len(lines) {
			return page{}, fmt.Errorf("line %d: the block has no end", first)
		}
		block := slices.Clone(lines[first:i])
		for n := range block {
			block[n] = strings.TrimPrefix(block[n], begin[1])
		}
		language, _, _ := strings.Cut(strings.TrimSpace(begin[3]), " ")
		has := map[string]string{}
		for _, a := range attribute.FindAllStringSubmatch(begin[3], -1) {
			has[a[1]] = a[2]
		}
		switch reason, leftOut := has["notest"]; {
		case language == "console":
			steps, err := readCommands(block, first+1)
			switch {
			case err != nil:
				return page{}, err
			case !leftOut:
				p.steps = append(p.steps, steps...)
			case reason == "":
				return page{}, fmt.Errorf(`line %d: notest="" has no reason`, first)
			default:
				p.notRun += len(steps)
			}
		case has["title"] != "" && !leftOut:
			p.steps = append(p.steps, step{line: first, file: has["title"], text: strings.Join(block, "\n") + "\n"})
		}
	}
	return p, nil
}

var exitCode = regexp.MustCompile(`^\[exit code (\d+)\]$`)

// readCommands reads a block of commands, which begins at a line of the page.
func readCommands(block []string, at int) (steps []step, err error) {
	for i := 0; i < len(block); i++ {
		if command, ok := strings.CutPrefix(block[i], "$ "); ok {
			s := step{line: at + i, command: strings.TrimRight(command, " ")}
			for strings.HasSuffix(s.command, `\`) && i+1 < len(block) {
				i++
				s.command += "\n" + block[i]
			}
			steps = append(steps, s)
			continue
		}
		if len(steps) == 0 {
			return nil, fmt.Errorf("line %d: output without a command: want a line that begins with $", at+i)
		}
		last := &steps[len(steps)-1]
		last.output = append(last.output, strings.TrimRight(block[i], " "))
	}
	for i := range steps {
		s := &steps[i]
		s.output = trim(s.output)
		if n := len(s.output); n > 0 {
			if code := exitCode.FindStringSubmatch(s.output[n-1]); code != nil {
				s.code, err = strconv.Atoi(code[1])
				if err != nil {
					return nil, err
				}
				s.output = trim(s.output[:n-1])
			}
		}
	}
	return steps, nil
}

// trim removes empty lines at both ends.
func trim(lines []string) []string {
	for len(lines) > 0 && lines[0] == "" {
		lines = lines[1:]
	}
	for len(lines) > 0 && lines[len(lines)-1] == "" {
		lines = lines[:len(lines)-1]
	}
	return lines
}

// background tells whether a command runs until the end of the page.
func (s step) background() bool {
	return strings.HasSuffix(s.command, "&") && !strings.HasSuffix(s.command, "&&")
}

const example = "# Title\n" + `
Text, and ` + "`$ code`" + `.

` + "```yaml title=\"a.yaml\"\nname: a\n\nload: {}\n```" + `

1. An item:

    ` + "```console\n    $ dyno check a.yaml\n    a: 3 s\n\n    $ dyno run \\\n        a.yaml\n    $ false\n    oh\n    [exit code 1]\n    ```" + `

` + "```console notest=\"needs root\"\n$ reboot\n$ halt\n```" + `

` + "```sh\n$ not run\n```\n"

func TestReadPage(t *testing.T) {
	p, err := readPage(example)
	if err != nil {
		t.Fatal(err)
	}
	want := []step{
		{line: 5, file: "a.yaml", text: "name: a\n\nload: {}\n"},
		{line: 14, command: "dyno check a.yaml", output: []string{"a: 3 s"}},
		{line: 17, command: "dyno run \\\n    a.yaml"},
		{line: 19, command: "false", output: []string{"oh"}, code: 1},
	}
	if got, want := fmt.Sprintf("%+v", p), fmt.Sprintf("%+v", page{want, 2}); got != want {
		t.Errorf("\n%s, want\n%s", got, want)
	}
}

func TestReadPageFaults(t *testing.T) {
	for text, want := range map[string]string{
		"```console\n$ dyno\n":                    "line 1: the block has no end",
		"\n```console\nhello\n```\n":              "line 3: output without a command: want a line that begins with $",
		"```console notest=\"\"\n$ reboot\n```\n": `line 1: notest="" has no reason`,
	} {
		if _, err := readPage(text); err == nil || err.Error() != want {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}
