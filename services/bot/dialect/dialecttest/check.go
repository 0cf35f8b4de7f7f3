package dialecttest

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"
	"pgregory.net/rapid"

	"dyno/services/bot/dialect"
	"dyno/services/bot/openai"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// An Order checks the order of a stream's events. The zero value is ready.
type Order struct{ began, open, ended bool }

// Check returns an error for an event that must not come now.
func (o *Order) Check(e *dialect.Event) error {
	var ok bool
	switch e.Kind {
	case dialect.Begin:
		ok, o.began = !o.began, true
	case dialect.Open:
		ok, o.open = o.began && !o.open, true
	case dialect.Piece:
		ok = o.open
	case dialect.Close:
		ok, o.open = o.open, false
	case dialect.Finish:
		ok = o.began && !o.open
	case dialect.Fault:
		ok = true
	}
	if !ok || o.ended {
		return fmt.Errorf("%s must not come now (%+v)", e.Kind, *o)
	}
	o.ended = e.Kind == dialect.Finish || e.Kind == dialect.Fault
	return nil
}

// End returns an error if the stream is not complete.
func (o *Order) End() error {
	if !o.ended {
		return errors.New("neither finish nor fault")
	}
	return nil
}

// Dump writes a value as JSON: without zero fields, and with names for enumerations.
func Dump(v any) string { return string(dialect.Append(nil, plain(reflect.ValueOf(v)))) }

func plain(v reflect.Value) any {
	switch own := v.Interface().(type) {
	case fmt.Stringer:
		return own.String()
	case json.RawMessage:
		return own
	}
	switch v.Kind() {
	case reflect.Pointer:
		return plain(v.Elem())
	case reflect.Slice:
		list := []any{}
		for i := range v.Len() {
			list = append(list, plain(v.Index(i)))
		}
		return list
	case reflect.Struct:
		fields := map[string]any{}
		for f, value := range v.Fields() {
			if empty := value.IsZero() || (f.Type.Kind() == reflect.Slice || f.Type.Kind() == reflect.Map) && value.Len() == 0; f.IsExported() && !empty {
				fields[f.Name] = plain(value)
			}
		}
		return fields
	}
	return v.Interface()
}

