// Package events_test holds the hub's manifest to what the hub takes and listens on.
package events_test

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
	core "k8s.io/api/core/v1"

	"dyno/deploy/internal/kubernetes"
	"dyno/hub"
	"dyno/internal/settings"
	"dyno/services/events"
)

// configure returns the hub's configuration by a container's arguments, with its variables and its secrets in place.
func configure(t *testing.T, c core.Container) events.Config {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"admin.secret", "publisher.secret"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(strings.Repeat("s", 40)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	change := []string{c.VolumeMounts[0].MountPath, dir}
	for _, e := range c.Env {
		change = append(change, "$("+e.Name+")", e.Value)
	}
	args := make([]string, len(c.Args))
	for i, a := range c.Args {
		args[i] = strings.NewReplacer(change...).Replace(a)
	}
	config := events.Defaults()
	s := settings.New(&config)
	flags := pflag.NewFlagSet("events", pflag.ContinueOnError)
	s.AddFlags(flags)
	if err := flags.Parse(args[2:]); err != nil || !slices.Equal(args[:2], []string{"serve", "events"}) || flags.NArg() > 0 {
		t.Fatalf("%q: %v", args, err)
	}
	s.Read()
	config.Complete(s.Given)
	if err := s.Validate(config.Check); err != nil {
		t.Fatal(err)
	}
	return config
}

func portOf(address string) int {
	n, _ := strconv.Atoi(address[strings.LastIndexByte(address, ':')+1:])
	return n
}

// The manifest's parts fit each other, and the hub.
func TestKubernetes(t *testing.T) {
	text, err := os.ReadFile("kubernetes.yaml")
	if err != nil {
		t.Fatal(err)
	}
	m, err := kubernetes.Read(text)
	if err != nil {
		t.Fatal(err)
	}
	if len(m.Deployments) != 1 || len(m.Services) != 1 || len(m.Budgets) != 1 || len(m.Policies) != 1 {
		t.Fatalf("want one object of each kind: %+v", m)
	}
	deploy, service, budget, policy := m.Deployments[0].Spec, m.Services[0].Spec, m.Budgets[0].Spec, m.Policies[0].Spec
	pod := deploy.Template.Spec
	c := pod.Containers[0]
	config := configure(t, c)

	// Variables that the hub does not read itself reach it by its arguments.
	if want := (hub.KeepAlive{Idle: 10 * time.Minute, Interval: time.Minute, Count: 3}); config.KeepAlive != want {
		t.Errorf("keep-alive %+v, want %+v", config.KeepAlive, want)
	}
	if config.Publisher == nil || config.AnonymousPublish || config.AdminTokenFile == "" || *deploy.Replicas > 1 && config.Redis.Address == "" {
		t.Errorf("replicas share their history, and who publishes or looks at metrics shows a secret: %+v", config)
	}
	ports := map[string]int{}
	for _, p := range c.Ports {
		ports[p.Name] = int(p.ContainerPort)
	}
	if want := map[string]int{"http": portOf(config.Listen), "admin": portOf(config.Admin)}; !reflect.DeepEqual(ports, want) {
		t.Errorf("ports %v, the hub listens at %v", ports, want)
	}
	if a := deploy.Template.Annotations; a["prometheus.io/port"] != strconv.Itoa(ports["admin"]) {
		t.Errorf("%v", a)
	}
	for path, probe := range map[string]*core.Probe{"/healthz": c.LivenessProbe, "/readyz": c.ReadinessProbe} {
		if probe.HTTPGet.Path != path || probe.HTTPGet.Port.String() != "admin" {
			t.Errorf("%s: %+v", path, probe)
		}
	}
	if end := time.Duration(c.Lifecycle.PreStop.Sleep.Seconds)*time.Second + config.DrainTimeout; end >= time.Duration(*pod.TerminationGracePeriodSeconds)*time.Second {
		t.Errorf("the end may take %v, and has %d s", end, *pod.TerminationGracePeriodSeconds)
	}
	if s, p := c.SecurityContext, pod.SecurityContext; *pod.AutomountServiceAccountToken || !*p.RunAsNonRoot || *s.AllowPrivilegeEscalation || !*s.ReadOnlyRootFilesystem || !slices.Equal(s.Capabilities.Drop, []core.Capability{"ALL"}) {
		t.Errorf("%+v, %+v", s, p)
	}
	for _, selector := range []map[string]string{deploy.Selector.MatchLabels, service.Selector, budget.Selector.MatchLabels, policy.PodSelector.MatchLabels} {
		if !reflect.DeepEqual(selector, deploy.Template.Labels) {
			t.Errorf("%v does not select %v", selector, deploy.Template.Labels)
		}
	}
	if p := service.Ports; len(p) != 1 || p[0].TargetPort.String() != "http" || int(*deploy.Replicas) <= budget.MinAvailable.IntValue() {
		t.Errorf("%+v, %+v", p, budget)
	}
	for _, in := range policy.Ingress {
		if p := in.Ports[0].Port.String(); ports[p] == 0 || p == "admin" && len(in.From) == 0 {
			t.Errorf("from %+v to %v", in.From, p)
		}
	}
	if out := policy.Egress[len(policy.Egress)-1].Ports[0].Port.String(); !strings.HasSuffix(config.Redis.Address, ":"+out) {
		t.Errorf("the hub reaches port %s, Redis is %s", out, config.Redis.Address)
	}
}
