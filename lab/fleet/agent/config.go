package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"os/user"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"dyno/host/child"
	"dyno/internal/fields"
	"dyno/lab/fleet/identity"
	"dyno/lab/generator"
	"dyno/lab/remote"
)

// Config has an agent's address, name and limits. Start from Defaults.
type Config struct {
	Listen        string            `yaml:"listen" default:"127.0.0.1:7300" doc:"where dyno connects: a numeric address and a port; port 0 picks one. It must be a loopback address unless allow_remote is set"`
	AllowRemote   bool              `yaml:"allow_remote" doc:"permit addresses that other machines reach; it needs an identity"`
	Identity      string            `yaml:"identity" kind:"path" otherwise:"no TLS: anybody who can connect may use the agent" doc:"the folder that keeps the agent's key and certificate. Only coordinators of its fleet can connect then"`
	Join          string            `yaml:"join" otherwise:"the certificate in identity ends" doc:"HOST:PORT of dyno fleet authority: get a certificate there, by a token, and renew it"`
	JoinTokenFile string            `yaml:"join_token_file" kind:"path" otherwise:"that in DYNO_JOIN_TOKEN" doc:"the file with the token that dyno fleet authority prints, which a machine without a certificate joins with"`
	Name          string            `yaml:"name" otherwise:"the certificate's, or the machine's" doc:"the agent's name in errors and results"`
	Labels        map[string]string `yaml:"labels" flag:"label" names:"any" most:"56" doc:"what the agent can be chosen by; as a flag: zone=1,rack=a"`
	MaxParts      int               `yaml:"max_parts" range:"1..1024" default:"16" doc:"how many processes carry parts of loads at once; one more is refused"`
	IdleTimeout   time.Duration     `yaml:"idle_timeout" range:"0..24h" otherwise:"never" doc:"end when no coordinator has asked anything for this long, and no part runs. If a signal ends it before, the exit code is the signal's"`

	Limits
	User string `yaml:"user" otherwise:"the agent's" doc:"the user with whose rights parts send load and read files, and targets run. Only root can name one"`

	Version string       // of dyno; another version's loads are refused
	Logger  *slog.Logger // required
	Lines   *Lines       // required: the last lines of the logger
}

// Limits are the machine owner's limits on the plans of others.
type Limits struct {
	MaxConnections int                 `yaml:"max_connections" range:"1..1000000" default:"100000" doc:"how many connections a load, or a part of one, may have"`
	MaxTime        time.Duration       `yaml:"max_time" range:"1s..720h" default:"24h" doc:"how long a load may take, or a part from its plan to its result, and a target may run"`
	Networks       []generator.Network `yaml:"networks" flag:"network" otherwise:"anywhere" doc:"where loads may go, and what is asked whether a target is ready: networks such as 10.1.0.0/16, or with a port such as 10.1.0.0/16:80 or [fd00::/8]:80. A name must lead there"`
	Files          string              `yaml:"files" kind:"path" otherwise:"none" doc:"the folder whose files plans may name, such as certificates and rows of data, and that relative paths begin in; what plans start runs in it, or below"`
	Commands       []string            `yaml:"commands" flag:"command" kind:"word" otherwise:"none" doc:"programs that plans may start as targets and services, by their absolute path or a pattern such as /srv/bin/*. They get any arguments and any environment: name none that can start others, such as a shell"`
	Observe        bool                `yaml:"observe" doc:"let plans observe processes and control groups that were not started for them, and name processes that are in a target's way"`
}

// CheckCommands reports patterns that match no program.
func (l *Limits) CheckCommands(r *fields.Report) {
	for i, pattern := range l.Commands {
		_, err := path.Match(pattern, "")
		r.Check(err == nil && path.IsAbs(pattern), fmt.Sprintf("commands[%d]", i), strconv.Quote(pattern)+" is no absolute path, and no pattern of one", "such as /usr/sbin/nginx or /srv/bin/*")
	}
}

// folder returns the path of the folder with files that plans may name; empty: none.
func (l *Limits) folder() (string, error) {
	if l.Files == "" {
		return "", nil
	}
	files, err := filepath.Abs(l.Files)
	if err != nil {
		return "", err
	}
	if info, err := os.Stat(files); err != nil || !info.IsDir() {
		return "", fmt.Errorf("--files: %s is no folder", l.Files)
	}
	return files, nil
}

// Split returns the limits for loads and those for programs.
func (l *Limits) Split() (*generator.Limits, *remote.Limits, error) {
	files, err := l.folder()
	return &generator.Limits{Networks: l.Networks, Connections: l.MaxConnections, Time: l.MaxTime, Files: files},
		&remote.Limits{Commands: l.Commands, Observe: l.Observe, Networks: l.Networks, Time: l.MaxTime, Files: files, Silence: remote.Silence}, err
}

