package kubernetes

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// A pod is what is read of a v1 Pod.
type pod struct {
	Metadata struct {
		Name              string            `json:"name"`
		Annotations       map[string]string `json:"annotations"`
		DeletionTimestamp string            `json:"deletionTimestamp"`
	} `json:"metadata"`
	Status struct {
		Phase             string      `json:"phase"`
		Reason            string      `json:"reason"`
		Message           string      `json:"message"`
		PodIP             string      `json:"podIP"`
		Conditions        []condition `json:"conditions"`
		ContainerStatuses []struct {
			Ready bool `json:"ready"`
			State struct {
				Waiting    *reason     `json:"waiting"`
				Terminated *terminated `json:"terminated"`
			} `json:"state"`
		} `json:"containerStatuses"`
	} `json:"status"`
}

type condition struct {
	Type   string `json:"type"`
	Status string `json:"status"`
	reason
}

type reason struct {
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

type terminated struct {
	ExitCode int `json:"exitCode"`
	reason
}

// parsePods reads a list of pods.
func parsePods(text []byte) ([]pod, error) {
	var list struct {
		Items []pod `json:"items"`
	}
	if err := json.Unmarshal(text, &list); err != nil {
		return nil, fmt.Errorf("kubectl get pods: %w", err)
	}
	return list.Items, nil
}

// index returns which agent of the Job the pod is, as a number.
func (p *pod) index() string {
	return p.Metadata.Annotations["batch.kubernetes.io/job-completion-index"]
}

// isReady tells whether the pod's agent listens.
func (p *pod) isReady() bool {
	s := &p.Status
	return p.Metadata.DeletionTimestamp == "" && s.Phase == "Running" && len(s.ContainerStatuses) == 1 && s.ContainerStatuses[0].Ready
}

// isDisturbed tells whether Kubernetes itself ends the pod, as after an eviction: the Job replaces it.
func (p *pod) isDisturbed() bool {
	return p.Metadata.DeletionTimestamp != "" || slices.ContainsFunc(p.Status.Conditions, func(c condition) bool { return c.Type == "DisruptionTarget" && c.Status == "True" })
}

// A problem is why an agent is not ready.
type problem struct {
	text  string
	hint  string
	final bool // waiting does not help
}

const imageHint = "--kubernetes-image names an image of this version of dyno that the cluster can get; scripts/image.sh makes one"

// problem returns why the pod is not ready; without text if Kubernetes says nothing.
func (p *pod) problem() problem {
	for _, c := range p.Status.ContainerStatuses {
		switch w, t := c.State.Waiting, c.State.Terminated; {
		case w != nil && w.Reason != "ContainerCreating" && w.Reason != "PodInitializing":
			of := problem{text: w.Reason + ": " + w.Message, final: slices.Contains([]string{"ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull"}, w.Reason)}
			if strings.Contains(w.Reason, "Image") {
				of.hint = imageHint
			}
			return of
		case t != nil:
			return problem{
				text: strings.TrimSuffix(fmt.Sprintf("its container ended with exit code %d (%s): %s", t.ExitCode, t.Reason, lastLine(t.Message)), ": "),
				hint: imageHint, final: !p.isDisturbed(),
			}
		}
	}
	for _, c := range p.Status.Conditions {
		if c.Type == "PodScheduled" && c.Status == "False" {
			return problem{text: c.Reason + ": " + c.Message, hint: sizeHint}
		}
	}
	if p.Status.Reason != "" {
		return problem{text: p.Status.Reason + ": " + p.Status.Message}
	}
	return problem{}
}

// lastLine returns the last line of a program's output, without a hint of dyno.
func lastLine(text string) string {
	text, _, _ = strings.Cut(text, "\nhint: ")
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return lines[len(lines)-1]
}

// worst returns the problem that most pods have; a final one comes first. affected is how many have it.
func worst(all []pod) (of problem, affected int) {
	count := map[problem]int{}
	highest := 0
	for i := range all {
		found := all[i].problem()
		if found.text == "" || all[i].isReady() {
			continue
		}
		count[found]++
		rank := count[found]
		if found.final {
			rank += len(all)
		}
		if rank > highest {
			of, highest = found, rank
		}
	}
	return of, count[of]
}

// lastEvent returns the last of some events, in their order, that is about a Job or one of its pods; without text if there
// is none.
func lastEvent(text []byte, job string) (problem, error) {
	var list struct {
		Items []struct {
			InvolvedObject struct {
				Name string `json:"name"`
			} `json:"involvedObject"`
			reason
		} `json:"items"`
	}
	if err := json.Unmarshal(text, &list); err != nil {
		return problem{}, fmt.Errorf("kubectl get events: %w", err)
	}
	for _, e := range slices.Backward(list.Items) {
		if name := e.InvolvedObject.Name; name == job || strings.HasPrefix(name, job+"-") {
			of := problem{text: e.Reason + ": " + e.Message, final: e.Reason == "FailedCreate"}
			if strings.Contains(e.Message, "exceeded quota") {
				of.hint = sizeHint
			}
			return of, nil
		}
	}
	return problem{}, nil
}
