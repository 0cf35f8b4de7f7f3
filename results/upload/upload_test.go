package upload

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// A fakeStore keeps objects as S3 does, as far as Upload needs that: it checks that requests are signed, and no
// signatures.
type fakeStore struct {
	mu    sync.Mutex // guards what follows
	names []string   // in the order in which they came
	texts map[string]string
	full  bool
}

func (f *fakeStore) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	bucket, name, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	refuse := func(status int, code string) {
		w.Header().Set("Content-Type", "application/xml")
		w.WriteHeader(status)
		fmt.Fprintf(w, "<Error><Code>%s</Code><Message>%s</Message></Error>", code, code)
	}
	switch {
	case !strings.Contains(r.Header.Get("Authorization"), "Credential=key/"):
		refuse(http.StatusForbidden, "AccessDenied")
	case bucket != "dyno":
		refuse(http.StatusNotFound, "NoSuchBucket")
	case r.Method == http.MethodPut && f.full:
		refuse(http.StatusForbidden, "QuotaExceeded")
	case r.Method == http.MethodPut:
		text, err := io.ReadAll(r.Body)
		if err != nil {
			refuse(http.StatusBadRequest, "IncompleteBody")
			return
		}
		f.names, f.texts[name] = append(f.names, name), string(text)
		w.Header().Set("ETag", `"0"`)
	default:
		w.Header().Set("Content-Type", "application/xml")
		fmt.Fprint(w, "<LocationConstraint></LocationConstraint>")
	}
}

func serve(t *testing.T) *fakeStore {
	f := &fakeStore{texts: map[string]string{}}
	server := httptest.NewServer(f)
	t.Cleanup(server.Close)
	for name, value := range map[string]string{
		"AWS_ENDPOINT_URL": server.URL, "AWS_ENDPOINT_URL_S3": "", "AWS_REGION": "here",
		"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_SESSION_TOKEN": "",
	} {
		t.Setenv(name, value)
	}
	return f
}

func TestUpload(t *testing.T) {
	f := serve(t)
	dir := filepath.Join(t.TempDir(), "run-1")
	want := map[string]string{"run.json": "{}", "trials/0001-a/trial.json": "{1}", "series.csv": "", "zz": "last by name"}
	for name, text := range want {
		file := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, ".lock"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := Open(t.Context(), "s3://dyno/nightly/builds/")
	if err != nil {
		t.Fatal(err)
	}
	url, err := s.Upload(t.Context(), dir)
	if err != nil || url != "s3://dyno/nightly/builds/run-1" {
		t.Fatalf("%q, %v", url, err)
	}
	for name, text := range want {
		if got, ok := f.texts["nightly/builds/run-1/"+name]; !ok || !strings.Contains(got, text) {
			t.Errorf("%s: %q, want %q", name, got, text)
		}
	}
	if len(f.names) != len(want) || !strings.HasSuffix(f.names[len(f.names)-1], "/run.json") {
		t.Errorf("uploaded %q", f.names)
	}

	f.names, f.full = nil, true
	if _, err := s.Upload(t.Context(), dir); err == nil || !strings.Contains(err.Error(), "QuotaExceeded") {
		t.Errorf("a store that is full: %v", err)
	}
	if slices.Contains(f.names, "nightly/builds/run-1/run.json") {
		t.Error("what failed looks whole")
	}
}

func TestOpenFaults(t *testing.T) {
	serve(t)
	if _, err := Open(t.Context(), "s3://other"); err == nil || !strings.Contains(err.Error(), "there is no such bucket") {
		t.Errorf("no bucket: %v", err)
	}
	t.Setenv("AWS_ACCESS_KEY_ID", "wrong")
	if _, err := Open(t.Context(), "s3://dyno"); err == nil {
		t.Error("wrong credentials are taken")
	}
	for _, endpoint := range []string{"127.0.0.1:9000", "ftp://127.0.0.1", "http://"} {
		t.Setenv("AWS_ENDPOINT_URL", endpoint)
		if _, err := Open(t.Context(), "s3://dyno"); err == nil || !strings.Contains(err.Error(), "AWS_ENDPOINT_URL") {
			t.Errorf("%s: %v", endpoint, err)
		}
	}
}
