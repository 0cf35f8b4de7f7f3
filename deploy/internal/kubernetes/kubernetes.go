// Package kubernetes is what dyno's manifests use of Kubernetes' API, by its names, for the
// tests that hold them to the programs. Reading a manifest strictly finds a field that is
// misspelt or in the wrong place, which a cluster would drop.
package kubernetes

import (
	"bytes"
	"fmt"

	"github.com/goccy/go-yaml"
)

// An Object is what every object has.
type Object struct {
	APIVersion string   `yaml:"apiVersion"`
	Kind       string   `yaml:"kind"`
	Metadata   Metadata `yaml:"metadata"`
}

// Metadata says what an object is called.
type Metadata struct {
	Name        string            `yaml:"name"`
	Namespace   string            `yaml:"namespace"`
	Labels      map[string]string `yaml:"labels"`
	Annotations map[string]string `yaml:"annotations"`
}

// A Selector chooses objects by their labels.
type Selector struct {
	MatchLabels map[string]string `yaml:"matchLabels"`
}

// A ServiceAccount is who a pod is to the cluster.
type ServiceAccount struct {
	Object    `yaml:",inline"`
	Automount bool `yaml:"automountServiceAccountToken"`
}

// A ConfigMap is files.
type ConfigMap struct {
	Object `yaml:",inline"`
	Data   map[string]string `yaml:"data"`
}

// A Service is a name for pods.
type Service struct {
	Object `yaml:",inline"`
	Spec   struct {
		ClusterIP                string            `yaml:"clusterIP"`
		PublishNotReadyAddresses bool              `yaml:"publishNotReadyAddresses"`
		Selector                 map[string]string `yaml:"selector"`
		SessionAffinity          string            `yaml:"sessionAffinity"`
		Ports                    []struct {
			Name       string `yaml:"name"`
			Port       int    `yaml:"port"`
			TargetPort string `yaml:"targetPort"`
		} `yaml:"ports"`
	} `yaml:"spec"`
}

// A Budget is how many pods may be away at a time.
type Budget struct {
	Object `yaml:",inline"`
	Spec   struct {
		MinAvailable   int      `yaml:"minAvailable"`
		MaxUnavailable int      `yaml:"maxUnavailable"`
		Selector       Selector `yaml:"selector"`
	} `yaml:"spec"`
}

// A NetworkPolicy is who reaches pods, and whom they reach.
type NetworkPolicy struct {
	Object `yaml:",inline"`
	Spec   struct {
		PodSelector Selector `yaml:"podSelector"`
		PolicyTypes []string `yaml:"policyTypes"`
		Ingress     []struct {
			From  []Peer       `yaml:"from"`
			Ports []PolicyPort `yaml:"ports"`
		} `yaml:"ingress"`
		Egress []struct {
			To    []Peer       `yaml:"to"`
			Ports []PolicyPort `yaml:"ports"`
		} `yaml:"egress"`
	} `yaml:"spec"`
}

// A Peer is the other side of what a policy allows.
type Peer struct {
	NamespaceSelector *Selector `yaml:"namespaceSelector"`
	PodSelector       *Selector `yaml:"podSelector"`
	IPBlock           *struct {
		CIDR   string   `yaml:"cidr"`
		Except []string `yaml:"except"`
	} `yaml:"ipBlock"`
}

// A PolicyPort is a port that a policy allows, by its name or number.
type PolicyPort struct {
	Protocol string `yaml:"protocol"`
	Port     string `yaml:"port"`
}

// A Deployment is pods that are all alike.
type Deployment struct {
	Object `yaml:",inline"`
	Spec   struct {
		Replicas int      `yaml:"replicas"`
		Selector Selector `yaml:"selector"`
		Strategy struct {
			Type          string `yaml:"type"`
			RollingUpdate struct {
				MaxUnavailable int `yaml:"maxUnavailable"`
				MaxSurge       int `yaml:"maxSurge"`
			} `yaml:"rollingUpdate"`
		} `yaml:"strategy"`
		Template Template `yaml:"template"`
	} `yaml:"spec"`
}

// A StatefulSet is pods with names and disks of their own.
type StatefulSet struct {
	Object `yaml:",inline"`
	Spec   struct {
		ServiceName          string   `yaml:"serviceName"`
		Replicas             int      `yaml:"replicas"`
		PodManagementPolicy  string   `yaml:"podManagementPolicy"`
		Selector             Selector `yaml:"selector"`
		Template             Template `yaml:"template"`
		VolumeClaimTemplates []struct {
			Metadata Metadata `yaml:"metadata"`
			Spec     struct {
				AccessModes []string `yaml:"accessModes"`
				Resources   struct {
					Requests map[string]string `yaml:"requests"`
				} `yaml:"resources"`
			} `yaml:"spec"`
		} `yaml:"volumeClaimTemplates"`
	} `yaml:"spec"`
}

// A Template is what pods are made of.
type Template struct {
	Metadata Metadata `yaml:"metadata"`
	Spec     Pod      `yaml:"spec"`
}

