package wrk

import (
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"time"

	lua "github.com/yuin/gopher-lua"

	"dyno/cli/imports/draft"
	process "dyno/host/child"
)

// scriptLimits bound the process in which a script runs.
var scriptLimits = process.Limits{Time: 30 * time.Second, CPU: 5 * time.Second, Memory: 512 << 20, Output: 32 << 20}

// What a script takes from a response's header field is the field's name between these.
const takenBegin, takenEnd = "\ue002", "\ue003"

// maxCallBytes bounds what a call of request returns.
const maxCallBytes = 64 << 10

//go:embed wrk.lua
var prelude string

// Role runs a script of wrk in a process of its own, whose time and memory are bounded.
func Role() process.Role {
	return process.Role{Name: "__run-wrk", Main: func([]string) int { return process.Answer(scriptLimits.Memory, runTask) }}
}

// A scriptTask is the process's input.
type scriptTask struct {
	File       string // as in draft.Source
	AllowFiles bool   // as in draft.Source
	Path       string // that of requests without one
	Script     []byte
}

// A session is the process's result.
type session struct {
	Failed      string       // why there is nothing else
	Calls       []string     // what request has returned
	Pause       [2]float64   // the least and the most that delay has returned, in milliseconds
	Base        string       // the server that the script names; empty: none
	Items       []draft.Item // what is left out
	Environment []string     // variables that the script has read
}

// runScript runs the script in a process of its own, within its limits.
func runScript(task scriptTask) (*session, error) {
	var s session
	if err := draft.RunScript(Role(), scriptLimits, task, &s); err != nil {
		return nil, err
	}
	if s.Failed != "" {
		return nil, errors.New(s.Failed)
	}
	return &s, nil
}

// runTask runs a script in this process.
func runTask(input []byte) ([]byte, error) {
	var task scriptTask
	if err := json.Unmarshal(input, &task); err != nil {
		return nil, err
	}
	s := &session{}
	if err := s.run(&task); err != nil {
		s = &session{Failed: err.Error()}
	}
	return json.Marshal(s)
}

// run calls the functions of a script as wrk does. A panic of the interpreter is a fault of the script.
func (s *session) run(task *scriptTask) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the interpreter failed: %v", p)
		}
	}()
	l := lua.NewState(lua.Options{SkipOpenLibs: true})
	defer l.Close()
	for _, open := range []lua.LGFunction{lua.OpenBase, lua.OpenTable, lua.OpenString, lua.OpenMath, lua.OpenOs} {
		l.Push(l.NewFunction(open))
		l.Call(0, 0)
	}
	s.provide(l, task)
	if err := l.DoString(prelude); err != nil {
		return err
	}
	dyno := l.GetGlobal("__dyno").(*lua.LTable) // which the prelude makes
	call := func(name string, args ...lua.LValue) (lua.LValue, error) {
		err := l.CallByParam(lua.P{Fn: dyno.RawGetString(name), NRet: 1, Protect: true}, args...)
		if err != nil {
			return lua.LNil, errors.New(message(err))
		}
		defer l.Pop(1)
		return l.Get(-1), nil
	}
	script, err := l.Load(strings.NewReader(string(task.Script)), task.File)
	if err != nil {
		return errors.New(message(err))
	}
	l.Push(script)
	if err := l.PCall(0, 0, nil); err != nil {
		return errors.New(message(err))
	}
	s.leave(l)
	for _, name := range []string{"setup", "init"} { // as threads begin
		if _, err := call(name); err != nil {
			s.Items = append(s.Items, draft.Item{Line: line(l, name), What: name, Why: "it fails, where wrk would end: " + err.Error(), Hint: "what it does after that is left out"})
		}
	}
	if base, err := call("base"); err == nil {
		s.Base = lua.LVAsString(base)
	}
	for n := range most {
		v, err := call("request")
		text, isText := v.(lua.LString)
		switch {
		case err == nil && !isText:
			err = fmt.Errorf("request returns %s, and no text", v.Type())
		case err == nil && len(text) > maxCallBytes:
			err = fmt.Errorf("request returns %d bytes: more than %d", len(text), maxCallBytes)
		}
		if err != nil && n == 0 {
			return err
		}
		if err != nil {
			s.Items = append(s.Items, draft.Item{Line: line(l, "request"), What: "request", Why: fmt.Sprintf("call %d fails: %v", n+1, err), Hint: "the requests before are sent in turn"})
			return nil
		}
		s.Calls = append(s.Calls, string(text))
		if n == 0 {
			if _, err := call("response"); err != nil {
				s.Items = append(s.Items, draft.Item{Line: line(l, "response"), What: "response", Why: "it fails without a real response: " + err.Error(), Hint: "extract of a step takes values from responses"})
			}
		}
		v, err = call("delay")
		if ms, isNumber := v.(lua.LNumber); err == nil && isNumber && ms >= 0 {
			if n == 0 {
				s.Pause[0] = float64(ms)
			}
			s.Pause = [2]float64{min(s.Pause[0], float64(ms)), max(s.Pause[1], float64(ms))}
		}
	}
	return nil
}