// features are those that a request uses, without a repetition.
func features(r *dialect.Request) (list []dialect.Feature) {
	for _, u := range r.Uses() {
		list = append(list, u.Feature)
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// RoundTrips checks that what one form writes, the other reads unchanged: requests with the server's features, whole
// answers and streams that f can express. Form changes a request to what is left of it by the form; nil changes nothing.
func RoundTrips(t *testing.T, c dialect.Client, s dialect.Server, f Form, form func(*dialect.Request)) {
	t.Run("requests", func(t *testing.T) {
		rapid.Check(t, func(t *rapid.T) {
			has := func(feature dialect.Feature) bool { return s.Says(feature) && !slices.Contains(f.Silent, feature) }
			want := Requests(has).Draw(t, "request")
			if form != nil {
				form(want)
			}
			body, err := s.AppendRequest(nil, want, want.Model)
			if err != nil {
				t.Fatal(err)
			}
			got, err := c.ReadRequest(body)
			if err != nil {
				t.Fatalf("%s: %v", body, err)
			}
			same(t, string(body), got, want)
			same(t, string(body), features(got), features(want))
		})
	})
	t.Run("answers", func(t *testing.T) {
		rapid.Check(t, func(t *rapid.T) {
			want := Answers(f).Draw(t, "answer")
			body := c.AppendAnswer(nil, &dialect.Request{}, want)
			got, err := s.ReadAnswer(body)
			if err != nil {
				t.Fatalf("%s: %v", body, err)
			}
			same(t, string(body), got, want)
		})
	})
	t.Run("streams", func(t *testing.T) {
		rapid.Check(t, func(t *rapid.T) {
			want := Answers(f).Draw(t, "answer")
			w := c.NewWriter(&dialect.Request{Stream: true, IncludeUsage: true})
			var stream []byte
			Split(t, want, func(e *dialect.Event) { stream = w.Append(stream, e) })
			got, err := Read(s.NewReader(), stream)
			if err != nil {
				t.Fatalf("%s: %v", stream, err)
			}
			same(t, string(stream), &got.Answer, want)
		})
	})
}

func same(t *rapid.T, wire string, got, want any) {
	t.Helper()
	if g, w := Dump(got), Dump(want); g != w {
		t.Fatalf("%s:\n%s\nwant\n%s", wire, g, w)
	}
}

// Read reads a whole stream. The error is one of its form, of an incomplete stream, or of the order of the events.
func Read(r dialect.Reader, stream []byte) (fold dialect.Fold, err error) {
	var order Order
	each := func(e *dialect.Event) {
		if err = errors.Join(err, order.Check(e)); err == nil {
			fold.Add(e)
		}
	}
	frames := openai.NewReader(bytes.NewReader(stream))
	for {
		frame, fault := frames.Next()
		if errors.Is(fault, io.EOF) || errors.Is(fault, openai.ErrCut) {
			fault = r.End(each)
			return fold, errors.Join(err, fault, order.End())
		}
		if fault == nil {
			fault = r.Read(frame, each)
		}
		if fault != nil {
			return fold, errors.Join(err, fault)
		}
	}
}

// Golden compares what two forms make of the files of testdata/FOLDER with the files' other sections. A file has a section
// "request", "answer" or "stream", as a client or a server sends it.
func Golden(t *testing.T, folder string, c dialect.Client, s dialect.Server) {
	names, _ := filepath.Glob(filepath.Join("testdata", folder, "*.txtar"))
	for _, name := range names {
		t.Run(strings.TrimSuffix(filepath.Base(name), ".txtar"), func(t *testing.T) {
			archive, err := txtar.ParseFile(name)
			if err != nil || len(archive.Files) == 0 {
				t.Fatal("no sections", err)
			}
			in := archive.Files[0]
			got := txtar.Archive{Comment: archive.Comment, Files: []txtar.File{in}}
			add := func(section, text string) {
				got.Files = append(got.Files, txtar.File{Name: section, Data: []byte(strings.TrimRight(text, "\n") + "\n")})
			}
			translate(c, s, in, add)
			if wrote := txtar.Format(&got); *update {
				if err := os.WriteFile(name, wrote, 0o644); err != nil {
					t.Fatal(err)
				}
			} else if want := txtar.Format(archive); !bytes.Equal(wrote, want) {
				t.Errorf("%s\nwant\n%s\n(-update rewrites it)", wrote, want)
			}
		})
	}
	if len(names) == 0 {
		t.Fatal("testdata has no files")
	}
}

// Seeds returns the first sections of this name of the files of testdata, to fuzz with.
func Seeds(section string) (list []string) {
	names, _ := filepath.Glob("testdata/*.txtar")
	for _, name := range names {
		if archive, err := txtar.ParseFile(name); err == nil && archive.Files[0].Name == section {
			list = append(list, string(archive.Files[0].Data))
		}
	}
	return list
}

// translate adds the sections that follow from the first.
func translate(c dialect.Client, s dialect.Server, in txtar.File, add func(section, text string)) {
	switch in.Name {
	case "request":
		r, err := c.ReadRequest(in.Data)
		if err != nil {
			add("error", err.Error())
			return
		}
		add("neutral", indented([]byte(Dump(r))))
		add("uses", strings.ReplaceAll(strings.Trim(fmt.Sprint(r.Uses()), "[]"), "} {", "}\n{"))
		fitting, _, err := r.Fit(s, nil)
		if err != nil {
			add("misfit", err.Error())
			return
		}
		body, err := s.AppendRequest(nil, fitting, "model-of-server")
		add("server", fmt.Sprint(indented(body), errorText(err)))
	case "answer":
		a, err := s.ReadAnswer(in.Data)
		if err != nil {
			add("error", err.Error())
			return
		}
		add("neutral", indented([]byte(Dump(a))))
		add("client", indented(c.AppendAnswer(nil, &dialect.Request{}, a)))
	case "stream":
		fold, err := Read(s.NewReader(), in.Data)
		add("neutral", indented([]byte(Dump(fold)))+errorText(err))
		w, stream := c.NewWriter(&dialect.Request{Stream: true, IncludeUsage: true}), []byte(nil)
		if err == nil && fold.Fault == nil {
			fold.Answer.Events(func(e *dialect.Event) { stream = w.Append(stream, e) })
			add("client", string(stream))
		} else if err == nil {
			add("client", string(w.Append(stream, &dialect.Event{Kind: dialect.Fault, Fault: *fold.Fault})))
		}
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return "\nerror: " + err.Error()
}

func indented(body []byte) string {
	var b bytes.Buffer
	if json.Indent(&b, body, "", "  ") != nil {
		return string(body)
	}
	return b.String()
}

// FuzzReadRequest fuzzes a client's ReadRequest: a request has a model and a message, or a *dialect.FieldError names a
// field.
func FuzzReadRequest(f *testing.F, c dialect.Client, seeds ...string) {
	for _, seed := range seeds {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		r, err := c.ReadRequest(body)
		var fault *dialect.FieldError
		switch {
		case err == nil && (r.Model == "" || len(r.Messages) == 0):
			t.Error("a request without a model or a message")
		case err != nil && (!errors.As(err, &fault) || fault.Field == "" || fault.Text == ""):
			t.Errorf("%#v names no field", err)
		}
	})
}

// FuzzReadAnswer fuzzes a server's ReadAnswer: an answer can be written by c, or the error is one of package openai.
func FuzzReadAnswer(f *testing.F, c dialect.Client, s dialect.Server, seeds ...string) {
	for _, seed := range seeds {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		a, err := s.ReadAnswer(body)
		switch {
		case err == nil && !json.Valid(c.AppendAnswer(nil, &dialect.Request{}, a)):
			t.Error("the client's answer is no JSON")
		case err != nil && !errors.Is(err, openai.ErrForm) && !errors.Is(err, openai.ErrNone):
			t.Errorf("%v is neither openai.ErrForm nor openai.ErrNone", err)
		}
	})
}

// FuzzReader fuzzes a server's reader: its events come in order, and c can write them.
func FuzzReader(f *testing.F, c dialect.Client, s dialect.Server, seeds ...string) {
	for _, seed := range seeds {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, stream []byte) {
		var order Order
		r, w := s.NewReader(), c.NewWriter(&dialect.Request{Stream: true})
		each := func(e *dialect.Event) {
			if err := order.Check(e); err != nil {
				t.Fatal(err)
			}
			w.Append(nil, e)
		}
		frames := openai.NewReader(bytes.NewReader(stream))
		for frame, err := frames.Next(); err == nil; frame, err = frames.Next() {
			if order.ended || r.Read(frame, each) != nil {
				return
			}
		}
		if err := r.End(each); err == nil && !order.ended {
			t.Error("End reports no error for a stream that has not ended")
		}
	})
}
