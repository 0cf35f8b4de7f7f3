package bot

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"dyno/services/bot/openai"
	"dyno/services/bot/store"
)

// form answers uploads with what they have: the model, the bytes of the file, and whether they are as sent.
func (d *documented) form(w http.ResponseWriter, r *http.Request, path string, body []byte) {
	r.Body = io.NopCloser(bytes.NewReader(body))
	if err := r.ParseMultipartForm(1 << 20); err != nil {
		d.t.Errorf("%v", err)
		return
	}
	var size int64
	whole := "whole"
	for _, list := range r.MultipartForm.File {
		f, err := list[0].Open()
		if err != nil {
			d.t.Error(err)
			return
		}
		text, _ := io.ReadAll(f)
		size += int64(len(text))
		if len(bytes.Trim(text, "\x01")) > 0 || list[0].Filename == "" {
			whole = "changed"
		}
	}
	said := fmt.Sprintf("%s %d %s", strings.Join(r.MultipartForm.Value["model"], ","), size, whole)
	w.Header().Set("Content-Type", "application/json")
	switch form := r.FormValue("response_format"); {
	case strings.HasPrefix(path, "/images/"):
		fmt.Fprintf(w, `{"created":1713833628,"data":[{"b64_json":%q}],"usage":{"total_tokens":30,"input_tokens":20,"output_tokens":10}}`, said)
	case form == "text":
		w.Header().Set("Content-Type", "text/plain")
		_, _ = io.WriteString(w, said)
	case form == "verbose_json":
		fmt.Fprintf(w, `{"task":"transcribe","language":"english","duration":8.47,"text":%q,"segments":[]}`, said)
	case r.FormValue("model") == "own-1":
		fmt.Fprintf(w, `{"text":%q,"usage":{"type":"tokens","input_tokens":14,"input_token_details":{"text_tokens":0,"audio_tokens":14},"output_tokens":45,"total_tokens":59}}`, said)
	default:
		fmt.Fprintf(w, `{"text":%q,"usage":{"type":"duration","seconds":9}}`, said)
	}
}

// newForm returns a form of a file of a size, with fields before and after it, and its type.
func newForm(t testing.TB, size int, before, after map[string]string) (io.Reader, string) {
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	fields := func(of map[string]string) {
		for name, value := range of {
			if err := w.WriteField(name, value); err != nil {
				t.Fatal(err)
			}
		}
	}
	fields(before)
	part, err := w.CreateFormFile("file", "speech.mp3")
	if err != nil {
		t.Fatal(err)
	}
	_, _ = part.Write(bytes.Repeat([]byte{1}, size))
	fields(after)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return &b, w.FormDataContentType()
}

// send posts a form.
func (b *bed) send(path string, form io.Reader, kind string) (int, string) {
	b.t.Helper()
	r, err := http.NewRequestWithContext(b.t.Context(), http.MethodPost, b.url+path, form)
	if err != nil {
		b.t.Fatal(err)
	}
	r.Header.Set("Content-Type", kind)
	r.Header.Set("Authorization", "Bearer "+secretOf("key"))
	resp, err := b.client.Do(r)
	if err != nil {
		b.t.Fatal(err)
	}
	status, text, _ := b.whole(resp)
	return status, text
}

