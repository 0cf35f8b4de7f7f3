// Package bot_test holds the manifests to what the bot gateway's program takes and listens on.
package bot_test

import (
	"crypto/sha256"
	"encoding/hex"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
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
	"dyno/services/bot"
	"dyno/services/bot/program"
)

// A cluster is what kubernetes.yaml makes.
type cluster struct {
	account core.ServiceAccount
	config  core.ConfigMap
	deploy  apps.Deployment
	service core.Service
	budget  policy.PodDisruptionBudget
	policy  networking.NetworkPolicy
}

func readCluster(t *testing.T) cluster {
	t.Helper()
	text, err := os.ReadFile("kubernetes.yaml")
	if err != nil {
		t.Fatal(err)
	}
	m, err := kubernetes.Read(text)
	if err != nil {
		t.Fatal(err)
	}
	if len(m.Accounts) != 1 || len(m.Configs) != 1 || len(m.Deployments) != 1 || len(m.Services) != 1 || len(m.Budgets) != 1 || len(m.Policies) != 1 || len(m.Sets) != 0 {
		t.Fatalf("want one object of each kind: %+v", m)
	}
	c := cluster{m.Accounts[0], m.Configs[0], m.Deployments[0], m.Services[0], m.Budgets[0], m.Policies[0]}
	for _, o := range []meta.Object{&c.account, &c.config, &c.deploy, &c.service, &c.budget, &c.policy} {
		if o.GetName() != "dyno-bot" || o.GetLabels()["app"] != "dyno-bot" {
			t.Errorf("%T: name %q, labels %v", o, o.GetName(), o.GetLabels())
		}
	}
	return c
}