// JoinTokenVariable is the environment variable with a machine's join token. Programs that plans start do not get it.
const JoinTokenVariable = "DYNO_JOIN_TOKEN"

// Defaults returns a Config with every default.
func Defaults() Config { return fields.Default[Config]() }

// Check reports violations of rules across fields, which tags cannot express.
func (c *Config) Check(r *fields.Report) {
	at, err := netip.ParseAddrPort(c.Listen)
	if err != nil {
		r.Fault("listen", strconv.Quote(c.Listen)+" is no numeric address with a port", "such as 127.0.0.1:7300")
		return
	}
	r.Check(c.AllowRemote || at.Addr().IsLoopback(), "listen", strconv.Quote(c.Listen)+" can be reached from other machines", "use 127.0.0.1 or ::1, or set allow_remote")
	r.Check(!c.AllowRemote || c.Identity != "", "allow_remote", "other machines may connect, and the agent knows none of them", "name a folder for its certificate with --identity, and join a fleet with --join")
	c.CheckCommands(r)
	if _, err := c.credential(); err != nil {
		r.Fault("user", err.Error(), "a user of this machine, and start the agent as root")
	}
	if c.Join != "" {
		if strings.Contains(c.Join, "@") {
			r.Fault("join", "holds a token, which others could see in the list of processes", "put the token into a file for --join-token-file, or into "+JoinTokenVariable+", and use --join HOST:PORT")
		}
		_, _, err := net.SplitHostPort(c.Join)
		r.Check(err == nil, "join", "is no address", "as in --join 10.0.0.1:7200")
		r.Check(c.Identity != "", "join", "the certificate needs a folder", "name one with --identity")
	}
}

// credential returns the rights of the user that parts run as; nil is the agent's own.
func (c *Config) credential() (*child.User, error) {
	if c.User == "" {
		return nil, nil
	}
	if os.Geteuid() != 0 {
		return nil, errors.New("only root can change to another user")
	}
	u, err := user.Lookup(c.User)
	if err != nil {
		return nil, err
	}
	groups, err := u.GroupIds()
	if err != nil {
		return nil, err
	}
	var ids []uint32
	for _, text := range append([]string{u.Uid, u.Gid}, groups...) {
		id, err := strconv.ParseUint(text, 10, 32)
		if err != nil {
			return nil, err
		}
		ids = append(ids, uint32(id))
	}
	return &child.User{ID: ids[0], Group: ids[1], Groups: ids[2:]}, nil
}

// kinds returns the kinds of parts, with the owner's limits.
func (c *Config) kinds() (map[string]kind, error) {
	credential, err := c.credential()
	if err != nil {
		return nil, fmt.Errorf("--user: %w", err)
	}
	loads, targets, err := c.Split()
	if err != nil {
		return nil, err
	}
	carrier := generator.Local{Limits: loads, User: credential}
	return map[string]kind{
		PartsPath: {Protocol, func(ctx context.Context) (process, error) { return carrier.Start(ctx) }},
		TargetsPath: {TargetProtocol, func(context.Context) (process, error) {
			command, err := targets.Command(credential)
			if err != nil {
				return nil, err
			}
			return child.Start(command)
		}},
	}, nil
}

// An Info describes an agent.
type Info struct {
	Name        string            `json:"name"`
	Labels      map[string]string `json:"labels,omitempty"`
	Version     string            `json:"version"`
	CPUs        int               `json:"cpus"`
	Descriptors int               `json:"descriptors"`       // bound of a process
	Connections int               `json:"connections"`       // the owner's bound on a load, or a part of one
	Parts       int               `json:"parts"`             // running parts
	Refuses     string            `json:"refuses,omitempty"` // reason the agent refuses this coordinator
}

// info describes the agent, on a machine with a number of CPUs. A member's name is that of its certificate.
func (c *Config) info(cpus int, m *identity.Member) (Info, error) {
	name, err := os.Hostname()
	if err != nil {
		return Info{}, err
	}
	if m != nil {
		name = m.Peer().Name
	}
	limit, err := generator.DescriptorLimit()
	if err != nil {
		return Info{}, err
	}
	return Info{
		Name: cmp.Or(c.Name, name), Labels: c.Labels, Version: c.Version, CPUs: cpus,
		Descriptors: int(min(limit, maxDescriptors)), //nolint:gosec // bounded
		Connections: c.MaxConnections,
	}, nil
}

// maxDescriptors stands for no limit: no process can use as many.
const maxDescriptors = 1 << 30