// Forms pass with the upstream's name of the model, which may come first or last, and are not in memory.
func TestUploads(t *testing.T) {
	const size = 3 << 20
	b, d := atDocumented(t, func(c *Config) {
		c.Upstream.Upstreams[0].Models["whisper"] = "own-2"
		c.MaxBodyBytes = 1000
	})
	for i, c := range []struct {
		path          string
		before, after map[string]string
		want          string
		entry         store.Entry
	}{
		{"/audio/transcriptions", map[string]string{"model": "dyno-1"}, nil, `"own-1 3145728 whole"`, store.Entry{Endpoint: "transcriptions", Prompt: 14, Completion: 45, Unit: "seconds", Units: 193}},
		{"/audio/transcriptions", nil, map[string]string{"model": "whisper"}, `"own-2 3145728 whole"`, store.Entry{Endpoint: "transcriptions", Unit: "seconds", Units: 9}},
		{"/audio/translations", map[string]string{"response_format": "verbose_json"}, map[string]string{"model": "whisper"}, `"own-2 3145728 whole"`, store.Entry{Endpoint: "translations", Unit: "seconds", Units: 9}},
		{"/audio/translations", map[string]string{"response_format": "text"}, map[string]string{"model": "whisper"}, `own-2 3145728 whole`, store.Entry{Endpoint: "translations", Unit: "seconds", Units: 193, Estimated: true}},
		{"/images/edits", map[string]string{"n": "2"}, map[string]string{"model": "dyno-1", "prompt": "a hat"}, `"own-1 3145728 whole"`, store.Entry{Endpoint: "image_edits", Prompt: 20, Completion: 10, Unit: "images", Units: 2}},
		{"/images/variations", nil, map[string]string{"model": "dyno-1"}, `"own-1 3145728 whole"`, store.Entry{Endpoint: "image_variations", Prompt: 20, Completion: 10, Unit: "images", Units: 1}},
	} {
		form, kind := newForm(t, size, c.before, c.after)
		status, text := b.send("/v1"+c.path, form, kind)
		if got := <-d.asked; status != http.StatusOK || !strings.Contains(text, c.want) || got.request != "POST /v1"+c.path {
			t.Errorf("%s: %d %s", c.path, status, text)
		}
		e := b.ledger("key", i+1)[0]
		got := store.Entry{Endpoint: e.Endpoint, Prompt: e.Prompt, Completion: e.Completion, Unit: e.Unit, Units: e.Units, Estimated: e.Estimated}
		if got != c.entry {
			t.Errorf("%s %v %v: got %+v, want %+v", c.path, c.before, c.after, got, c.entry)
		}
	}
	until(t, "the files are gone", func() bool { return b.uploads.Held() == 0 })
}

// A part that hangs is held in its file only.
func TestUploadsAreNotInMemory(t *testing.T) {
	b, d := atDocumented(t, nil)
	const size = 8 << 20
	form, kind := newForm(t, size, nil, map[string]string{"model": "dyno-1"})
	from, to := io.Pipe()
	answered := make(chan string)
	go func() {
		_, text := b.send("/v1/audio/transcriptions", from, kind)
		answered <- text
	}()
	if _, err := io.CopyN(to, form, size); err != nil {
		t.Fatal(err)
	}
	until(t, "most is in the file", func() bool { return b.uploads.Held() > size-1<<20 })
	if n := b.bodies.Held() + b.answers.Held(); n != 0 || b.places.Taken() != 0 {
		t.Errorf("%d bytes are held, and %d places", n, b.places.Taken())
	}
	if _, err := io.Copy(to, form); err != nil {
		t.Fatal(err)
	}
	_ = to.Close()
	if text := <-answered; !strings.Contains(text, "8388608 whole") {
		t.Error(text)
	}
	<-d.asked
}

// An upload is sent again to another upstream.
func TestUploadsAreRetried(t *testing.T) {
	first := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.CopyN(io.Discard, r.Body, 1000)
		panic(http.ErrAbortHandler)
	}))
	t.Cleanup(first.Close)
	b, d := atDocumented(t, func(c *Config) {
		u := modelOf(first.Listener.Addr())
		u.Name, u.Priority, u.Models = "first", -1, map[string]string{"dyno-1": "other"}
		c.Upstream.Upstreams = append(c.Upstream.Upstreams, u)
	})
	form, kind := newForm(t, 100_000, nil, map[string]string{"model": "dyno-1"})
	if status, text := b.send("/v1/audio/transcriptions", form, kind); status != http.StatusOK || !strings.Contains(text, "own-1 100000 whole") {
		t.Errorf("%d %s", status, text)
	}
	<-d.asked
	if e := b.ledger("key", 1)[0]; e.Attempts != 2 || e.Upstream != "up" {
		t.Errorf("%+v", e)
	}
}

