package kubernetes

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"dyno/internal/leak"
)

var update = flag.Bool("update", false, "write the golden files")

func TestMain(m *testing.M) { leak.Main(m) }

// golden compares a text with a file. deploy/fleet holds these files to the types of Kubernetes.
func golden(t *testing.T, file string, got []byte) {
	t.Helper()
	file = filepath.Join("testdata", file)
	if *update {
		if err := os.WriteFile(file, got, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s (-want +got); -update writes it:\n%s", file, diff)
	}
}

func TestManifests(t *testing.T) {
	golden(t, "job.yaml", jobManifest("dyno-1a2b3c4d", &Config{Agents: 20, Image: "dyno:dev", CPU: "500m", Memory: "512Mi", Timeout: 2 * time.Minute}))
	golden(t, "role.yaml", Role("load"))
	secret, err := secretManifest("dyno-1a2b3c4d", "8f6f", [][]byte{[]byte("first"), []byte("second")})
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "secret.json", append(secret, '\n'))
}

// A value of a flag cannot add a field to a manifest.
func TestManifestIsQuoted(t *testing.T) {
	text := string(jobManifest("dyno-1", &Config{Agents: 1, Image: "a\"\n          command: [sh]", CPU: "1}, x: {y: 1", Memory: "1Gi"}))
	for _, want := range []string{`image: "a\"\n          command: [sh]"`, `{cpu: "1}, x: {y: 1", memory: "1Gi"}`} {
		if !strings.Contains(text, want) {
			t.Errorf("%s: no %s", text, want)
		}
	}
}

// recorded returns what a real kubectl has printed.
func recorded(t *testing.T, file string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", file))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// What kubectl of a Kubernetes 1.33 printed: the text and the hint of an error, and whether waiting would help.
func TestProblems(t *testing.T) {
	for _, test := range []struct {
		file     string
		affected int
		want     problem
	}{
		{"ready.json", 0, problem{}},
		{"image.json", 2, problem{`ImagePullBackOff: `, imageHint, true}},
		{"unschedulable.json", 2, problem{"Unschedulable: 0/1 nodes are available: 1 Insufficient cpu.", sizeHint, false}},
		{"crashed.json", 2, problem{"its container ended with exit code 2 (Error): dyno: /identity/member.pem: ", imageHint, true}},
	} {
		all, err := parsePods(recorded(t, test.file))
		if err != nil {
			t.Fatal(err)
		}
		got, affected := worst(all)
		if affected != test.affected || !strings.HasPrefix(got.text, test.want.text) || got.hint != test.want.hint || got.final != test.want.final {
			t.Errorf("%s: %d of %+v, want %d of %+v", test.file, affected, got, test.affected, test.want)
		}
		if p := readyPod(all, 1); (p != nil) != (test.affected == 0) || p != nil && p.index() != "1" {
			t.Errorf("%s: %+v is ready", test.file, p)
		}
	}
	got, err := lastEvent(recorded(t, "quota-events.json"), "dyno-quota")
	if err != nil || !got.final || got.hint != sizeHint || !strings.HasPrefix(got.text, "FailedCreate: ") || !strings.Contains(got.text, "exceeded quota: few") {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err := lastEvent(recorded(t, "quota-events.json"), "dyno-other"); err != nil || got.text != "" {
		t.Errorf("%+v, %v", got, err)
	}
}

func FuzzAnswers(f *testing.F) {
	for _, file := range []string{"ready.json", "image.json", "unschedulable.json", "crashed.json", "quota-events.json"} {
		text, err := os.ReadFile(filepath.Join("testdata", file))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if all, err := parsePods(text); err == nil {
			if of, n := worst(all); n > len(all) || (n == 0) != (of.text == "") {
				t.Errorf("%d of %d pods: %+v", n, len(all), of)
			}
			readyPod(all, 0)
		}
		_, _ = lastEvent(text, "dyno-1")
	})
}

// fakeKubectl puts a kubectl on PATH whose get, create and port-forward run these lines of shell, and returns the file
// that it writes its arguments to.
func fakeKubectl(t *testing.T, create, get, forward string) (log string) {
	t.Helper()
	folder := t.TempDir()
	log = filepath.Join(folder, "log")
	script := fmt.Sprintf(`#!/bin/sh
echo "$@" >>%q
case $1 in
create) %s ;;
get) %s ;;
port-forward) %s ;;
esac
`, log, create, get, forward)
	if err := os.WriteFile(filepath.Join(folder, "kubectl"), []byte(script), 0o700); err != nil { //nolint:gosec // a program
		t.Fatal(err)
	}
	t.Setenv("PATH", folder+":"+os.Getenv("PATH"))
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	return log
}

const created = `echo '{"metadata": {"uid": "8f6f", "namespace": "load"}}'`

// podsOf is a line of shell that prints pods of this load that are ready.
func podsOf(indexes ...int) string {
	var items []string
	for _, i := range indexes {
		items = append(items, fmt.Sprintf(`{"metadata": {"name": "pod-%d", "annotations": {"batch.kubernetes.io/job-completion-index": "%[1]d"}}, "status": {"phase": "Running", "containerStatuses": [{"ready": true}]}}`, i))
	}
	return fmt.Sprintf(`echo '{"items": [%s]}'`, strings.Join(items, ","))
}

// forwarded is a line of shell that opens a port, but for the port.
const forwarded = `echo "Forwarding from 127.0.0.1:4${3#pod/pod-} -> 7300"; exec sleep 600`

// commands returns what was asked of kubectl, without what differs from run to run.
func commands(t *testing.T, log string) (all []string) {
	t.Helper()
	text, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if all = append(all, strings.Join(strings.Fields(line)[:2], " ")); strings.HasPrefix(line, "port-forward") {
			all[len(all)-1] = "port-forward"
		}
	}
	return slices.Compact(all)
}

