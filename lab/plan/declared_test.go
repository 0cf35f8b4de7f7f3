package plan

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"dyno/internal/fields"
	"dyno/internal/units"
	"dyno/load/wire/sse"
)

// eachTag shows every field of every struct that a file is read into.
func eachTag(show func(of reflect.Type, f reflect.StructField)) {
	seen := map[reflect.Type]bool{}
	var walk func(t reflect.Type)
	walk = func(t reflect.Type) {
		for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice || t.Kind() == reflect.Map {
			t = t.Elem()
		}
		if t.Kind() != reflect.Struct || seen[t] {
			return
		}
		seen[t] = true
		for i := range t.NumField() {
			f := t.Field(i)
			show(t, f)
			if form := f.Tag.Get("form"); form != "" {
				walk(namedForms[form])
			} else if f.Tag != "" || f.Anonymous {
				walk(f.Type)
			}
		}
	}
	walk(reflect.TypeFor[Experiment]())
}

// A word that is never read would be a declaration without effect.
func TestTagsAreRead(t *testing.T) {
	keys := []string{"yaml", "kind", "range", "oneof", "or", "like", "names", "most", "for", "instead", "default", "otherwise", "form", "flag", "doc", "require"}
	words := []string{"required", "nonempty", "template", "scripted", "set", "inverted", "started", "zero", "orfile", "short", "key", "rest", "inline", "outer", "again", "added"}
	count := 0
	eachTag(func(of reflect.Type, f reflect.StructField) {
		rest := string(f.Tag)
		for rest != "" {
			key, value, _ := strings.Cut(rest, ":")
			if !slices.Contains(keys, strings.TrimSpace(key)) {
				t.Errorf("%v.%s: a tag has the key %q", of, f.Name, key)
			}
			_, rest, _ = strings.Cut(value[1:], `"`)
		}
		_, options, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		for option := range strings.SplitSeq(options, ",") {
			option, _, _ = strings.Cut(option, "=")
			if option != "" && !slices.Contains(words, option) {
				t.Errorf("%v.%s: a tag has the word %q", of, f.Name, option)
			}
		}
		count++
	})
	if count < 100 {
		t.Errorf("only %d fields", count)
	}
}

// All declarations of a field agree.
func TestDeclarations(t *testing.T) {
	traits := (&Experiment{}).Traits()
	for _, name := range Protocols() {
		traits["of "+name] = true
	}
	file, _ := Declared()
	var check func(path string, s *fields.Spec)
	check = func(path string, s *fields.Spec) {
		if s.Doc == "" {
			t.Errorf("%s: nothing says what it is", path)
		}
		for _, name := range s.Only {
			if !slices.ContainsFunc(protocols, func(p protocol) bool { return p.is(name) }) {
				t.Errorf("%s: there is no protocol or group %s", path, name)
			}
		}
		for i, d := range s.Defaults {
			value, condition, _ := strings.Cut(d, " ")
			if _, known := traits[condition]; !known && (i > 0 || condition != "") {
				t.Errorf("%s: nothing decides whether %q holds", path, condition)
			}
			of := s
			if s.Kind == fields.List {
				of = s.Item
			}
			if problem, _ := of.ScalarFault(value); problem != "" && value != "none" && value != "{}" && (i > 0 || value != "") {
				t.Errorf("%s: the default is wrong: %s", path, problem)
			}
		}
		for _, below := range []*fields.Spec{s.Item, s.Short} {
			if below != nil {
				for _, f := range below.Fields {
					check(path+"[]."+f.Name, f.Spec)
				}
			}
		}
	}
	file.Walk("", check)
	for path, want := range map[string][2]float64{
		"load.publish.size":     {float64(sse.StampBytes), float64(sse.MaxSize)},
		"target.numa":           {0, units.MaxCPU},
		"target.cgroup.cpu_max": {0.01, units.MaxCPU + 1},
	} {
		if s := DeclaredAt(path); s.Min != want[0] || s.Max != want[1] {
			t.Errorf("%s: from %v to %v, want %v", path, s.Min, s.Max, want)
		}
	}
}

// The words of tags are those that the code goes by.
func TestChoicesAreTheConstants(t *testing.T) {
	for path, want := range map[string][]string{
		"load.clock":                      {ClockAuto, ClockArrival, ClockRead},
		"load.framing":                    {FramingEcho, FramingLine, FramingLength},
		"load.scenario.steps[0].encoding": {EncodingText, EncodingBase64, EncodingHex},
		"load.websocket.encoding":         {EncodingText, EncodingBase64, EncodingHex},
		"load.publish.form":               {FormRaw, FormMercure},
		"load.call.kind":                  {KindAuto, KindUnary, KindClientStream, KindServerStream, KindBidi},
		"load.call.compression":           {CompressionNone, CompressionGzip},
		"load.call.accept":                {CompressionNone, CompressionGzip},
		"load.call.web":                   {WebBinary, WebText},
		"load.ask.api":                    {APIChat, APICompletions, APIResponses},
		"load.open.arrivals":              {ArrivalsConstant, ArrivalsPoisson},
		"design.stop":                     {StopFixed, StopPrecision, StopLooks},
		"observe.kernel":                  {KernelAfter, KernelWindow, KernelNone},
		"observe.endpoints.x.format":      {FormatPrometheus, FormatExpvar},
		"profile.by":                      {BySampling, ByPprof},
		"profile.kinds[0]":                {ProfileCPU, ProfileOffCPU, ProfileHeap, ProfileAllocs, ProfileGoroutine, ProfileMutex, ProfileBlock},
	} {
		if diff := cmp.Diff(want, DeclaredAt(path).Choices, cmpopts.SortSlices(strings.Compare)); diff != "" {
			t.Errorf("%s: %s", path, diff)
		}
	}
}
