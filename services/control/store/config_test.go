package store

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
)

// TestConfig: every fault is reported at once.
func TestConfig(t *testing.T) {
	good := Defaults()
	good.Dir = "x"
	if err := good.Validate(); err != nil {
		t.Errorf("defaults: %v", err)
	}
	bad := Config{Cert: "c", User: "u", Prefix: "p", Endpoints: []string{"nowhere"}, Timeout: -1}
	err := bad.Validate()
	for _, want := range []string{"etcd[0]", "etcd_cert", "etcd_ca", "etcd_user", "etcd_prefix", "max_inflight_txns", "group_requests", "group_bytes", "queue", "store_timeout", "head_period", "audit_age"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: says nothing of %q", err, want)
		}
	}
	embedded := Defaults()
	embedded.Dir, embedded.CA, embedded.Quota = "x", "ca", 1
	err = embedded.Validate()
	for _, want := range []string{"etcd_ca: credentials", "quota"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: says nothing of %q", err, want)
		}
	}
}

// TestAway: a cluster that does not answer is said to be unavailable, in time.
func TestAway(t *testing.T) {
	c := Defaults()
	c.Endpoints = []string{"127.0.0.1:1"}
	c.Timeout = 300 * time.Millisecond
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, err := Open(ctx, c); !errors.Is(err, ErrUnavailable) {
		t.Errorf("opened: %v", err)
	}
}

// TestLog: etcd's warnings reach the log with their fields, and what is no warning of ours
// does not.
func TestLog(t *testing.T) {
	var text bytes.Buffer
	l := zap.New(zapCore{handler: slog.NewTextHandler(&text, nil)}).With(zap.String("member", "a"))
	l.Info("fine")
	l.Warn(ownStoreWarnings[0] + ". This is not recommended for production.")
	l.Warn("slow disk", zap.Int("ms", 5))
	l.Error("broken")
	if got := text.String(); strings.Count(got, "\n") != 2 || !strings.Contains(got, `level=WARN msg="etcd: slow disk"`) ||
		!strings.Contains(got, "member=a") || !strings.Contains(got, "ms=5") || !strings.Contains(got, "level=ERROR") {
		t.Errorf("log:\n%s", got)
	}
}