// What is at fault is refused before an upstream is asked, and leaves no file.
func TestUploadRefusals(t *testing.T) {
	b, d := atDocumented(t, func(c *Config) {
		c.MaxUploadBytes, c.MaxUploadsBytes = 10_000, 20_000
		c.Keys = []Key{keyOf("key", Limit{Resource: store.Money, Amount: 5000, Window: time.Hour})}
	})
	model := map[string]string{"model": "dyno-1"}
	for _, c := range []struct {
		name          string
		size          int
		before, after map[string]string
		kind          string
		status        int
		text          string
	}{
		{"no form", 1, model, nil, "application/json", 415, "multipart/form-data"},
		{"no boundary", 1, model, nil, "multipart/form-data", 415, "boundary"},
		{"another boundary", 1, model, nil, "multipart/form-data; boundary=x", 400, "read the form"},
		{"no model", 1, nil, nil, "", 400, `"param":"model"`},
		{"two models", 1, model, model, "", 400, `"param":"model"`},
		{"a long model", 1, map[string]string{"model": strings.Repeat("a", 300)}, nil, "", 400, `"param":"model"`},
		{"not a number", 1, model, map[string]string{"n": "many"}, "", 400, "of type int"},
		{"another model", 1, map[string]string{"model": "x"}, nil, "", 404, "model_not_found"},
		{"large", 10_001, model, nil, "", 413, "10000 bytes at most"},
		{"dear", 1, model, nil, "", 400, "request_exceeds_limit"},
	} {
		form, kind := newForm(t, c.size, c.before, c.after)
		if c.kind != "" {
			kind = c.kind
		}
		if status, text := b.send("/v1/audio/transcriptions", form, kind); status != c.status || !strings.Contains(text, c.text) {
			t.Errorf("%s: %d %s", c.name, status, text)
		}
	}
	for _, head := range []string{`form-data; name="other"; name="model"`, `form-data`, `attachment; name="model"`} {
		form := "--b\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\ndyno-1\r\n--b\r\nContent-Disposition: " + head + "\r\n\r\ndyno-2\r\n--b--\r\n"
		if status, text := b.send("/v1/audio/transcriptions", strings.NewReader(form), "multipart/form-data; boundary=b"); status != http.StatusBadRequest || !strings.Contains(text, "a part has no name") {
			t.Errorf("%s: %d %s", head, status, text)
		}
	}
	form, kind := newForm(t, 1000, nil, model)
	if status, text := b.send("/v1/audio/transcriptions", io.LimitReader(form, 500), kind); status != http.StatusBadRequest || !strings.Contains(text, "read the form") {
		t.Errorf("cut: %d %s", status, text)
	}
	share := b.uploads.Grant(nil)
	if !share.Hold(20_000) {
		t.Fatal("files are left")
	}
	form, kind = newForm(t, 100, model, nil)
	if status, text := b.send("/v1/audio/transcriptions", form, kind); status != http.StatusServiceUnavailable || !strings.Contains(text, "overloaded") {
		t.Errorf("%d %s", status, text)
	}
	if len(d.asked) > 0 {
		t.Errorf("asked: %v", <-d.asked)
	}
}

// A form that is accepted is one for the upstream, with one model and the other parts as they were.
func FuzzUpload(f *testing.F) {
	f.Add([]byte("--b\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\nm\r\n--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a\"\r\n\r\n\x00\xff\r\n--b--\r\n"))
	f.Add([]byte("--b\r\nContent-Disposition: form-data; name=n\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\n=32\r\n--b--"))
	g := &Gateway{capacity: newCapacity(&Config{MaxUploadsBytes: 1 << 20}), cfg: Config{MaxUploadBytes: 1 << 16}}
	f.Fuzz(func(t *testing.T, body []byte) {
		r := httptest.NewRequest(http.MethodPost, "/", bytes.NewReader(body))
		r.Header.Set("Content-Type", "multipart/form-data; boundary=b")
		u, refused := g.readUpload(r, &apiKey{shares: &shares{}})
		if refused != nil {
			if refused.Status/100 != 4 {
				t.Fatal(refused)
			}
			return
		}
		defer u.free()
		form, size := u.body("own")
		text, err := io.ReadAll(form)
		if err != nil || int64(len(text)) != size {
			t.Fatalf("%d of %d bytes, %v", len(text), size, err)
		}
		read := func(body []byte, boundary string) (parts []string, err error) {
			for in := multipart.NewReader(bytes.NewReader(body), boundary); ; {
				p, err := in.NextRawPart()
				if err == io.EOF { //nolint:errorlint // a form that is cut has this error within another
					return parts, nil
				}
				if err != nil {
					return nil, err
				}
				value, err := io.ReadAll(p)
				if err != nil {
					return nil, err
				}
				if p.FormName() != "model" {
					parts = append(parts, fmt.Sprint(p.FormName(), p.FileName(), string(value)))
				}
			}
		}
		want, _ := read(body, "b")
		got, err := read(text, u.boundary)
		if a, b := fmt.Sprintf("%q", want), fmt.Sprintf("%q", got); err != nil || a != b {
			t.Fatalf("%s became %s: %v", a, b, err)
		}
		for _, o := range openai.Operations {
			if q, err := openai.Standard().ParseForm(o, u.fields, u.size); err == nil && (q.Estimate.Units < 0 || !json.Valid(q.Body("own"))) {
				t.Fatalf("%+v", q)
			}
		}
	})
}
