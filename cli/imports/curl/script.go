// Package curl imports shell scripts: their commands of curl become requests, and sleep becomes a pause.
package curl

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/syntax"

	"dyno/cli/imports/draft"
	"dyno/internal/lazyregexp"
	"dyno/load/pace"
)

// Format is the format of scripts with commands of curl.
func Format() draft.Format {
	return draft.Format{Name: "curl", About: "a shell script with commands of curl", Most: draft.MaxText, Form: form, Read: read}
}

var form = lazyregexp.New(`(?m)^\s*curl\s`)

// read reads the commands of a shell script. Only curl's are carried over, and sleep as a pause.
func read(d *draft.Draft, src []byte) error {
	file, err := syntax.NewParser(syntax.KeepComments(false)).Parse(bytes.NewReader(src), "")
	if err != nil {
		return errors.New(strings.TrimPrefix(err.Error(), ":"))
	}
	d.Pass = true
	variables := map[string]string{}
	defaults := map[string]bool{} // variables for which the script has another value, if they have none
	syntax.Walk(file, func(n syntax.Node) bool {
		if p, is := n.(*syntax.ParamExp); is && p.Exp != nil && p.Param != nil {
			defaults[p.Param.Value] = true
		}
		return true
	})
	config := &expand.Config{Env: expand.FuncEnviron(func(name string) string {
		if value, known := variables[name]; known || name == "IFS" { // without, words end at blanks
			return value
		}
		present, is := os.LookupEnv(name)
		if !is && defaults[name] {
			return ""
		}
		return d.EnvironmentVariable(0, name, present)
	})}
	syntax.Walk(file, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.ForClause, *syntax.WhileClause:
			if f, is := n.(*syntax.ForClause); is {
				firstOf(config, variables, f)
			}
			d.Leave(line(n), text(src, n), "what is repeated is carried over once", "load.closed.connections and load.window say how often all is sent")
		case *syntax.IfClause, *syntax.CaseClause:
			d.Leave(line(n), text(src, n), "all of its branches are carried over", "take the steps out that are not wanted, or give them a condition (if)")
		case *syntax.FuncDecl:
			d.Leave(line(n), n.Name.Value, "the function's commands are carried over where it stands, and not where it is called", "")
		case *syntax.BinaryCmd:
			if said, is := printed(d, config, n.X); is && n.Op == syntax.Pipe {
				if call, is := n.Y.Cmd.(*syntax.CallExpr); is {
					addCall(d, config, variables, src, call, &said)
					return false
				}
			}
		case *syntax.Stmt:
			if call, is := n.Cmd.(*syntax.CallExpr); is {
				addCall(d, config, variables, src, call, input(d, config, n))
				return false
			}
		}
		return true
	})
	return nil
}

// firstOf gives the variable of a loop the first of its values.
func firstOf(config *expand.Config, variables map[string]string, f *syntax.ForClause) {
	if i, is := f.Loop.(*syntax.WordIter); is {
		if values, err := expand.Fields(config, i.Items...); err == nil && len(values) > 0 {
			variables[i.Name.Value] = values[0]
		}
	}
}

func line(n syntax.Node) int { return int(n.Pos().Line()) }

// text returns a node as it stands in the file.
func text(src []byte, n syntax.Node) string { return string(src[n.Pos().Offset():n.End().Offset()]) }

// input returns what a command reads from its standard input, if the script says so.
func input(d *draft.Draft, config *expand.Config, n *syntax.Stmt) *string {
	for _, r := range n.Redirs {
		switch r.Op {
		case syntax.Hdoc, syntax.DashHdoc:
			if text, err := expand.Document(config, r.Hdoc); err == nil {
				return &text
			}
		case syntax.WordHdoc:
			if text, err := expand.Literal(config, r.Word); err == nil {
				text += "\n"
				return &text
			}
		case syntax.RdrIn:
			if name, err := expand.Literal(config, r.Word); err == nil {
				if text, err := d.ReadFile(name); err == nil {
					return &text
				}
			}
		}
	}
	return nil
}

// printed returns what a command prints that only prints: echo, printf without a format, or cat.
func printed(d *draft.Draft, config *expand.Config, n *syntax.Stmt) (text string, is bool) {
	call, is := n.Cmd.(*syntax.CallExpr)
	if !is || len(call.Assigns) > 0 || len(call.Args) < 2 || len(n.Redirs) > 0 {
		return "", false
	}
	words, err := expand.Fields(config, call.Args...)
	if err != nil || len(words) < 2 {
		return "", false
	}
	switch name, args := words[0], words[1:]; {
	case name == "echo" && args[0] == "-n":
		return strings.Join(args[1:], " "), true
	case name == "echo" && !strings.HasPrefix(args[0], "-"):
		return strings.Join(args, " ") + "\n", true
	case name == "printf" && len(args) == 1 && !strings.ContainsAny(args[0], "%\\"):
		return args[0], true
	case name == "cat" && len(args) == 1:
		text, err := d.ReadFile(args[0])
		return text, err == nil
	}
	return "", false
}

// addCall carries over an assignment or a command. Input is what its standard input has, if that is known.
func addCall(d *draft.Draft, config *expand.Config, variables map[string]string, src []byte, n *syntax.CallExpr, input *string) {
	for _, a := range n.Assigns {
		value, err := expand.Literal(config, a.Value)
		if err != nil || a.Append || a.Naked || a.Array != nil {
			d.Leave(line(a), text(src, a), "the value is known only to a shell", "give the variable "+draft.VariableName(a.Name.Value)+" a value in load.scenario.variables")
			continue
		}
		variables[a.Name.Value] = value
	}
	var words []string
	for _, w := range n.Args {
		more, err := expand.Fields(config, w)
		if err != nil {
			d.Leave(line(w), text(src, w), "what it stands for is known only to a shell", "write it out")
			return
		}
		words = append(words, more...)
	}
	if len(words) == 0 {
		return
	}
	switch filepath.Base(words[0]) {
	case "curl":
		addCommand(d, line(n), words[1:], input)
	case "sleep":
		seconds, err := strconv.ParseFloat(strings.TrimSuffix(strings.Join(words[1:], " "), "s"), 64)
		if err != nil || seconds < 0 || seconds > draft.MaxThink.Seconds() {
			d.Leave(line(n), text(src, n), "the pause is not a number of seconds, up to an hour", "give the step think")
			return
		}
		d.AddPause(pace.Think{Constant: time.Duration(seconds * float64(time.Second))})
	case ":", "set", "echo", "printf", "true", "exit": // they send nothing
	default:
		d.Leave(line(n), text(src, n), "only commands of curl are carried over", "")
	}
}
