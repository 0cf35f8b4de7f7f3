// Package control_test holds the manifests to what the control plane's program takes and listens on.
package control_test

import (
	"bytes"
	"io"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	policy "k8s.io/api/policy/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	"dyno/deploy/internal/kubernetes"
	"dyno/services/control/program"
)

// manifests is kubernetes.yaml.
type manifests struct {
	services map[string]core.Service
	budget   policy.PodDisruptionBudget
	network  networking.NetworkPolicy
	set      apps.StatefulSet
}

func readManifests(t *testing.T) manifests {
	t.Helper()
	text, err := os.ReadFile("kubernetes.yaml")
	if err != nil {
		t.Fatal(err)
	}
	m, err := kubernetes.Read(text)
	if err != nil {
		t.Fatal(err)
	}
	services := map[string]core.Service{}
	for _, s := range m.Services {
		services[s.Name] = s
	}
	if len(services) != 2 || len(m.Budgets) != 1 || len(m.Policies) != 1 || len(m.Sets) != 1 || len(m.Accounts)+len(m.Configs)+len(m.Deployments) > 0 {
		t.Fatalf("%+v", m)
	}
	return manifests{services, m.Budgets[0], m.Policies[0], m.Sets[0]}
}

// programFlags are those that the program's help lists.
func programFlags(t *testing.T) []string {
	t.Helper()
	var help bytes.Buffer
	if code := program.Main(t.Context(), []string{"--help"}, &help, io.Discard); code != 0 {
		t.Fatalf("exit code %d", code)
	}
	var flags []string
	for _, m := range regexp.MustCompile(`(?m)^\s+(?:-\w, )?--([a-z0-9-]+)`).FindAllStringSubmatch(help.String(), -1) {
		flags = append(flags, m[1])
	}
	if len(flags) < 50 {
		t.Fatalf("only %d flags in\n%s", len(flags), help.String())
	}
	return flags
}

// arguments reads --name=value, and reports what the program has no flag for.
func arguments(t *testing.T, where string, args []string) map[string]string {
	t.Helper()
	flags := programFlags(t)
	all := map[string]string{}
	for _, a := range args {
		name, value, _ := strings.Cut(strings.TrimPrefix(a, "--"), "=")
		if !strings.HasPrefix(a, "--") || !slices.Contains(flags, name) {
			t.Errorf("%s: the program has no flag %s", where, a)
		}
		all[name] = value
	}
	return all
}

// port is the one of an address.
func port(address string) string { return address[strings.LastIndexByte(address, ':')+1:] }

// listening are the flags with an address to listen at, and what ports they are in manifests.
var listening = map[string]string{"listen": "https", "grpc": "grpc", "admin": "admin", "peer-listen": "peers"}