// A Pod is containers with what they share.
type Pod struct {
	ServiceAccountName string `yaml:"serviceAccountName"`
	Automount          bool   `yaml:"automountServiceAccountToken"`
	EnableServiceLinks bool   `yaml:"enableServiceLinks"`
	GraceSeconds       int    `yaml:"terminationGracePeriodSeconds"`
	SecurityContext    struct {
		RunAsNonRoot   bool              `yaml:"runAsNonRoot"`
		RunAsUser      int               `yaml:"runAsUser"`
		RunAsGroup     int               `yaml:"runAsGroup"`
		FSGroup        int               `yaml:"fsGroup"`
		SeccompProfile map[string]string `yaml:"seccompProfile"`
	} `yaml:"securityContext"`
	Affinity struct {
		PodAntiAffinity struct {
			Preferred []struct {
				Weight          int `yaml:"weight"`
				PodAffinityTerm struct {
					TopologyKey   string   `yaml:"topologyKey"`
					LabelSelector Selector `yaml:"labelSelector"`
				} `yaml:"podAffinityTerm"`
			} `yaml:"preferredDuringSchedulingIgnoredDuringExecution"`
		} `yaml:"podAntiAffinity"`
	} `yaml:"affinity"`
	Spread []struct {
		MaxSkew           int      `yaml:"maxSkew"`
		TopologyKey       string   `yaml:"topologyKey"`
		WhenUnsatisfiable string   `yaml:"whenUnsatisfiable"`
		LabelSelector     Selector `yaml:"labelSelector"`
	} `yaml:"topologySpreadConstraints"`
	Containers []Container `yaml:"containers"`
	Volumes    []struct {
		Name      string `yaml:"name"`
		ConfigMap *struct {
			Name string `yaml:"name"`
		} `yaml:"configMap"`
		Secret *struct {
			SecretName  string              `yaml:"secretName"`
			DefaultMode int                 `yaml:"defaultMode"`
			Items       []map[string]string `yaml:"items"`
		} `yaml:"secret"`
	} `yaml:"volumes"`
}

// A Container is a program of a pod.
type Container struct {
	Name            string   `yaml:"name"`
	Image           string   `yaml:"image"`
	ImagePullPolicy string   `yaml:"imagePullPolicy"`
	Args            []string `yaml:"args"`
	Ports           []struct {
		Name          string `yaml:"name"`
		ContainerPort int    `yaml:"containerPort"`
	} `yaml:"ports"`
	Env []struct {
		Name      string `yaml:"name"`
		Value     string `yaml:"value"`
		ValueFrom struct {
			FieldRef struct {
				FieldPath string `yaml:"fieldPath"`
			} `yaml:"fieldRef"`
		} `yaml:"valueFrom"`
	} `yaml:"env"`
	Resources struct {
		Requests Resources `yaml:"requests"`
		Limits   Resources `yaml:"limits"`
	} `yaml:"resources"`
	StartupProbe   Probe `yaml:"startupProbe"`
	ReadinessProbe Probe `yaml:"readinessProbe"`
	LivenessProbe  Probe `yaml:"livenessProbe"`
	Lifecycle      struct {
		PreStop struct {
			Sleep struct {
				Seconds int `yaml:"seconds"`
			} `yaml:"sleep"`
		} `yaml:"preStop"`
	} `yaml:"lifecycle"`
	SecurityContext struct {
		AllowPrivilegeEscalation bool                `yaml:"allowPrivilegeEscalation"`
		ReadOnlyRootFilesystem   bool                `yaml:"readOnlyRootFilesystem"`
		Capabilities             map[string][]string `yaml:"capabilities"`
	} `yaml:"securityContext"`
	VolumeMounts []struct {
		Name      string `yaml:"name"`
		MountPath string `yaml:"mountPath"`
		ReadOnly  bool   `yaml:"readOnly"`
	} `yaml:"volumeMounts"`
}

// Resources are how much a container is given, such as 800m of a CPU and 1Gi.
type Resources struct {
	CPU    string `yaml:"cpu"`
	Memory string `yaml:"memory"`
}

// A Probe asks a container how it is.
type Probe struct {
	HTTPGet struct {
		Path string `yaml:"path"`
		Port string `yaml:"port"`
	} `yaml:"httpGet"`
	PeriodSeconds    int `yaml:"periodSeconds"`
	FailureThreshold int `yaml:"failureThreshold"`
	TimeoutSeconds   int `yaml:"timeoutSeconds"`
}

// A Manifest is a file's objects.
type Manifest struct {
	Accounts    []ServiceAccount
	Configs     []ConfigMap
	Services    []Service
	Deployments []Deployment
	Sets        []StatefulSet
	Budgets     []Budget
	Policies    []NetworkPolicy
}

// Read reads a manifest. An object of a kind or version, or a field, that is not declared
// here is an error, which says where it is.
func Read(text []byte) (m Manifest, err error) {
	for i, document := range bytes.Split(text, []byte("\n---\n")) {
		var head Object
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
		case "policy/v1 PodDisruptionBudget":
			err = add(document, &m.Budgets)
		case "networking.k8s.io/v1 NetworkPolicy":
			err = add(document, &m.Policies)
		default:
			err = fmt.Errorf("%q of version %q is not known", head.Kind, head.APIVersion)
		}
		if err != nil {
			return m, fmt.Errorf("document %d, %s: %w", i+1, head.Kind, err)
		}
	}
	return m, nil
}

// add reads an object strictly.
func add[T any](document []byte, to *[]T) error {
	var object T
	if err := yaml.UnmarshalWithOptions(document, &object, yaml.Strict()); err != nil {
		return err
	}
	*to = append(*to, object)
	return nil
}