// provide gives the script what the prelude needs of this program, and takes away what a script may not have.
func (s *session) provide(l *lua.LState, task *scriptTask) {
	for _, name := range []string{"dofile", "loadfile", "module", "newproxy", "collectgarbage"} {
		l.SetGlobal(name, lua.LNil)
	}
	system := l.GetGlobal("os").(*lua.LTable)
	for _, name := range []string{"execute", "exit", "remove", "rename", "setenv", "setlocale", "tmpname"} {
		system.RawSetString(name, lua.LNil)
	}
	system.RawSetString("getenv", l.NewFunction(func(l *lua.LState) int {
		value, is := os.LookupEnv(l.CheckString(1))
		if !is {
			l.Push(lua.LNil)
			return 1
		}
		s.Environment = append(s.Environment, l.CheckString(1)+"="+value)
		l.Push(lua.LString(value))
		return 1
	}))
	random := rand.New(rand.NewPCG(1, 2)) // an import says the same each time
	numbers := l.GetGlobal("math").(*lua.LTable)
	numbers.RawSetString("randomseed", l.NewFunction(func(*lua.LState) int { return 0 }))
	numbers.RawSetString("random", l.NewFunction(func(l *lua.LState) int {
		low, high := 1, 0
		switch l.GetTop() {
		case 0:
			l.Push(lua.LNumber(random.Float64()))
			return 1
		case 1:
			high = l.CheckInt(1)
		default:
			low, high = l.CheckInt(1), l.CheckInt(2)
		}
		if low > high {
			l.RaiseError("bad arguments of random: there is no number from %d to %d", low, high)
		}
		l.Push(lua.LNumber(low + random.IntN(high-low+1)))
		return 1
	}))
	files := draft.New(draft.Source{File: task.File, AllowFiles: task.AllowFiles})
	l.SetGlobal("__read", l.NewFunction(func(l *lua.LState) int {
		text, err := files.ReadFile(l.CheckString(1))
		if err != nil {
			l.Push(lua.LNil)
			l.Push(lua.LString(err.Error()))
			return 2
		}
		l.Push(lua.LString(text))
		return 1
	}))
	l.SetGlobal("__path", lua.LString(task.Path))
	l.SetGlobal("__taken", l.NewFunction(func(l *lua.LState) int {
		l.Push(lua.LString(takenBegin + l.CheckString(1) + takenEnd))
		return 1
	}))
}

// leave lists what of the script's functions is left out.
func (s *session) leave(l *lua.LState) {
	for _, of := range []struct{ name, why, hint string }{
		{"setup", "wrk has a state of the script in each thread; here all users share one", ""},
		{"response", "only what it takes from header fields of the first response is used", "extract and assert of a step read responses"},
		{"done", "figures are in the result", "dyno run --json FILE has all of them"},
	} {
		if at := line(l, of.name); at > 0 {
			s.Items = append(s.Items, draft.Item{Line: at, What: of.name, Why: of.why, Hint: of.hint})
		}
	}
}

// line is where the script defines a function; 0 if it does not.
func line(l *lua.LState, name string) int {
	if f, is := l.GetGlobal(name).(*lua.LFunction); is && f.Proto != nil {
		return f.Proto.LineDefined
	}
	return 0
}

// message is the first line of an error of the interpreter.
func message(err error) string {
	first, _, _ := strings.Cut(err.Error(), "\n")
	return first
}
