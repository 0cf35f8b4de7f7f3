// Package fleet_test holds the chart and the Job to what a cluster takes, and to each other.
package fleet_test

import (
	"os"
	"os/exec"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	core "k8s.io/api/core/v1"
	rbac "k8s.io/api/rbac/v1"

	"dyno/deploy/internal/kubernetes"
)

func read(t *testing.T, text []byte) kubernetes.Manifest {
	t.Helper()
	m, err := kubernetes.Read(text)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func readFile(t *testing.T, path string) kubernetes.Manifest {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return read(t, text)
}

func readJob(t *testing.T, path string) core.PodSpec {
	t.Helper()
	m := readFile(t, path)
	if len(m.Jobs) != 1 || *m.Jobs[0].Spec.BackoffLimit != 0 {
		t.Fatalf("want one Job that is not tried again: %+v", m)
	}
	return m.Jobs[0].Spec.Template.Spec
}

// keys returns the keys of the Secrets that secrets.sh makes.
func keys(t *testing.T) map[string][]string {
	t.Helper()
	script, err := os.ReadFile("secrets.sh")
	if err != nil {
		t.Fatal(err)
	}
	all := map[string][]string{}
	for _, line := range regexp.MustCompile(`(?m)^\tsecret (\S+)(.*)$`).FindAllStringSubmatch(string(script), -1) {
		for _, entry := range regexp.MustCompile(` (\S+)=`).FindAllStringSubmatch(line[2], -1) {
			all[line[1]] = append(all[line[1]], entry[1])
		}
	}
	return all
}

// checkPod reports rights that a pod does not need, and files of secrets that nobody makes.
func checkPod(t *testing.T, name string, pod core.PodSpec) {
	t.Helper()
	if s := pod.SecurityContext; *pod.AutomountServiceAccountToken != (name == "Job") || !*s.RunAsNonRoot || *s.FSGroup != *s.RunAsUser || s.SeccompProfile.Type != core.SeccompProfileTypeRuntimeDefault {
		t.Errorf("%s: %+v", name, pod.SecurityContext)
	}
	made := keys(t)
	secrets := map[string][]string{} // by volume
	observes := strings.HasSuffix(name, "dyno-observer")
	if pod.HostPID != observes || pod.HostNetwork || pod.HostIPC {
		t.Errorf("%s: it is in namespaces of its node", name)
	}
	for _, v := range pod.Volumes {
		if v.HostPath != nil && (!observes || v.HostPath.Path != "/sys/fs/cgroup") {
			t.Errorf("%s: volume %+v", name, v)
		}
		if v.Secret == nil {
			continue
		}
		secrets[v.Name] = made[v.Secret.SecretName]
		if len(secrets[v.Name]) == 0 || *v.Secret.DefaultMode != 0o440 {
			t.Errorf("%s: volume %+v", name, v)
		}
	}
	for _, c := range pod.Containers {
		if s := c.SecurityContext; *s.AllowPrivilegeEscalation || !*s.ReadOnlyRootFilesystem || !slices.Equal(s.Capabilities.Drop, []core.Capability{"ALL"}) {
			t.Errorf("%s: %+v", name, s)
		}
		var files []string
		for _, m := range c.VolumeMounts {
			if m.SubPath != "" {
				files = append(files, m.MountPath)
				continue
			}
			for _, key := range secrets[m.Name] {
				files = append(files, m.MountPath+"/"+key)
			}
		}
		var named []string
		for _, e := range c.Env {
			named = append(named, e.Value)
		}
		for _, a := range c.Args {
			if _, value, ok := cut(a); ok {
				named = append(named, value)
			}
		}
		for _, file := range named {
			if file := regexp.MustCompile(`^/etc/dyno/.*\..*`).FindString(file); file != "" && !slices.Contains(files, file) {
				t.Errorf("%s: no secret has %s: %q", name, file, files)
			}
		}
	}
}

func cut(flag string) (name, value string, ok bool) {
	m := regexp.MustCompile(`^(--[a-z-]+)=(.*)$`).FindStringSubmatch(flag)
	if m == nil {
		return "", "", false
	}
	return m[1], m[2], true
}

func TestJob(t *testing.T) {
	for _, path := range []string{"job.yaml", "job-kubernetes.yaml"} {
		checkPod(t, "Job", readJob(t, path))
	}
}

// TestLoad: what dyno --kubernetes makes is what a cluster takes, keeps to the restricted Pod Security Standard, and
// needs no service account. The role is of the account that the Job has which starts such a load.
func TestLoad(t *testing.T) {
	const made = "../../lab/fleet/kubernetes/testdata/"
	m := readFile(t, made+"job.yaml")
	if len(m.Jobs) != 1 {
		t.Fatalf("%+v", m)
	}
	job := m.Jobs[0].Spec
	pod := job.Template.Spec
	c := pod.Containers[0]
	if s := pod.SecurityContext; *pod.AutomountServiceAccountToken || !*s.RunAsNonRoot || s.SeccompProfile.Type != core.SeccompProfileTypeRuntimeDefault {
		t.Errorf("%+v", pod)
	}
	if s := c.SecurityContext; *s.AllowPrivilegeEscalation || !*s.ReadOnlyRootFilesystem || !slices.Equal(s.Capabilities.Drop, []core.Capability{"ALL"}) {
		t.Errorf("%+v", s)
	}
	if !reflect.DeepEqual(c.Resources.Requests, c.Resources.Limits) || len(c.Resources.Limits) != 2 {
		t.Errorf("%+v", c.Resources)
	}
	if *job.Completions != 20 || *job.Parallelism != 20 || *job.ActiveDeadlineSeconds != 180 || job.TTLSecondsAfterFinished == nil ||
		pod.TopologySpreadConstraints[0].LabelSelector.MatchLabels["job-name"] != m.Jobs[0].Name || pod.Volumes[0].Secret.SecretName != m.Jobs[0].Name {
		t.Errorf("%+v", job)
	}
	m = readFile(t, made+"role.yaml")
	account := readJob(t, "job-kubernetes.yaml").ServiceAccountName
	if len(m.Accounts) != 1 || len(m.Roles) != 1 || len(m.Bindings) != 1 || m.Accounts[0].Name != account || m.Bindings[0].Subjects[0].Name != account || m.Bindings[0].RoleRef.Name != m.Roles[0].Name {
		t.Errorf("%+v", m)
	}
	for _, rule := range m.Roles[0].Rules {
		if slices.Contains(rule.Resources, "secrets") && !slices.Equal(rule.Verbs, []string{"create"}) {
			t.Errorf("Secrets can be read: %+v", rule)
		}
	}
}

// TestChart: both forms of the chart are what a cluster takes, and the Job fits them.
func TestChart(t *testing.T) {
	if _, err := exec.LookPath("helm"); err != nil {
		t.Skip("helm is not installed: scripts/nightly.sh kubernetes installs it and runs this test")
	}
	job := readJob(t, "job.yaml")
	for _, kind := range []string{"DaemonSet", "Deployment"} {
		text, err := exec.CommandContext(t.Context(), "helm", "template", "chart", "--set", "agents.kind="+kind+",agents.labels.zone=a,agents.networks[0]=10.0.0.0/8,observers.enabled=true,observers.namespaces[0]=shop").Output()
		if err != nil {
			t.Fatal(err)
		}
		m := read(t, text)
		pods := map[string]core.PodSpec{}
		for _, d := range m.Daemons {
			pods[d.Name] = d.Spec.Template.Spec
		}
		for _, d := range m.Deployments {
			pods[d.Name] = d.Spec.Template.Spec
		}
		for _, s := range m.Sets {
			pods[s.Name] = s.Spec.Template.Spec
		}
		for name, pod := range pods {
			checkPod(t, kind+": "+name, pod)
		}
		if len(pods) != 4 || len(m.Services) != 2 || len(m.Claims) != 1 || len(m.Accounts) != 2 || (len(m.Daemons) == 2) != (kind == "DaemonSet") {
			t.Fatalf("%s: %+v", kind, m)
		}
		agent := pods["dyno-agent"].Containers[0]
		for _, flag := range []string{"--label=zone=a", "--network=10.0.0.0/8"} {
			if !slices.Contains(agent.Args, flag) {
				t.Errorf("%s: %q has no %s", kind, agent.Args, flag)
			}
		}
		observer := pods["dyno-observer"].Containers[0]
		for _, flag := range []string{"--observe", "--label=observes=pods", "--label=node=$(NODE)"} {
			if !slices.Contains(observer.Args, flag) {
				t.Errorf("%s: %q has no %s", kind, observer.Args, flag)
			}
		}
		if mount := observer.VolumeMounts[2]; mount.MountPath != "/sys/fs/cgroup" || !mount.ReadOnly {
			t.Errorf("%s: %+v", kind, mount)
		}
		if !slices.Contains(job.Containers[0].Args, "--fleet=observes!=pods") {
			t.Errorf("observers carry the load of %q", job.Containers[0].Args)
		}
		var namespaces []string
		for i, r := range m.Roles {
			b := m.Bindings[i]
			if !reflect.DeepEqual(r.Rules, []rbac.PolicyRule{{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"list"}}}) ||
				b.Namespace != r.Namespace || b.RoleRef.Name != r.Name || b.Subjects[0].Name != job.ServiceAccountName {
				t.Errorf("%s: %+v bound by %+v", kind, r, b)
			}
			namespaces = append(namespaces, r.Namespace)
		}
		if !slices.Equal(namespaces, []string{"default", "shop"}) {
			t.Errorf("%s: Jobs find pods in %q", kind, namespaces)
		}
		env := job.Containers[0].Env[:3]
		for _, of := range []string{"dyno-agent", "dyno-authority", "dyno-observer"} {
			if got := pods[of].Containers[0].Env[:3]; !reflect.DeepEqual(got, env) {
				t.Errorf("%s: %s asks the control plane by %+v, the Job by %+v", kind, of, got, env)
			}
		}
		if claim := job.Volumes[2].PersistentVolumeClaim; claim == nil || claim.ClaimName != m.Claims[0].Name || !slices.ContainsFunc(m.Accounts, func(a core.ServiceAccount) bool { return a.Name == job.ServiceAccountName }) || agent.Image != job.Containers[0].Image {
			t.Errorf("%s: the Job has another claim, account or image: %+v", kind, job)
		}
	}
}
