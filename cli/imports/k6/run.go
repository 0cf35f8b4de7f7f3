package k6

import (
	"bytes"
	_ "embed"
	"encoding/base64"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/grafana/sobek"

	"dyno/cli/imports/draft"
	"dyno/internal/lazyregexp"
)

// Bounds of a running script, within those of its process.
const (
	scriptStack   = 2000 // calls
	scriptModules = 100  // files that it imports
)

//go:embed k6.js
var library string

// libraryName is what stack traces call k6.js: no script has this name.
const libraryName = "<dyno>"

// builtin are the modules that scripts import, in terms of k6.js.
var builtin = map[string]string{
	"k6":           "const {check, group, sleep, fail, randomSeed} = __k6; export {check, group, sleep, fail, randomSeed}; export default __k6",
	"k6/http":      "const {get, head, post, put, patch, del, options, request, asyncRequest, batch, url, file, expectedStatuses, setResponseCallback, cookieJar, CookieJar} = __k6.http; export {get, head, post, put, patch, del, options, request, asyncRequest, batch, url, file, expectedStatuses, setResponseCallback, cookieJar, CookieJar}; export default __k6.http",
	"k6/data":      "const {SharedArray} = __k6; export {SharedArray}; export default {SharedArray}",
	"k6/metrics":   "const {Counter, Gauge, Rate, Trend} = __k6.metrics; export {Counter, Gauge, Rate, Trend}; export default __k6.metrics",
	"k6/encoding":  "const {b64encode, b64decode} = __k6.encoding; export {b64encode, b64decode}; export default __k6.encoding",
	"k6/execution": "const {vu, scenario, instance, test} = __k6.execution; export {vu, scenario, instance, test}; export default __k6.execution",
	// Libraries that most scripts which import anything from the web import.
	"k6-utils":  "const {randomIntBetween, randomItem, randomString, uuidv4, findBetween, normalDistributionStages, getCurrentStageIndex, tagWithCurrentStageIndex, tagWithCurrentStageProfile} = __k6.utils; export {randomIntBetween, randomItem, randomString, uuidv4, findBetween, normalDistributionStages, getCurrentStageIndex, tagWithCurrentStageIndex, tagWithCurrentStageProfile}",
	"papaparse": "export default __k6.papaparse",
}

// A run is a script that runs, once, without a network.
type run struct {
	d       *draft.Draft
	vm      *sobek.Runtime
	modules map[string]sobek.ModuleRecord
	folders map[sobek.ModuleRecord]string // of the files
	exports *sobek.Object
	silent  bool // what is not carried over was listed before
}

// newRun loads a script. A number in place of random values, and of the user, distinguishes two runs.
func newRun(d *draft.Draft, src []byte, random float64, user int, now time.Time) (*run, error) {
	r := &run{d: d, vm: sobek.New(), modules: map[string]sobek.ModuleRecord{}, folders: map[sobek.ModuleRecord]string{}, silent: user > 1}
	r.vm.SetMaxCallStackSize(scriptStack)
	r.vm.SetTimeSource(func() time.Time { return now })
	environment := map[string]string{}
	for _, variable := range os.Environ() {
		name, value, _ := strings.Cut(variable, "=")
		environment[name] = value
	}
	for name, value := range map[string]any{
		"__random": random, "__VU": user, "__ITER": user - 1, "__environment": environment, "__tables": d.Source.Out != "",
		"__line": r.line, "__leave": r.leave, "__mark": d.Mark, "__column": r.column, "__open": r.open, "__csv": readCSV,
		"__base64": func(text string) string {
			if !draft.Varies(text) {
				return base64.StdEncoding.EncodeToString([]byte(text))
			}
			return d.Mark("base64(" + strings.Join(d.Arguments(text), ", ") + ")")
		},
		"__base64Bytes": func(b sobek.ArrayBuffer) string { return base64.StdEncoding.EncodeToString(b.Bytes()) },
	} {
		if err := r.vm.Set(name, value); err != nil {
			return nil, err
		}
	}
	if _, err := r.vm.RunScript(libraryName, library); err != nil {
		return nil, err
	}
	return r, r.load(src)
}

