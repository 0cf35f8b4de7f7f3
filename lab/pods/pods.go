// Package pods finds pods of Kubernetes by their labels. It asks the API server, whose address every
// pod has, with the token of dyno's own pod.
package pods

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// account is where the kubelet puts what a pod needs to ask the API server.
const account = "/var/run/secrets/kubernetes.io/serviceaccount"

// Most is how many pods a target may have.
const Most = 64

const (
	timeout   = 10 * time.Second
	maxAnswer = 16 << 20
)

// A Pod is a running pod.
type Pod struct {
	Name string
	Node string
	UID  string // the name of its control group has it
}

// A Client asks an API server.
type Client struct {
	server  string // a URL
	account string // a folder with namespace, token and ca.crt
}

// InCluster returns the client of the cluster that has this process in a pod.
func InCluster() (*Client, error) {
	host, port := os.Getenv("KUBERNETES_SERVICE_HOST"), os.Getenv("KUBERNETES_SERVICE_PORT")
	if host == "" || port == "" {
		return nil, errors.New("dyno does not run in a pod of Kubernetes")
	}
	return &Client{server: "https://" + net.JoinHostPort(host, port), account: account}, nil
}

// Find returns the pods with some labels that run and do not end, by name. The default namespace is
// that of dyno's own pod. No pod is an error, and so are more than Most.
func (c *Client) Find(ctx context.Context, namespace, selector string) ([]Pod, error) {
	if namespace == "" {
		text, err := c.read("namespace")
		if err != nil {
			return nil, err
		}
		namespace = text
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	answer, err := c.list(ctx, namespace, selector)
	if err != nil {
		return nil, err
	}
	found, err := parse(answer)
	switch {
	case err != nil:
		return nil, err
	case len(found) == 0:
		return nil, fmt.Errorf("no pod with %s runs in namespace %s", selector, namespace)
	case len(found) > Most:
		return nil, fmt.Errorf("more than %d pods with %s run in namespace %s", Most, selector, namespace)
	}
	return found, nil
}

// read returns the text of a file of the account. The kubelet renews the token.
func (c *Client) read(file string) (string, error) {
	text, err := os.ReadFile(filepath.Join(c.account, file))
	return strings.TrimSpace(string(text)), err
}

func (c *Client) list(ctx context.Context, namespace, selector string) ([]byte, error) {
	token, err := c.read("token")
	if err != nil {
		return nil, fmt.Errorf("%w: the pod has no token (automountServiceAccountToken)", err)
	}
	authorities, err := c.read("ca.crt")
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(authorities))
	query := url.Values{"labelSelector": {selector}, "fieldSelector": {"status.phase=Running"}, "limit": {strconv.Itoa(Most + 1)}}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, c.server+"/api/v1/namespaces/"+url.PathEscape(namespace)+"/pods?"+query.Encode(), nil)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Authorization", "Bearer "+token)
	r.Header.Set("Accept", "application/json")
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, DisableKeepAlives: true}
	answer, err := (&http.Client{Transport: transport}).Do(r)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer))
	if err != nil || answer.StatusCode == http.StatusOK {
		return body, err
	}
	var status struct{ Message string }
	_ = json.Unmarshal(body, &status) // what is in front of an API server may answer anything
	return nil, fmt.Errorf("the API server answers %s: %s", answer.Status, status.Message)
}

// parse reads a PodList.
func parse(answer []byte) (found []Pod, err error) {
	var list struct {
		Items []struct {
			Metadata struct {
				Name              string
				UID               string
				Annotations       map[string]string
				DeletionTimestamp string
			}
			Spec struct{ NodeName string }
		}
	}
	if err := json.Unmarshal(answer, &list); err != nil {
		return nil, fmt.Errorf("the API server's answer: %w", err)
	}
	for _, of := range list.Items {
		m := of.Metadata
		if m.DeletionTimestamp != "" {
			continue
		}
		if hash := m.Annotations["kubernetes.io/config.mirror"]; hash != "" {
			m.UID = hash // a static pod, whose group the kubelet has made before the API server knew it
		}
		found = append(found, Pod{Name: m.Name, Node: of.Spec.NodeName, UID: m.UID})
	}
	slices.SortFunc(found, func(a, b Pod) int { return strings.Compare(a.Name, b.Name) })
	return found, nil
}
