package k6

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"crypto/hmac"
	"crypto/md5"  //nolint:gosec // as scripts ask for it
	"crypto/sha1" //nolint:gosec // as scripts ask for it
	"crypto/sha256"
	"crypto/sha512"
	_ "embed"
	"encoding/base64"
	"encoding/csv"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/grafana/sobek"
	"github.com/grafana/sobek/file"

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
	"k6":                         "const {check, group, sleep, fail, randomSeed} = __k6; export {check, group, sleep, fail, randomSeed}; export default __k6",
	"k6/http":                    exports("http", "get", "head", "post", "put", "patch", "del", "options", "request", "asyncRequest", "batch", "url", "file", "expectedStatuses", "setResponseCallback", "cookieJar", "CookieJar"),
	"k6/data":                    "const {SharedArray} = __k6; export {SharedArray}; export default {SharedArray}",
	"k6/metrics":                 exports("metrics", "Counter", "Gauge", "Rate", "Trend"),
	"k6/encoding":                exports("encoding", "b64encode", "b64decode"),
	"k6/execution":               exports("execution", "vu", "scenario", "instance", "test"),
	"k6/crypto":                  exports("crypto", "createHash", "createHMAC", "hmac", "hexEncode", "randomBytes", "md5", "sha1", "sha256", "sha384", "sha512", "sha512_224", "sha512_256"),
	"k6/timers":                  exports("timers", "setTimeout", "setInterval", "clearTimeout", "clearInterval"),
	"k6/ws":                      exports("ws", "connect"),
	"k6/websockets":              exports("websockets", "WebSocket"),
	"k6/experimental/websockets": exports("websockets", "WebSocket"),
	"k6/net/grpc":                exports("grpc", "Client", "Stream"),
	"k6/html":                    exports("html", "parseHTML"),
	// Libraries that most scripts which import anything from the web import.
	"k6-utils":  exports("utils", "randomIntBetween", "randomItem", "randomString", "uuidv4", "findBetween", "normalDistributionStages", "getCurrentStageIndex", "tagWithCurrentStageIndex", "tagWithCurrentStageProfile"),
	"papaparse": "export default __k6.papaparse; export const parse = __k6.papaparse.parse",
	"url":       exports("url", "URL", "URLSearchParams"),
	"formdata":  exports("formdata", "FormData"),
	"httpx":     exports("httpx", "Httpx", "Get"),
	"k6chaijs":  exports("chai", "describe", "expect", "chai"),
}

// exports is the source of a module that has members of a part of k6.js.
func exports(part string, names ...string) string {
	all := strings.Join(names, ", ")
	return fmt.Sprintf("const {%s} = __k6.%s; export {%s}; export default __k6.%s", all, part, all, part)
}

// A run is a script that runs, once, without a network.
type run struct {
	d       *draft.Draft
	vm      *sobek.Runtime
	modules map[string]sobek.ModuleRecord
	folders map[sobek.ModuleRecord]string // of the files
	exports *sobek.Object
	silent  bool // what is not carried over was listed before

	data   sobek.Value // that setup has returned
	failed error       // why it has not
	begin  int         // how many events it has
}

