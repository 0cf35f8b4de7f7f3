package agents

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"dyno/internal/buildinfo"
	"dyno/internal/exit"
	"dyno/lab/fleet/identity"
	"dyno/lab/fleet/kubernetes"
)

// kubernetesFlags adds the flags that have Kubernetes run the agents.
func (a *Access) kubernetesFlags(f *pflag.FlagSet) {
	c := &a.cluster
	f.IntVar(&c.Agents, "kubernetes", 0, "have `N` agents carry the load that run as a Job of Kubernetes until it has ended; needs kubectl")
	f.StringVar(&c.Image, "kubernetes-image", "", "`IMAGE` of the agents, with this version of dyno (default "+agentImage(buildinfo.Version())+")")
	f.StringVar(&c.Namespace, "kubernetes-namespace", "", "`NAMESPACE` of the agents (default that of the context)")
	f.StringVar(&c.Context, "kubernetes-context", "", "`CONTEXT` of kubectl that names the cluster (default the current one)")
	f.StringVar(&c.CPU, "kubernetes-cpu", "1", "CPUs that each agent gets, and at most has: a `QUANTITY` such as 500m")
	f.StringVar(&c.Memory, "kubernetes-memory", "512Mi", "memory that each agent gets, and at most has: a `QUANTITY` such as 1Gi")
	f.BoolVar(&a.role, "kubernetes-rbac", false, "print the role that --kubernetes needs in the namespace, with a service account that has it, and send nothing")
	f.DurationVar(&c.Timeout, "kubernetes-timeout", 2*time.Minute, "how long to wait until all agents of --kubernetes are ready")
}

// agentImage returns the image of a version: that of a release, or the one that scripts/image.sh makes.
func agentImage(version string) string {
	if number, isRelease := strings.CutPrefix(version, "v"); isRelease && !strings.Contains(number, "+") {
		return "dyno:" + number
	}
	return "dyno:dev"
}

// startCluster has Kubernetes run the agents that carry the load, until this command ends.
func (a *Access) startCluster(ctx context.Context) (*identity.Member, error) {
	c := a.cluster
	switch {
	case c.Agents < 1 || c.Agents > kubernetes.MaxAgents:
		return nil, exit.Misused("as in: --kubernetes 8", "--kubernetes: %d is not a number of agents from 1 to %d", c.Agents, kubernetes.MaxAgents)
	case c.Timeout < time.Second || c.Timeout > time.Hour:
		return nil, exit.Misused("as in: --kubernetes-timeout 5m", "--kubernetes-timeout: %v is not between 1s and 1h", c.Timeout)
	case len(a.addresses) > 0 || a.choice.IsWanted() || a.Identity != "":
		return nil, exit.Misused("leave out one of the two", "--kubernetes: --agent, --fleet, --agents, --exclusive and --identity are for agents that run already")
	}
	c.Image = cmp.Or(c.Image, agentImage(buildinfo.Version()))
	job, err := kubernetes.Start(ctx, c, func(text string) { fmt.Fprintln(a.stderr, text) })
	if of, ok := errors.AsType[*kubernetes.Error](err); ok {
		return nil, exit.With(exit.Usage, fmt.Errorf("--kubernetes: %w", err), of.Hint)
	}
	if err != nil {
		return nil, err
	}
	a.job = job
	a.atEnd(func() error { return job.Remove(ctx) })
	return job.Member(), nil
}

// PrintedRole tells whether the role is asked for that loads with --kubernetes need, in place of a load. It prints it.
func (a *Access) PrintedRole() (bool, error) {
	if !a.role {
		return false, nil
	}
	_, err := a.stdout.Write(kubernetes.Role(cmp.Or(a.cluster.Namespace, "default")))
	return true, err
}
