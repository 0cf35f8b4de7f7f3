package kubernetes

import (
	"strings"
	"testing"
)

const manifest = `# a comment
apiVersion: v1
kind: Service
metadata: {name: a, labels: {app: a}}
spec:
  ports:
    - {name: http, port: 80, targetPort: http}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: a}
spec:
  replicas: 2
  template:
    spec:
      containers:
        - name: a
          ports: [{name: http, containerPort: 8000}]
          resources: {limits: {cpu: 800m}}
          readinessProbe: {httpGet: {path: /readyz, port: http}}
---
apiVersion: v1
kind: Service
metadata: {name: b}
`

func TestRead(t *testing.T) {
	m, err := Read([]byte(manifest))
	if err != nil {
		t.Fatal(err)
	}
	if len(m.Services) != 2 || len(m.Deployments) != 1 || m.Services[0].Labels["app"] != "a" || m.Services[1].Name != "b" {
		t.Errorf("%+v", m)
	}
	d := m.Deployments[0].Spec
	if *d.Replicas != 2 || d.Template.Spec.Containers[0].Ports[0].ContainerPort != 8000 || d.Template.Spec.Containers[0].Resources.Limits.Cpu().String() != "800m" {
		t.Errorf("%+v", d)
	}
}

// TestFaults: what a cluster would drop, or refuse, is found.
func TestFaults(t *testing.T) {
	for _, change := range [][3]string{
		{"readinessProbe", "readynessProbe", "document 2, Deployment"},
		{"containerPort", "containerport", "document 2, Deployment"},
		{"replicas: 2", "replicas: two", "document 2, Deployment"},
		{"limits:", "limit:", "document 2, Deployment"},
		{"replicas: 2", "replicas: 2\n  replicas: 3", "document 2"},
		{"kind: Deployment", "kind: ReplicaSet", `"ReplicaSet" of version "apps/v1" is not known`},
		{"apps/v1", "apps/v1beta1", "document 2, Deployment"},
		{"metadata: {name: b}", "metadata: {name: b", "document 3"},
	} {
		if _, err := Read([]byte(strings.Replace(manifest, change[0], change[1], 1))); err == nil || !strings.Contains(err.Error(), change[2]) {
			t.Errorf("%s: %v", change[1], err)
		}
	}
}