func config(agents int) Config {
	return Config{Agents: agents, Image: "dyno:dev", CPU: "1", Memory: "1Gi", Timeout: time.Minute}
}

// A load's Job is made and removed, and so are the ports, with a kubectl that only pretends to ask a cluster.
// scripts/load-kubernetes.sh has a real one.
func TestStartWithFakeKubectl(t *testing.T) {
	log := fakeKubectl(t, created, podsOf(0, 1), forwarded)
	var reported []string
	j, err := Start(t.Context(), config(2), func(text string) { reported = append(reported, text) })
	if err != nil {
		t.Fatal(err)
	}
	if got := j.Addresses(); !slices.Equal(got, []string{"127.0.0.1:40", "127.0.0.1:41"}) {
		t.Error(got)
	}
	if address, err := j.Locate(t.Context(), j.agents[1].name); address != "127.0.0.1:41" || err != nil {
		t.Error(address, err)
	}
	if _, err := j.Locate(t.Context(), "other"); err == nil {
		t.Error("an agent that is not there has an address")
	}
	if len(reported) != 1 || !strings.HasSuffix(reported[0], "in the namespace load of Kubernetes") {
		t.Error(reported)
	}
	if err := j.Remove(t.Context()); err != nil {
		t.Error(err)
	}
	want := []string{"create --filename=-", "get pods", "port-forward", "patch job", "get pods", "delete job"}
	if diff := cmp.Diff(want, commands(t, log)); diff != "" {
		t.Error(diff)
	}
}

// What a start has made is removed when it fails, and the error has a hint.
func TestFailuresWithFakeKubectl(t *testing.T) {
	for _, test := range []struct {
		name, create, get, forward string
		want, hint                 string
	}{
		{"permission", `echo 'Error from server (Forbidden): jobs.batch is forbidden' >&2; exit 1`, "", "", "kubectl create: Error from server (Forbidden): jobs.batch is forbidden", "--kubernetes-rbac"},
		{"answer", "echo no JSON", "", "", "kubectl create: invalid character", ""},
		{"pods", created, "exit 7", "", "kubectl get: exit status 7", "does kubectl get pods answer?"},
		{"forward", created, podsOf(0), "echo 'error: no route' >&2; exit 1", "kubectl port-forward: error: no route", "does kubectl get pods answer?"},
		{"image", created, "cat testdata/image.json", "", "0 of 1 agents are ready", "--kubernetes-image"},
		{"container", created, "cat testdata/crashed.json", "", "0 of 1 agents are ready", "--kubernetes-image"},
	} {
		t.Run(test.name, func(t *testing.T) {
			log := fakeKubectl(t, test.create, test.get, test.forward)
			_, err := Start(t.Context(), config(1), func(string) {})
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%v, want %s", err, test.want)
			}
			if of, ok := errors.AsType[*Error](err); test.hint != "" && (!ok || !strings.Contains(of.Hint, test.hint)) {
				t.Errorf("%+v, want the hint %s", of, test.hint)
			}
			if all := commands(t, log); all[len(all)-1] != "delete job" {
				t.Error(all)
			}
		})
	}
}

// An interruption ends the wait, and removes the Job.
func TestInterruptedWithFakeKubectl(t *testing.T) {
	log := fakeKubectl(t, created, podsOf(), "")
	ctx, cancel := context.WithCancelCause(t.Context())
	interrupted := errors.New("interrupted")
	_, err := Start(ctx, config(1), func(string) { cancel(interrupted) })
	if !errors.Is(err, interrupted) {
		t.Error(err)
	}
	if all := commands(t, log); all[len(all)-1] != "delete job" {
		t.Error(all)
	}
}

func TestNoKubectl(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	if _, err := Start(t.Context(), config(1), nil); err == nil || !strings.Contains(err.Error(), "kubectl is not there") {
		t.Error(err)
	}
}
