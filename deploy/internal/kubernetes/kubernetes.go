// Package kubernetes reads dyno's manifests with the types of Kubernetes' API, for the tests that
// hold them to the programs. Reading is strict: it finds a field that is misspelt or in the wrong
// place, which a cluster would drop.
package kubernetes

import (
	"bytes"
	"errors"
	"fmt"

	apps "k8s.io/api/apps/v1"
	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	policy "k8s.io/api/policy/v1"
	rbac "k8s.io/api/rbac/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// A Manifest is a file's objects.
type Manifest struct {
	Accounts    []core.ServiceAccount
	Configs     []core.ConfigMap
	Services    []core.Service
	Deployments []apps.Deployment
	Sets        []apps.StatefulSet
	Daemons     []apps.DaemonSet
	Jobs        []batch.Job
	Claims      []core.PersistentVolumeClaim
	Budgets     []policy.PodDisruptionBudget
	Policies    []networking.NetworkPolicy
	Roles       []rbac.Role
	Bindings    []rbac.RoleBinding
}

// Read reads a manifest. Unknown fields, and objects of kinds or versions that Manifest does not list, are errors
// with their place.
func Read(text []byte) (m Manifest, err error) {
	for i, document := range bytes.Split(text, []byte("\n---\n")) {
		var head meta.TypeMeta
		if err := yaml.Unmarshal(document, &head); err != nil {
			return m, fmt.Errorf("document %d: %w", i+1, err)
		}
		switch head.APIVersion + " " + head.Kind {
		case "v1 ServiceAccount":
			err = add(document, &m.Accounts)
		case "v1 ConfigMap":
			err = add(document, &m.Configs)
		case "v1 Service":
			err = add(document, &m.Services)
		case "apps/v1 Deployment":
			err = add(document, &m.Deployments)
		case "apps/v1 StatefulSet":
			err = add(document, &m.Sets)
		case "apps/v1 DaemonSet":
			err = add(document, &m.Daemons)
		case "batch/v1 Job":
			err = add(document, &m.Jobs)
		case "v1 PersistentVolumeClaim":
			err = add(document, &m.Claims)
		case "policy/v1 PodDisruptionBudget":
			err = add(document, &m.Budgets)
		case "networking.k8s.io/v1 NetworkPolicy":
			err = add(document, &m.Policies)
		case "rbac.authorization.k8s.io/v1 Role":
			err = add(document, &m.Roles)
		case "rbac.authorization.k8s.io/v1 RoleBinding":
			err = add(document, &m.Bindings)
		default:
			err = fmt.Errorf("%q of version %q is not known", head.Kind, head.APIVersion)
		}
		if err != nil {
			return m, fmt.Errorf("document %d, %s: %w", i+1, head.Kind, err)
		}
	}
	return m, nil
}

// add reads an object as a cluster does that validates strictly.
func add[T any](document []byte, to *[]T) error {
	encoded, err := yaml.YAMLToJSONStrict(document)
	if err != nil {
		return err
	}
	var object T
	faults, err := json.UnmarshalStrict(encoded, &object)
	*to = append(*to, object)
	return errors.Join(append(faults, err)...)
}
