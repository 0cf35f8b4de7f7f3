package agent

import (
	"cmp"
	"crypto/tls"
	"log/slog"
	"net/netip"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"dyno/internal/fields"
)

// Config says where an agent listens, what it is called and what it carries. Start from Defaults.
type Config struct {
	Listen      string            `yaml:"listen" default:"127.0.0.1:7300" doc:"where dyno connects: a numeric address and a port; port 0 picks one. It must be a loopback address unless allow_remote is set"`
	AllowRemote bool              `yaml:"allow_remote" doc:"permit addresses that other machines reach: whoever reaches the agent can send load from here, and read files as the agent's user"`
	Name        string            `yaml:"name" otherwise:"the machine's" doc:"the agent's name in errors and results"`
	Labels      map[string]string `yaml:"labels" flag:"label" names:"any" most:"64" doc:"what the agent can be chosen by; as a flag: zone=1,rack=a"`
	MaxParts    int               `yaml:"max_parts" range:"1..1024" default:"16" doc:"how many processes carry parts of loads at once; one more is refused"`

	Version string       // of dyno; another version's loads are refused
	TLS     *tls.Config  // nil: no TLS
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
}

// An Info says what an agent is.
type Info struct {
	Name        string            `json:"name"`
	Labels      map[string]string `json:"labels,omitempty"`
	Version     string            `json:"version"`
	CPUs        int               `json:"cpus"`
	Descriptors int               `json:"descriptors"` // that a process may have
}

// info returns what the agent is, on a machine with a number of CPUs.
func (c *Config) info(cpus int) (Info, error) {
	name, err := os.Hostname()
	if err != nil {
		return Info{}, err
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