// newRun loads a script. A number in place of random values, and numbers of the user and the iteration, distinguish runs.
func newRun(d *draft.Draft, src []byte, random float64, n numbers, now time.Time) (*run, error) {
	r := &run{d: d, vm: sobek.New(), modules: map[string]sobek.ModuleRecord{}, folders: map[sobek.ModuleRecord]string{}, silent: n != first}
	r.vm.SetMaxCallStackSize(scriptStack)
	r.vm.SetTimeSource(func() time.Time { return now })
	environment := map[string]string{}
	for _, variable := range os.Environ() {
		name, value, _ := strings.Cut(variable, "=")
		environment[name] = value
	}
	for name, value := range map[string]any{
		"__random": random, "__VU": n[0], "__ITER": n[1], "__ITERATION": n[2], "__numbers": n == shown, "__environment": environment, "__tables": d.Source.Out != "", "__once": false,
		"__line": r.line, "__inLine": func() int { return r.position().Column }, "__leave": r.leave, "__mark": d.Mark, "__column": r.column, "__open": r.open, "__csv": readCSV,
		"__compress": compress, "__base64": r.base64, "__fromBase64": r.fromBase64, "__hash": r.hash, "__number": func(expression string) string {
			d.Numbers[expression] = true
			return d.Mark(expression)
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

// call calls a function that the script exports, and does what the script has put off until later. It returns undefined if there is none.
func (r *run) call(name string, args ...sobek.Value) (result sobek.Value, err error) {
	f, is := sobek.AssertFunction(r.exports.Get(name))
	if !is {
		return sobek.Undefined(), nil
	}
	if result, err = f(sobek.Undefined(), args...); err != nil {
		return result, err
	}
	turn, _ := sobek.AssertFunction(r.library().Get("turn")) // which k6.js has
	for more := sobek.Value(nil); more == nil || more.ToBoolean(); {
		if more, err = turn(sobek.Undefined()); err != nil {
			return result, err
		}
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
func (r *run) record(s *workload, n numbers) (out recording) {
	function := s.function()
	k6 := r.library()
	fail := func(err error) recording {
		if err != nil && out.Failed == "" {
			out.Failed, out.FailedLine = thrown(r.d.Source.File, err), lineOfError(err)
		}
		return out
	}
	if err := errors.Join(k6.Set("environment", s.Environment), k6.Set("tags", s.Tags), r.vm.Set("__ITER", n[1]), r.vm.Set("__ITERATION", n[2])); err != nil {
		return fail(err)
	}
	begin, err := r.made(), r.failed
	if forget, is := sobek.AssertFunction(k6.Get("begin")); is && err == nil {
		_, err = forget(k6, r.vm.ToValue(n[1] > 0))
	}
	if err == nil {
		_, err = r.call(function, r.data)
	}
	if r.exports.Get(function) == nil {
		err = fmt.Errorf("the script exports no function %s", function)
	}
	_ = fail(err)
	var all []event
	for name, into := range map[string]any{"events": &all, "tables": &out.Tables, "missing": &out.Missing, "noted": &out.Metrics} {
		if err := r.member(name, into); err != nil {
			return fail(err)
		}
	}
	if begin > len(all) { // the script has changed what it must not
		return fail(errors.New("the script takes requests back"))
	}
	out.Events = all[begin:]
	return out
}

// library is the object of k6.js.
func (r *run) library() *sobek.Object { return r.vm.Get("__k6").ToObject(r.vm) }

// made is how many events there are so far.
func (r *run) made() int {
	return int(r.library().Get("events").ToObject(r.vm).Get("length").ToInteger())
}

// member reads a member of k6.js that it has noted.
func (r *run) member(name string, into any) error {
	text, err := r.library().Get(name).ToObject(r.vm).MarshalJSON()
	if err != nil {
		return err
	}
	return json.Unmarshal(text, into)
}

// setUp carries out setup, before the first iteration.
func (r *run) setUp() {
	r.data, r.failed = r.callOnce("setup")
	r.begin = r.made()
}

// tearDown carries out teardown, after the last iteration, and returns what it and setup do. What iterations use of
// the responses to setup is known now.
func (r *run) tearDown() (setup, teardown []event, err error) {
	end := r.made()
	_, failed := r.callOnce("teardown", r.data)
	var all []event
	if err := r.member("events", &all); err != nil {
		return nil, nil, err
	}
	if end > len(all) || r.begin > end {
		return nil, nil, errors.New("the script takes requests back")
	}
	return all[:r.begin], all[end:], failed
}

// callOnce calls a function of what is done once.
func (r *run) callOnce(name string, args ...sobek.Value) (sobek.Value, error) {
	if err := r.vm.Set("__once", true); err != nil {
		return nil, err
	}
	result, err := r.call(name, args...)
	return result, errors.Join(err, r.vm.Set("__once", false))
}

// options returns what the script exports as options, in JSON; nil if there are none.
func (r *run) options() (json.RawMessage, error) {
	exported := r.exports.Get("options")
	if exported == nil || exported.ExportType() == nil {
		return nil, nil
	}
	return exported.ToObject(r.vm).MarshalJSON()
}

// position returns the place in the script from which k6.js is being called.
func (r *run) position() (p file.Position) {
	for _, f := range r.vm.CaptureCallStack(0, nil) {
		if f.SrcName() == r.d.Source.File {
			return f.Position()
		}
	}
	return p
}

func (r *run) line() int { return r.position().Line }

// leave notes what a script does that is not carried over, at its line or for the whole script.
func (r *run) leave(what, why, hint string, whole bool) {
	switch {
	case r.silent:
	case whole:
		r.d.Leave(0, what, why, hint)
	default:
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

// The forms of base64 by their names in k6.
var base64Forms = map[string]*base64.Encoding{"std": base64.StdEncoding, "rawstd": base64.RawStdEncoding, "url": base64.URLEncoding, "rawurl": base64.RawURLEncoding}

// base64 encodes a text or bytes. Of a text that varies, templates know one form.
func (r *run) base64(v sobek.Value, kind string) (string, error) {
	form := base64Forms[kind]
	if form == nil {
		return "", fmt.Errorf("b64encode: %q is no form of base64", kind)
	}
	text := bytesOf(v)
	if !draft.Varies(text) {
		return form.EncodeToString([]byte(text)), nil
	}
	if kind != "std" {
		r.leave("b64encode", "templates encode by the standard alphabet", "", false)
	}
	return r.d.Mark("base64(" + strings.Join(r.d.Arguments(text), ", ") + ")"), nil
}

// compress compresses a text and returns it in base64; "" if that cannot be done.
func compress(how, text string) string {
	var b bytes.Buffer
	var w io.WriteCloser
	switch {
	case draft.Varies(text):
		return ""
	case how == "gzip":
		w = gzip.NewWriter(&b)
	case how == "deflate":
		w = zlib.NewWriter(&b)
	default:
		return ""
	}
	_, _ = io.WriteString(w, text) // to memory
	_ = w.Close()
	return base64.StdEncoding.EncodeToString(b.Bytes())
}

// fromBase64 decodes a text: to bytes, or to a text.
func (r *run) fromBase64(text, kind string, asText bool) (sobek.Value, error) {
	form := base64Forms[kind]
	if form == nil {
		return nil, fmt.Errorf("b64decode: %q is no form of base64", kind)
	}
	if draft.Varies(text) {
		r.leave("b64decode", "templates do not decode what a response says", "", false)
	}
	content, err := form.DecodeString(text)
	if err != nil && !draft.Varies(text) {
		return nil, fmt.Errorf("b64decode: %w", err)
	}
	if asText {
		return r.vm.ToValue(string(content)), nil
	}
	return r.vm.ToValue(r.vm.NewArrayBuffer(content)), nil
}

// bytesOf returns what a text or bytes hold.
func bytesOf(v sobek.Value) string {
	if b, is := v.Export().(sobek.ArrayBuffer); is {
		return string(b.Bytes())
	}
	return v.String()
}

// The hashes of k6/crypto.
var hashes = map[string]func() hash.Hash{
	"md5": md5.New, "sha1": sha1.New, "sha256": sha256.New, "sha384": sha512.New384, "sha512": sha512.New, "sha512_224": sha512.New512_224, "sha512_256": sha512.New512_256,
}

// hash returns the hash of a text or bytes, with a key unless that is undefined. What varies has none.
func (r *run) hash(algorithm string, key, content sobek.Value, encoding string) (sobek.Value, error) {
	create := hashes[algorithm]
	if create == nil {
		return nil, fmt.Errorf("%q is no hash that dyno knows", algorithm)
	}
	text := bytesOf(content)
	if draft.Varies(text) {
		r.leave(algorithm, "templates have no hashes: that of its name is sent, and not that of the value", "", false)
	}
	h := create()
	if key != nil && !sobek.IsUndefined(key) {
		h = hmac.New(create, []byte(bytesOf(key)))
	}
	_, _ = h.Write([]byte(text)) // to memory
	switch sum := h.Sum(nil); encoding {
	case "hex":
		return r.vm.ToValue(hex.EncodeToString(sum)), nil
	case "binary":
		return r.vm.ToValue(r.vm.NewArrayBuffer(sum)), nil
	default:
		form := map[string]*base64.Encoding{"base64": base64.StdEncoding, "base64url": base64.URLEncoding, "base64rawurl": base64.RawURLEncoding}[encoding]
		if form == nil {
			return nil, fmt.Errorf("%q is no encoding of a hash", encoding)
		}
		return r.vm.ToValue(form.EncodeToString(sum)), nil
	}
}

// resolve finds what a script imports: a module of k6, or a file next to it. Anything else has members that do nothing.
func (r *run) resolve(from any, name string) (sobek.ModuleRecord, error) {
	key := name
	switch base := path.Base(path.Dir(path.Dir(name))); {
	case strings.Contains(name, "://") && builtin[base] != "":
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
