package fleet_test

import (
	"context"
	"errors"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"dyno/lab/fleet/agent"
	"dyno/lab/fleet/queue"
	"dyno/lab/fleet/registry"
	"dyno/services/control"
	"dyno/services/control/client"
)

// makeSecrets runs secrets.sh, with stand-ins for the programs that make certificates.
func makeSecrets(t *testing.T) (dir string) {
	t.Helper()
	programs := t.TempDir()
	for name, text := range map[string]string{
		"dyno":    "mkdir -p fleet; for f in token fleet/member.pem fleet/authority.pem; do echo $f >$f; done; exec sleep 60",
		"openssl": "touch control.key control.crt",
	} {
		if err := os.WriteFile(filepath.Join(programs, name), []byte("#!/bin/sh\n"+text+"\n"), 0o700); err != nil { //nolint:gosec // a program
			t.Fatal(err)
		}
	}
	dir = t.TempDir()
	c := exec.CommandContext(t.Context(), "bash", "secrets.sh", dir)
	c.Env = append(os.Environ(), "PATH="+programs+":"+os.Getenv("PATH"))
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return dir
}

// TestPrincipals: in a control plane with the principals of secrets.sh, each can do its work, and nothing else.
func TestPrincipals(t *testing.T) {
	dir := makeSecrets(t)
	c := control.Defaults()
	c.Listen, c.GRPC, c.Admin, c.Principals = "127.0.0.1:0", "", "", filepath.Join(dir, "principals.yaml")
	c.Store.Dir, c.Store.NoSync = t.TempDir(), true
	server, err := control.New(c)
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Listen(); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- server.Serve(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	open := func(name, namespace string) *registry.Registry {
		t.Helper()
		token, err := os.ReadFile(filepath.Join(dir, name+".token"))
		if err != nil {
			t.Fatal(err)
		}
		r, err := registry.Open(registry.Config{Namespace: namespace, Servers: []string{"http://" + server.Addr().String()}, Token: string(token)})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(r.Close)
		return r
	}
	tasks := func(name string) *queue.Queue { return &queue.Queue{Registry: open(name, registry.Queue)} }

	submitted := &queue.Submission{Task: queue.Task{Name: "a"}, Plan: queue.Plan{Source: "password: secret"}}
	if err := tasks("submitter").Submit(t.Context(), []*queue.Submission{submitted}, func(*queue.Task) {}); err != nil {
		t.Fatal(err)
	}
	joined, err := open("agent", registry.Fleet).Join(t.Context(), agent.Info{Name: "a", CPUs: 2}, "127.0.0.1:1", "", func(agent.Terms) {})
	if err != nil {
		t.Fatal(err)
	}
	kept := make(chan error, 1)
	keeping, leave := context.WithCancel(t.Context())
	go func() { kept <- joined.Keep(keeping) }()
	defer func() {
		leave()
		if err := <-kept; err != nil {
			t.Error(err)
		}
	}()

	submit := func(name string) error {
		return tasks(name).Submit(t.Context(), []*queue.Submission{{Task: queue.Task{Name: "a"}}}, func(*queue.Task) {})
	}
	list := func(name string) error { _, _, err := tasks(name).Tasks(t.Context()); return err }
	plan := func(name string) error {
		p, err := tasks(name).Plan(t.Context(), submitted.ID)
		if _, masked := errors.AsType[*registry.BrokenError](err); masked && p.Source == "" {
			err = &client.Problem{Status: http.StatusForbidden}
		}
		return err
	}
	lease := func(namespace string) func(string) error {
		return func(name string) error {
			l, err := open(name, namespace).Lease(t.Context())
			if err == nil {
				err = l.Release(t.Context())
			}
			return err
		}
	}
	agents := func(name string) error { _, _, err := open(name, registry.Fleet).Agents(t.Context()); return err }
	hold := func(name string) error {
		r := open(name, registry.Fleet)
		all, _, err := r.Agents(t.Context())
		if err != nil {
			return err
		}
		h, err := r.Hold(t.Context(), all, nil)
		if err == nil {
			err = h.Release(t.Context())
		}
		return err
	}
	revoke := func(name string) error {
		return open(name, registry.Trust).Revoke(t.Context(), registry.Revocation{Name: "nobody"})
	}
	revoked := func(name string) error { _, err := open(name, registry.Trust).Revoked(t.Context()); return err }
	all := "agent coordinator submitter worker manager"
	for what, c := range map[string]struct {
		do  func(name string) error
		may string
	}{
		"submit a task":           {submit, "submitter worker manager"},
		"list the tasks":          {list, "submitter worker manager"},
		"read a plan":             {plan, "worker"},
		"lease in the queue":      {lease(registry.Queue), "worker"},
		"list the agents":         {agents, "agent coordinator worker manager"},
		"hold machines":           {hold, "agent coordinator worker manager"},
		"revoke":                  {revoke, "manager"},
		"read who is revoked":     {revoked, "agent coordinator worker manager"},
		"register where trust is": {lease(registry.Trust), "manager"},
	} {
		for name := range strings.FieldsSeq(all) {
			err := c.do(name)
			var problem *client.Problem
			refused := errors.As(err, &problem) && problem.Status == http.StatusForbidden
			if may := strings.Contains(" "+c.may+" ", " "+name+" "); may && err != nil || !may && !refused {
				t.Errorf("%s: %s: %v", name, what, err)
			}
		}
	}
}