// Flags, ports, names, probes and secrets of the manifests fit together, and the program.
func TestManifests(t *testing.T) {
	m := readManifests(t)
	set := m.set.Spec
	pod := set.Template.Spec
	if len(pod.Containers) != 1 || *set.Replicas != 3 {
		t.Fatalf("%d containers, %d replicas", len(pod.Containers), *set.Replicas)
	}
	c := pod.Containers[0]
	args := arguments(t, "StatefulSet", c.Args)
	drain, err := time.ParseDuration(args["drain-timeout"])
	if wait := c.Lifecycle.PreStop.Sleep.Seconds; err != nil || wait == 0 || time.Duration(wait)*time.Second+drain >= time.Duration(*pod.TerminationGracePeriodSeconds)*time.Second {
		t.Errorf("%d s, and %v (%v) to drain, do not fit into %d s", wait, drain, err, *pod.TerminationGracePeriodSeconds)
	}
	ports := map[string]string{}
	for _, p := range c.Ports {
		ports[p.Name] = strconv.Itoa(int(p.ContainerPort))
	}
	for flag, name := range listening {
		if got := port(args[flag]); got != ports[name] {
			t.Errorf("--%s=%s: the container's port %s is %s", flag, args[flag], name, ports[name])
		}
		if !strings.HasPrefix(args[flag], "0.0.0.0:") {
			t.Errorf("--%s=%s is not what other pods reach", flag, args[flag])
		}
	}
	for name, s := range m.services {
		for _, p := range s.Spec.Ports {
			if to := p.TargetPort.String(); ports[to] != strconv.Itoa(int(p.Port)) {
				t.Errorf("service %s: %d goes to %s, which is %s", name, p.Port, to, ports[to])
			}
		}
		if s.Spec.Selector["app"] != set.Template.Labels["app"] {
			t.Errorf("service %s selects %v", name, s.Spec.Selector)
		}
	}
	peers := m.services[set.ServiceName]
	if peers.Spec.ClusterIP != "None" || !peers.Spec.PublishNotReadyAddresses {
		t.Errorf("service %s: %+v: replicas find each other by it before they are ready", set.ServiceName, peers.Spec)
	}
	var want []string
	for i := range int(*set.Replicas) {
		name := m.set.Name + "-" + strconv.Itoa(i)
		want = append(want, name+"="+name+"."+set.ServiceName+":"+ports["peers"])
	}
	if args["peers"] != strings.Join(want, ",") {
		t.Errorf("--peers=%s, want %s", args["peers"], strings.Join(want, ","))
	}
	if args["name"] != "$(POD_NAME)" || len(c.Env) != 1 || c.Env[0].Name != "POD_NAME" || c.Env[0].ValueFrom.FieldRef.FieldPath != "metadata.name" {
		t.Errorf("--name=%s, %+v", args["name"], c.Env)
	}
	for name, p := range map[string]*core.Probe{"startup": c.StartupProbe, "readiness": c.ReadinessProbe, "liveness": c.LivenessProbe} {
		wanted := "/readyz"
		if name == "liveness" {
			wanted = "/healthz"
		}
		if p.HTTPGet.Path != wanted || p.HTTPGet.Port.String() != "admin" || p.PeriodSeconds < 1 {
			t.Errorf("%s probe: %+v", name, p)
		}
	}
	// Neither ends a start that the other lets go on.
	if open, err := time.ParseDuration(args["open-timeout"]); err != nil || open != time.Duration(c.StartupProbe.PeriodSeconds*c.StartupProbe.FailureThreshold)*time.Second {
		t.Errorf("--open-timeout=%s, and the startup probe allows %d times %d s", args["open-timeout"], c.StartupProbe.FailureThreshold, c.StartupProbe.PeriodSeconds)
	}
	if args["admin-token-file"] == "" {
		t.Error("every client of the admin's port may read profiles")
	}
	for kind, s := range map[string]*meta.LabelSelector{"StatefulSet": set.Selector, "PodDisruptionBudget": m.budget.Spec.Selector, "NetworkPolicy": &m.network.Spec.PodSelector} {
		if s.MatchLabels["app"] != set.Template.Labels["app"] {
			t.Errorf("%s selects %v", kind, s)
		}
	}
	if n := m.budget.Spec.MaxUnavailable; n.String() != "1" {
		t.Errorf("%v may be away: the others are no majority", n)
	}
	open := map[string]bool{} // ports that the policy names, and whether anybody may reach them
	for _, rule := range m.network.Spec.Ingress {
		for _, p := range rule.Ports {
			open[p.Port.String()] = len(rule.From) == 0
		}
	}
	if len(open) != len(ports) || open["admin"] || open["peers"] || !open["https"] || !open["grpc"] {
		t.Errorf("ports that anybody may reach: %v", open)
	}
	if got := set.Template.Annotations["prometheus.io/port"]; got != ports["admin"] {
		t.Errorf("metrics are looked for at port %s", got)
	}

	// Files that flags name are in volumes that are mounted, and the folder of the data is.
	mounts := map[string]string{}
	for _, v := range c.VolumeMounts {
		mounts[v.MountPath] = v.Name
	}
	volumes := []string{}
	for _, v := range pod.Volumes {
		volumes = append(volumes, v.Name)
		if v.Secret == nil || v.Secret.SecretName == "" || *v.Secret.DefaultMode != 0o440 {
			t.Errorf("volume %s: %+v: want a secret that its group may read", v.Name, v.Secret)
		}
	}
	for _, v := range set.VolumeClaimTemplates {
		volumes = append(volumes, v.Name)
	}
	for flag, value := range args {
		if !strings.HasPrefix(value, "/") {
			continue
		}
		folder := value
		if flag != "data" {
			folder = value[:strings.LastIndexByte(value, '/')]
		}
		if name, ok := mounts[folder]; !ok || !slices.Contains(volumes, name) {
			t.Errorf("--%s=%s is in no volume", flag, value)
		}
	}
	if !*c.SecurityContext.ReadOnlyRootFilesystem || *c.SecurityContext.AllowPrivilegeEscalation || !*pod.SecurityContext.RunAsNonRoot {
		t.Errorf("%+v, %+v", c.SecurityContext, pod.SecurityContext)
	}
}

