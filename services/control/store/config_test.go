package store

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"
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
	for _, want := range []string{"etcd 1", "etcd certificate", "etcd CA", "etcd user", "prefix", "lanes", "group requests", "group bytes", "queue", "timeout", "head period", "journal age"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: says nothing of %q", err, want)
		}
	}
	embedded := Defaults()
	embedded.Dir, embedded.CA, embedded.Quota = "x", "ca", 1
	err = embedded.Validate()
	for _, want := range []string{"etcd credentials", "quota"} {
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