// load runs the script's outermost part.
func (r *run) load(src []byte) error {
	main, err := sobek.ParseModule(r.d.Source.File, string(src), r.resolve)
	if err != nil {
		if filled := r.fillEllipses(src); filled != nil {
			main, err = sobek.ParseModule(r.d.Source.File, string(filled), r.resolve)
		}
	}
	if err != nil {
		return err
	}
	r.folders[main] = filepath.Dir(r.d.Source.File)
	if err := main.Link(); err != nil {
		return err
	}
	promise := r.vm.CyclicModuleRecordEvaluate(main, r.resolve)
	switch promise.State() {
	case sobek.PromiseStateRejected:
		if err, ok := promise.Result().Export().(error); ok {
			return err
		}
		return errors.New(promise.Result().String())
	case sobek.PromiseStatePending:
		return errors.New("the script waits outside of its functions, for what does not come")
	}
	r.exports = r.vm.NamespaceObjectFor(main)
	return nil
}

var ellipses = lazyregexp.New(`([\[{(])(\s*(?:\.\.\.|…)\s*)([\]})])`)

// fillEllipses empties brackets in which a printed script has three dots for what it leaves out. No script that can
// run has them. It returns nil if there are none.
func (r *run) fillEllipses(src []byte) []byte {
	found := ellipses().FindAllSubmatchIndex(src, -1)
	filled := bytes.Clone(src)
	for _, m := range found {
		if !r.silent {
			r.d.Leave(1+bytes.Count(src[:m[0]], []byte("\n")), string(src[m[0]:m[1]]), "the script does not say what stands here: it is empty in the experiment", "write it in place of the dots")
		}
		copy(filled[m[4]:m[5]], bytes.Repeat([]byte(" "), m[5]-m[4]))
	}
	if len(found) == 0 {
		return nil
	}
	return filled
}

// call calls a function that the script exports. It returns undefined if there is none.
func (r *run) call(name string, args ...sobek.Value) (result sobek.Value, err error) {
	f, is := sobek.AssertFunction(r.exports.Get(name))
	if !is {
		return sobek.Undefined(), nil
	}
	if result, err = f(sobek.Undefined(), args...); err != nil {
		return result, err
	}
	if p, is := result.Export().(*sobek.Promise); is {
		switch result = p.Result(); p.State() {
		case sobek.PromiseStateRejected:
			return result, errors.New(result.String())
		case sobek.PromiseStatePending:
			return result, errors.New("the function waits for what does not come")
		}
	}
	return result, nil
}

// record carries out an iteration.
func (r *run) record(s *workload) (out recording) {
	function := s.function()
	k6 := r.vm.Get("__k6").ToObject(r.vm)
	fail := func(err error) recording {
		if err != nil && out.Failed == "" {
			out.Failed, out.FailedLine = thrown(r.d.Source.File, err), lineOfError(err)
		}
		return out
	}
	if err := k6.Set("environment", s.Environment); err != nil {
		return fail(err)
	}
	made := func() int { return int(k6.Get("events").ToObject(r.vm).Get("length").ToInteger()) }
	start := made()
	data, err := r.call("setup")
	begin := made()
	if err == nil {
		_, err = r.call(function, data)
	}
	if r.exports.Get(function) == nil {
		err = fmt.Errorf("the script exports no function %s", function)
	}
	_ = fail(err)
	var all []event // taken at the end: what setup has received may be used later
	for name, into := range map[string]any{"events": &all, "tables": &out.Tables, "missing": &out.Missing} {
		text, err := k6.Get(name).ToObject(r.vm).MarshalJSON()
		if err == nil {
			err = json.Unmarshal(text, into)
		}
		if err != nil {
			return fail(err)
		}
	}
	if begin > len(all) { // the script has changed what it must not
		return fail(errors.New("the script takes requests back"))
	}
	out.Once, out.Events = all[start:begin], all[begin:]
	return out
}

// options returns what the script exports as options, in JSON; nil if there are none.
func (r *run) options() (json.RawMessage, error) {
	exported := r.exports.Get("options")
	if exported == nil || exported.ExportType() == nil {
		return nil, nil
	}
	return exported.ToObject(r.vm).MarshalJSON()
}

// line returns the line of the script from which k6.js is being called.
func (r *run) line() int {
	for _, f := range r.vm.CaptureCallStack(0, nil) {
		if f.SrcName() == r.d.Source.File {
			return f.Position().Line
		}
	}
	return 0
}