// A compose file, as far as it is used.
type compose struct {
	Name     string `yaml:"name"`
	Services map[string]struct {
		Image           string            `yaml:"image"`
		Build           map[string]string `yaml:"build"`
		Command         []string          `yaml:"command"`
		Ports           []string          `yaml:"ports"`
		Secrets         []string          `yaml:"secrets"`
		Groups          []string          `yaml:"group_add"`
		Configs         []map[string]string
		Volumes         []string `yaml:"volumes"`
		ReadOnly        bool     `yaml:"read_only"`
		CapDrop         []string `yaml:"cap_drop"`
		SecurityOpt     []string `yaml:"security_opt"`
		StopGracePeriod string   `yaml:"stop_grace_period"`
		Restart         string   `yaml:"restart"`
	} `yaml:"services"`
	Configs map[string]map[string]string `yaml:"configs"`
	Secrets map[string]map[string]string `yaml:"secrets"`
	Volumes map[string]map[string]string `yaml:"volumes"`
}

func TestCompose(t *testing.T) {
	text, err := os.ReadFile("compose.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var c compose
	if err := yaml.UnmarshalWithOptions(text, &c, yaml.Strict()); err != nil {
		t.Fatal(err)
	}
	control := c.Services["control"]
	args := arguments(t, "compose", control.Command)
	for _, p := range control.Ports {
		parts := strings.Split(p, ":")
		if len(parts) != 3 || parts[0] != "127.0.0.1" || parts[1] != parts[2] {
			t.Errorf("%s is not published on the loopback address alone", p)
		}
		if parts[2] != port(args["listen"]) && parts[2] != port(args["grpc"]) && parts[2] != port(args["admin"]) {
			t.Errorf("%s: nobody listens there", p)
		}
	}
	if len(control.Ports) != 3 {
		t.Errorf("%d ports are published", len(control.Ports))
	}
	if args["principals"] != "/run/secrets/"+control.Secrets[0] || c.Secrets[control.Secrets[0]]["file"] == "" {
		t.Errorf("--principals=%s, secrets %v", args["principals"], c.Secrets)
	}
	for _, name := range []string{c.Configs["rules"]["file"], control.Build["dockerfile"]} {
		if _, err := os.Stat(strings.TrimPrefix(name, "deploy/control/")); err != nil {
			t.Error(err)
		}
	}
	token := args["admin-token-file"]
	name := strings.TrimPrefix(token, "/run/secrets/")
	for _, s := range []string{"control", "prometheus"} {
		if !slices.Contains(c.Services[s].Secrets, name) || c.Secrets[name]["file"] == "" {
			t.Errorf("%s has no secret %q: %v", s, name, c.Secrets)
		}
	}
	if !strings.Contains(c.Configs["prometheus"]["content"], "credentials_file: "+token) {
		t.Error("Prometheus does not show the admin's token")
	}
	if !strings.Contains(c.Configs["prometheus"]["content"], "control:"+port(args["admin"])) {
		t.Error("Prometheus does not ask the admin's port")
	}

	image, err := os.ReadFile("Containerfile")
	if err != nil {
		t.Fatal(err)
	}
	m := readManifests(t)
	for _, p := range m.set.Spec.Template.Spec.Containers[0].Ports {
		if !regexp.MustCompile(`(?m)^EXPOSE .*\b` + strconv.Itoa(int(p.ContainerPort)) + `\b`).Match(image) {
			t.Errorf("the image does not name port %d", p.ContainerPort)
		}
	}
	user := strconv.FormatInt(*m.set.Spec.Template.Spec.SecurityContext.RunAsUser, 10)
	if !bytes.Contains(image, []byte("USER "+user+":")) || !bytes.Contains(image, []byte("ENTRYPOINT [\"/"+program.Name+"\"]")) {
		t.Error("the image has another user, or another program")
	}
}
