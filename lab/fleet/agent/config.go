package agent

import (
	"cmp"
	"log/slog"
	"net/netip"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"dyno/internal/fields"
	"dyno/lab/fleet/identity"
)

// Config says where an agent listens, what it is called and what it carries. Start from Defaults.
type Config struct {
	Listen      string            `yaml:"listen" default:"127.0.0.1:7300" doc:"where dyno connects: a numeric address and a port; port 0 picks one. It must be a loopback address unless allow_remote is set"`
	AllowRemote bool              `yaml:"allow_remote" doc:"permit addresses that other machines reach; it needs an identity"`
	Identity    string            `yaml:"identity" kind:"path" otherwise:"no TLS: whoever can connect may use the agent" doc:"the folder that keeps the agent's key and certificate. Only coordinators of its fleet can connect then"`
	Join        string            `yaml:"join" otherwise:"the certificate in identity ends" doc:"TOKEN@HOST:PORT, as dyno fleet authority prints it: get a certificate there, and renew it. HOST:PORT renews one that there is"`
	Name        string            `yaml:"name" otherwise:"the certificate's, or the machine's" doc:"the agent's name in errors and results"`
	Labels      map[string]string `yaml:"labels" flag:"label" names:"any" most:"64" doc:"what the agent can be chosen by; as a flag: zone=1,rack=a"`
	MaxParts    int               `yaml:"max_parts" range:"1..1024" default:"16" doc:"how many processes carry parts of loads at once; one more is refused"`

	Version string       // of dyno; another version's loads are refused
	Logger  *slog.Logger // required
}

// Defaults returns a Config with every default.
func Defaults() Config { return fields.Default[Config]() }

// Check reports how fields have to go together, beyond what their tags say.
func (c *Config) Check(r *fields.Report) {
	at, err := netip.ParseAddrPort(c.Listen)
	if err != nil {
		r.Fault("listen", strconv.Quote(c.Listen)+" is no numeric address with a port", "such as 127.0.0.1:7300")
		return
	}
	r.Check(c.AllowRemote || at.Addr().IsLoopback(), "listen", strconv.Quote(c.Listen)+" can be reached from other machines", "use 127.0.0.1 or ::1, or set allow_remote")
	r.Check(!c.AllowRemote || c.Identity != "", "allow_remote", "other machines may connect, and the agent knows none of them", "name a folder for its certificate with --identity, and join a fleet with --join")
	if c.Join != "" {
		_, _, err := splitJoin(c.Join)
		r.Check(err == nil, "join", "has no address", "as in --join TOKEN@10.0.0.1:7200")
		r.Check(c.Identity != "", "join", "the certificate needs a folder", "name one with --identity")
	}
}

// An Info says what an agent is.
type Info struct {
	Name        string            `json:"name"`
	Labels      map[string]string `json:"labels,omitempty"`
	Version     string            `json:"version"`
	CPUs        int               `json:"cpus"`
	Descriptors int               `json:"descriptors"` // that a process may have
}

// info returns what the agent is, on a machine with a number of CPUs. A member's name is that of its certificate.
func (c *Config) info(cpus int, m *identity.Member) (Info, error) {
	name, err := os.Hostname()
	if err != nil {
		return Info{}, err
	}
	if m != nil {
		name = m.Peer().Name
	}
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return Info{}, err
	}
	return Info{
		Name: cmp.Or(c.Name, name), Labels: c.Labels, Version: c.Version, CPUs: cpus,
		Descriptors: int(min(limit.Cur, maxDescriptors)), //nolint:gosec // bounded
	}, nil
}

// maxDescriptors is more than a process can use, where there is no limit.
const maxDescriptors = 1 << 30