// leave notes what a script does that is not carried over.
func (r *run) leave(what, why, hint string) {
	if !r.silent {
		r.d.Leave(r.line(), what, why, hint)
	}
}

// column returns the mark of a column of a SharedArray.
func (r *run) column(table, name string, isNumber bool) string {
	variable := draft.VariableName(table) + "." + name
	if !draft.IsWord().MatchString(name) {
		variable = fmt.Sprintf("column(%q)", name)
	}
	if isNumber {
		r.d.Numbers[variable] = true
	}
	return r.d.Mark(variable)
}

// open returns what a file next to the script holds, as text or as bytes.
func (r *run) open(name string, how ...string) (sobek.Value, error) {
	content, err := r.d.ReadFile(filepath.Join(filepath.Dir(r.d.Source.File), name))
	if err != nil {
		return nil, err
	}
	if len(how) > 0 && how[0] == "b" {
		return r.vm.ToValue(r.vm.NewArrayBuffer([]byte(content))), nil
	}
	return r.vm.ToValue(content), nil
}

// readCSV reads a file as papaparse does.
func readCSV(text, delimiter string) ([][]string, error) {
	c := csv.NewReader(strings.NewReader(strings.TrimRight(text, "\r\n")))
	c.FieldsPerRecord, c.LazyQuotes = -1, true
	for _, d := range delimiter {
		c.Comma = d
		break
	}
	return c.ReadAll()
}

// resolve finds what a script imports: a module of k6, or a file next to it. Anything else has members that do nothing.
func (r *run) resolve(from any, name string) (sobek.ModuleRecord, error) {
	key := name
	switch base := path.Base(path.Dir(path.Dir(name))); {
	case strings.Contains(name, "://") && (base == "k6-utils" || base == "papaparse"):
		key = base
	case strings.HasPrefix(name, "."):
		module, _ := from.(sobek.ModuleRecord)
		key = filepath.Join(r.folders[module], name)
	}
	if m := r.modules[key]; m != nil {
		return m, nil
	}
	if len(r.modules) == scriptModules {
		return nil, fmt.Errorf("the script imports more than %d files", scriptModules)
	}
	var m sobek.ModuleRecord
	if src, known := builtin[key]; known {
		parsed, err := sobek.ParseModule(key, src, r.resolve)
		if err != nil {
			return nil, err
		}
		m = parsed
	} else if strings.HasPrefix(name, ".") {
		src, err := r.d.ReadFile(key)
		if err != nil {
			return nil, err
		}
		parsed, err := sobek.ParseModule(key, src, r.resolve)
		if err != nil {
			return nil, err
		}
		r.folders[parsed], m = filepath.Dir(key), parsed
	} else {
		if !r.silent {
			r.d.Leave(r.d.LineOf(name), "import "+name, "dyno does not know this module: what comes of it does nothing", "")
		}
		m = &unknownModule{}
	}
	r.modules[key] = m
	return m, nil
}

// An unknownModule exports whatever is imported: a value that can be called, constructed and asked for
// its members. Each member is such a value.
type unknownModule struct{}

// GetExportedNames is called for export * from.
func (m *unknownModule) GetExportedNames(callback func([]string), _ ...sobek.ModuleRecord) bool {
	callback(nil)
	return true
}

// ResolveExport finds any name.
func (m *unknownModule) ResolveExport(name string, _ ...sobek.ResolveSetElement) (*sobek.ResolvedBinding, bool) {
	return &sobek.ResolvedBinding{Module: m, BindingName: name}, false
}

// Link has nothing to do.
func (m *unknownModule) Link() error { return nil }

// Evaluate makes the module's instance.
func (m *unknownModule) Evaluate(vm *sobek.Runtime) *sobek.Promise {
	p, resolve, _ := vm.NewPromise()
	value, err := vm.RunString(`(function () {
		const any = new Proxy(function () {}, {
			get: (_, name) => (name === Symbol.toPrimitive ? () => "" : name === "then" || typeof name === "symbol" ? undefined : any),
			apply: () => any, construct: () => any,
		});
		return any;
	})()`)
	if err != nil {
		value = sobek.Undefined()
	}
	_ = resolve(&unknownInstance{value}) // nothing waits for it yet
	return p
}

type unknownInstance struct{ value sobek.Value }

// GetBindingValue returns the same for all names.
func (i *unknownInstance) GetBindingValue(string) sobek.Value { return i.value }