// readable reads a gateway's configuration in a folder, as the gateway does.
func readable(t *testing.T, file string) bot.Config {
	t.Helper()
	c, err := bot.ReadConfig(file)
	if err == nil {
		err = c.Validate()
	}
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// portOf is the port of an address.
func portOf(t *testing.T, address string) int {
	t.Helper()
	a, err := netip.ParseAddrPort(address)
	if err != nil {
		t.Fatal(err)
	}
	return int(a.Port())
}

// checkArgs holds arguments to the program's flags.
func checkArgs(t *testing.T, args []string) {
	t.Helper()
	flags := program.Flags()
	if err := flags.Parse(args); err != nil || flags.NArg() > 0 {
		t.Errorf("%q: %v", args, err)
	}
}

func write(t *testing.T, dir, name, text string) string {
	t.Helper()
	file := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// TestKubernetes: the manifest's parts fit each other, and the program.
func TestKubernetes(t *testing.T) {
	c := readCluster(t)
	spec := c.deploy.Spec.Template.Spec
	if len(spec.Containers) != 1 {
		t.Fatal("want one container")
	}
	bot := spec.Containers[0]
	checkArgs(t, bot.Args)

	// The configuration, as it is mounted.
	dir := t.TempDir()
	mounts := map[string]string{}
	for _, m := range bot.VolumeMounts {
		mounts[m.Name] = m.MountPath
		if !m.ReadOnly {
			t.Errorf("%s can be written to", m.MountPath)
		}
	}
	for _, v := range spec.Volumes {
		switch {
		case v.ConfigMap != nil && v.ConfigMap.Name == c.config.Name:
			for name, text := range c.config.Data {
				write(t, dir, filepath.Join(mounts[v.Name], name), text)
			}
		case v.Secret != nil && v.Secret.SecretName == "dyno-bot" && *v.Secret.DefaultMode == 0o440:
			for _, item := range v.Secret.Items {
				write(t, dir, filepath.Join(mounts[v.Name], item.Path), "password="+strings.Repeat(item.Key, 4)) // as PostgreSQL has it
			}
		default:
			t.Errorf("volume %+v", v)
		}
	}
	config := readable(t, filepath.Join(dir, bot.Args[1]))
	if config.AdminTokenFile == "" || len(config.Token.Secret) == 0 || config.Postgres == "" || config.Redis == "" || len(config.Keys) != 1 || strings.Trim(config.Keys[0].SHA256, "0") != "" {
		t.Errorf("two gateways share their secret, Redis and PostgreSQL, and no key is known: %+v", config)
	}
	ports := map[string]int{}
	for _, p := range bot.Ports {
		ports[p.Name] = int(p.ContainerPort)
	}
	if want := map[string]int{"http": portOf(t, config.Listen), "admin": portOf(t, config.Admin)}; !reflect.DeepEqual(ports, want) {
		t.Errorf("ports %v, the gateway listens at %v", ports, want)
	}
	annotations := c.deploy.Spec.Template.Annotations
	if annotations["prometheus.io/port"] != strconv.Itoa(ports["admin"]) || annotations["prometheus.io/path"] != "/metrics" {
		t.Errorf("%v", annotations)
	}

	// What it may use.
	for name, p := range map[string]*core.Probe{"/healthz": bot.LivenessProbe, "/readyz": bot.ReadinessProbe} {
		if p.HTTPGet.Path != name || p.HTTPGet.Port.String() != "admin" || p.PeriodSeconds < 1 || p.FailureThreshold < 1 {
			t.Errorf("%s: %+v", name, p)
		}
	}
	if p := bot.StartupProbe; p.HTTPGet.Port.String() != "admin" || p.PeriodSeconds*p.FailureThreshold < 30 {
		t.Errorf("%+v", p)
	}
	if needed := time.Duration(bot.Lifecycle.PreStop.Sleep.Seconds)*time.Second + config.DrainTimeout + 10*time.Second; needed > time.Duration(*spec.TerminationGracePeriodSeconds)*time.Second || bot.Lifecycle.PreStop.Sleep.Seconds == 0 {
		t.Errorf("the end may take %v, and has %d s", needed, *spec.TerminationGracePeriodSeconds)
	}
	if s := spec.SecurityContext; !*s.RunAsNonRoot || *s.RunAsUser == 0 || *s.FSGroup != *s.RunAsUser || s.SeccompProfile.Type != core.SeccompProfileTypeRuntimeDefault {
		t.Errorf("%+v", s)
	}
	if *spec.AutomountServiceAccountToken || *c.account.AutomountServiceAccountToken || spec.ServiceAccountName != c.account.Name {
		t.Errorf("want the account %s without its token: %s", c.account.Name, spec.ServiceAccountName)
	}
	if s := bot.SecurityContext; *s.AllowPrivilegeEscalation || !*s.ReadOnlyRootFilesystem || !slices.Equal(s.Capabilities.Drop, []core.Capability{"ALL"}) {
		t.Errorf("%+v", s)
	}

	// Who finds it, and whom it reaches.
	labels := c.deploy.Spec.Template.Labels
	for _, found := range []map[string]string{c.deploy.Spec.Selector.MatchLabels, c.service.Spec.Selector, c.budget.Spec.Selector.MatchLabels, c.policy.Spec.PodSelector.MatchLabels, spec.TopologySpreadConstraints[0].LabelSelector.MatchLabels} {
		if !reflect.DeepEqual(found, labels) {
			t.Errorf("%v does not select %v", found, labels)
		}
	}
	if a := c.service.Spec.SessionAffinity; a != "ClientIP" { // streams are read on at one gateway
		t.Errorf("session affinity %q", a)
	}
	if p := c.service.Spec.Ports; len(p) != 1 || p[0].TargetPort.String() != "http" {
		t.Errorf("the admin listener is for nobody outside: %+v", p)
	}
	if n, least := *c.deploy.Spec.Replicas, c.budget.Spec.MinAvailable; int(n) <= least.IntValue() || c.deploy.Spec.Strategy.RollingUpdate.MaxUnavailable.String() != "0" {
		t.Errorf("%d replicas, %v are to be there", n, least)
	}
	policy := c.policy.Spec
	if !slices.Equal(policy.PolicyTypes, []networking.PolicyType{"Ingress", "Egress"}) {
		t.Errorf("%v", policy.PolicyTypes)
	}
	for _, in := range policy.Ingress {
		for _, p := range in.Ports {
			if ports[p.Port.String()] == 0 || p.Port.String() == "admin" && len(in.From) == 0 {
				t.Errorf("from %+v to %v", in.From, p.Port)
			}
		}
	}
	needed := map[string]bool{"53": true, "443": true, strings.Split(config.Redis, ":")[1]: true, "5432": true, "9000": true}
	for _, out := range policy.Egress {
		if len(out.To) == 0 {
			t.Errorf("to everybody: %+v", out.Ports)
		}
		for _, p := range out.Ports {
			delete(needed, p.Port.String())
		}
		for _, to := range out.To {
			if to.IPBlock == nil {
				continue
			}
			for _, private := range []string{"10.1.2.3", "127.0.0.1", "169.254.169.254", "172.31.0.1", "192.168.1.1", "100.100.100.200", "168.63.129.16"} {
				if !slices.ContainsFunc(to.IPBlock.Except, func(n string) bool { return netip.MustParsePrefix(n).Contains(netip.MustParseAddr(private)) }) {
					t.Errorf("%s can be called", private)
				}
			}
		}
	}
	if len(needed) > 0 {
		t.Errorf("ports %v cannot be reached", needed)
	}
	if u := config.Upstream.Upstreams[0].URL; !strings.Contains(u, ":9000/") {
		t.Errorf("%s", u)
	}
}

// A compose is compose.yaml, with what of it is used, by the names of the Compose
// Specification.
type compose struct {
	Name     string                    `yaml:"name"`
	Services map[string]composeService `yaml:"services"`
	Networks map[string]struct {
		IPAM struct {
			Config []struct {
				Subnet string `yaml:"subnet"`
			} `yaml:"config"`
		} `yaml:"ipam"`
	} `yaml:"networks"`
	Volumes map[string]struct{} `yaml:"volumes"`
}

type composeService struct {
	Build *struct {
		Context    string `yaml:"context"`
		Dockerfile string `yaml:"dockerfile"`
		Target     string `yaml:"target"`
	} `yaml:"build"`
	Image       string            `yaml:"image"`
	Command     []string          `yaml:"command"`
	Ports       []string          `yaml:"ports"`
	Volumes     []string          `yaml:"volumes"`
	Environment map[string]string `yaml:"environment"`
	Networks    map[string]struct {
		Address string `yaml:"ipv4_address"`
	} `yaml:"networks"`
	DependsOn map[string]struct {
		Condition string `yaml:"condition"`
	} `yaml:"depends_on"`
	Deploy *struct {
		Resources struct {
			Limits struct {
				CPUs   string `yaml:"cpus"`
				Memory string `yaml:"memory"`
			} `yaml:"limits"`
		} `yaml:"resources"`
	} `yaml:"deploy"`
	Healthcheck *struct {
		Test     []string `yaml:"test"`
		Interval string   `yaml:"interval"`
		Timeout  string   `yaml:"timeout"`
		Retries  int      `yaml:"retries"`
	} `yaml:"healthcheck"`
	ReadOnly        bool     `yaml:"read_only"`
	CapDrop         []string `yaml:"cap_drop"`
	SecurityOpt     []string `yaml:"security_opt"`
	StopGracePeriod string   `yaml:"stop_grace_period"`
	Restart         string   `yaml:"restart"`
}

// TestCompose: the services fit each other, the images and the program; secrets.sh makes
// a configuration that the gateway accepts, and a key that it knows.
func TestCompose(t *testing.T) {
	text, err := os.ReadFile("compose.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var c compose
	if err := yaml.UnmarshalWithOptions(text, &c, yaml.Strict()); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "secrets")
	out, err := exec.CommandContext(t.Context(), "./secrets.sh", dir).Output()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if err := exec.CommandContext(t.Context(), "./secrets.sh", dir).Run(); err == nil {
		t.Error("secrets.sh writes over what is there")
	}
	config := readable(t, filepath.Join(dir, "bot.yaml"))
	key := strings.TrimSpace(strings.TrimPrefix(string(out), "API key: "))
	if len(key) != 48 || config.Keys[0].SHA256 != hashOf(key) || len(config.Token.Secret) != 64 || config.AdminTokenFile == "" {
		t.Errorf("%q, %+v", out, config.Keys)
	}
	images, err := os.ReadFile("Containerfile")
	if err != nil {
		t.Fatal(err)
	}
	gateway := c.Services["bot"]
	for name, s := range c.Services {
		if s.Build != nil {
			if !strings.Contains(string(images), " AS "+s.Build.Target+"\n") || s.Build.Dockerfile != "deploy/bot/Containerfile" || s.Build.Context != "../.." {
				t.Errorf("%s: %+v", name, s.Build)
			}
			if !s.ReadOnly || !slices.Equal(s.CapDrop, []string{"ALL"}) || !slices.Equal(s.SecurityOpt, []string{"no-new-privileges:true"}) {
				t.Errorf("%s may do more than it needs", name)
			}
		}
		for _, v := range s.Volumes {
			from, _, _ := strings.Cut(v, ":")
			if _, ok := c.Volumes[from]; !ok && from != "./secrets" {
				t.Errorf("%s: volume %s", name, v)
			}
		}
		for other, d := range s.DependsOn {
			if o, ok := c.Services[other]; !ok || d.Condition == "service_healthy" && o.Healthcheck == nil {
				t.Errorf("%s waits for %s", name, other)
			}
		}
		for _, p := range s.Ports {
			if !strings.HasPrefix(p, "127.0.0.1:") {
				t.Errorf("%s: other machines reach %s", name, p)
			}
		}
	}
	checkArgs(t, gateway.Command)
	if gateway.Command[1] != "/etc/dyno-bot/bot.yaml" || !slices.Contains(gateway.Volumes, "./secrets:/etc/dyno-bot:ro") {
		t.Errorf("%v, %v", gateway.Command, gateway.Volumes)
	}
	want := []string{strconv.Itoa(portOf(t, config.Listen)), strconv.Itoa(portOf(t, config.Admin))}
	var published []string
	for _, p := range gateway.Ports {
		parts := strings.Split(p, ":")
		published = append(published, parts[2])
	}
	if !slices.Equal(published, want) {
		t.Errorf("published %v, the gateway listens at %v", published, want)
	}
	// Addresses: one network, and everybody where the gateway looks for them.
	subnet := netip.MustParsePrefix(c.Networks["inside"].IPAM.Config[0].Subnet)
	if !slices.Equal(config.AllowNetworks, []string{subnet.String()}) {
		t.Errorf("allowed %v, the network is %v", config.AllowNetworks, subnet)
	}
	at := func(name string) string {
		a := c.Services[name].Networks["inside"].Address
		if !subnet.Contains(netip.MustParseAddr(a)) {
			t.Errorf("%s is outside: %s", name, a)
		}
		return a
	}
	at("bot")
	if config.Redis != at("redis")+":6379" || !strings.Contains(config.Postgres, "host="+at("postgres")+" ") || config.Upstream.Upstreams[0].URL != "http://"+at("model")+":9000/v1" || !slices.Contains(c.Services["model"].Command, "0.0.0.0:9000") {
		t.Errorf("redis %s, upstream %s", config.Redis, config.Upstream.Upstreams[0].URL)
	}
	password, err := os.ReadFile(filepath.Join(dir, "postgres.password"))
	if err != nil || !strings.Contains(config.Postgres, "password="+string(password)+" ") {
		t.Errorf("%v: another password", err)
	}
	grace, err := time.ParseDuration(gateway.StopGracePeriod)
	if err != nil || grace < config.DrainTimeout+10*time.Second {
		t.Errorf("%v, %v", grace, err)
	}
}

func hashOf(key string) string {
	sum := sha256.Sum256([]byte(key))
	return hex.EncodeToString(sum[:])
}

// TestCommittedConfig: what is committed knows no key.
func TestCommittedConfig(t *testing.T) {
	text, err := os.ReadFile("bot.yaml")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, name := range []string{"admin.secret", "token.secret", "postgres.secret"} {
		write(t, dir, name, "password="+strings.Repeat("s", 32)) // as PostgreSQL has it
	}
	c := readable(t, write(t, dir, "bot.yaml", string(text)))
	if len(c.Keys) != 1 || strings.Trim(c.Keys[0].SHA256, "0") != "" {
		t.Errorf("%+v", c.Keys)
	}
}
