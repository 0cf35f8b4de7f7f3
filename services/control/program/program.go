// Package program is the control plane's command line, that of dyno-control. It is a
// program of its own, so that dyno, which starts it by dyno serve control, links neither
// etcd nor grpc-go.
package program

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/spf13/cobra"

	"dyno/services/control"
	"dyno/services/control/format"
	"dyno/services/internal/command"
	"dyno/services/internal/secretfile"
)

// Name is the program's.
const Name = "dyno-control"

// Main runs the program until it ends by itself or by SIGINT or SIGTERM, the second of
// which ends it at once. It prints what failed, and returns the exit code. Clients may
// choose more formats if they are given.
func Main(ctx context.Context, args []string, stdout, stderr io.Writer, more ...format.Format) int {
	a := &app{stdout: stdout, stderr: stderr, formats: more}
	return command.Main(ctx, a.command(), args, stdout, stderr)
}

// An app is one run of the program.
type app struct {
	stdout, stderr io.Writer
	formats        []format.Format // besides those of every control plane
}

func (a *app) command() *cobra.Command {
	c := control.Defaults()
	c.Formats = append(c.Formats, a.formats...)
	var (
		verbose      bool
		passwordFile string
		restore      string
		replica      string
		cluster      int
		scratch      bool
		gc           collector
	)
	cmd := &cobra.Command{
		Use:   Name,
		Short: "Keep services, configuration and policies, and tell who watches",
		Long: `Keep services, configuration and policies, and tell who watches.

Everything is in etcd: one of its own in --data, or a cluster at --etcd. With --name and
--peers the etcds of several replicas are members of one cluster; --cluster 3 starts three
such replicas on this machine, for trying: at the port of --listen and the two after it.

Make a policy:  curl -d '{"name":"a","rules":[{"action":"deny"}]}' -H 'Content-Type: application/json' http://HOST/v1/policies
Watch:          curl -N -H 'Accept: text/event-stream' http://HOST/v1/watch
Look at it:     http://HOST/console/ in a browser
All operations: curl http://HOST/v1/openapi.json; by gRPC, services/control/rpc/control.proto

It listens on loopback only, unless --allow-remote and --principals are given.
--principals is a file in YAML:

  principals:
    - name: deployer
      token_sha256: …                # printf %s TOKEN | sha256sum
      grants: [{namespace: shop, role: editor}]

Roles are reader, registrar (for services), editor and admin; namespace "*" is all. This file and
the certificate are read again within 10 s when they have changed. What a principal has begun, such
as a watch, ends if the file has them no more, by another token or certificate, or with other
grants; they come back by what holds now. All others go on. A file with a fault is not taken: what
was before holds, the log says why, and it is tried again every 10 s. An --admin that other machines reach asks for the token of --admin-token-file.`,
		Example: `  dyno-control --listen 127.0.0.1:7100 --data control.d
  dyno-control --listen 127.0.0.1:7100 --etcd 10.0.0.1:2379,10.0.0.2:2379,10.0.0.3:2379 --replica a
  dyno-control --listen 127.0.0.1:7100 --data new.d --restore backup.jsonl
  dyno-control --listen 127.0.0.1:7100 --data cluster.d --cluster 3`,
		Args: command.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if c.Listen == "" {
				return command.Misused("such as --listen 127.0.0.1:7100", "--listen: must be given")
			}
			if scratch {
				if c.Store.Dir != "" || len(c.Store.Endpoints) > 0 {
					return command.Misused("", "--scratch: is instead of --data or --etcd")
				}
				folder, err := os.MkdirTemp("", Name+"-")
				if err != nil {
					return fmt.Errorf("--scratch: %w", err)
				}
				defer os.RemoveAll(folder) //nolint:errcheck // it is the system's to clean up what remains
				c.Store.Dir = folder
			}
			if c.Store.Dir == "" && len(c.Store.Endpoints) == 0 {
				return command.Misused("such as --data control.d", "--data or --etcd: must be given")
			}
			flags := cmd.Flags()
			if restore != "" && (cluster > 0 || len(c.Store.Peers) > 0) {
				return command.Misused("restore into a single etcd first, or into a cluster at --etcd", "--restore: is not for the members of a cluster")
			}
			if cluster > 0 {
				return a.controlCluster(cmd, c, cluster)
			}
			if replica == "" {
				replica = c.Store.Name
			}
			if len(c.Store.Endpoints) > 0 {
				if !flags.Changed("compact-period") {
					c.Store.CompactPeriod = 0 // a cluster has others' keys, and somebody who compacts
				}
				if replica == "" {
					host, err := os.Hostname()
					if err != nil {
						return fmt.Errorf("host name: %w", err)
					}
					replica = fmt.Sprintf("%s-%d", host, os.Getpid())
				}
			}
			if replica != "" {
				c.Plane.Replica = replica
			}
			if passwordFile != "" {
				text, err := secretfile.Read(passwordFile)
				if err != nil {
					return &command.Failure{Code: command.Usage, Err: fmt.Errorf("--etcd-password-file: %w", err)}
				}
				c.Store.Password = string(text)
			}
			c.Logger = command.Logger(a.stderr, verbose)
			if err := errors.Join(c.Validate(), gc.check()); err != nil {
				return &command.Failure{Code: command.Usage, Err: err}
			}
			gc.set()
			if restore != "" {
				if err := restoreControl(cmd, c, restore); err != nil {
					return err
				}
			}
			server, err := control.New(c)
			if err != nil {
				return &command.Failure{Code: command.Usage, Err: err}
			}
			return server.Serve(cmd.Context())
		},
	}
	f := cmd.Flags()
	f.StringVar(&c.Listen, "listen", c.Listen, "where clients connect: host:port or unix:PATH")
	f.StringVar(&c.GRPC, "grpc", c.GRPC, "where clients connect by gRPC, and find services over xDS: host:port or unix:PATH; without it, nowhere")
	f.StringVar(&c.DNS, "dns", c.DNS, "where services are found by DNS, by whoever reaches it: host:port; without it, nowhere")
	f.StringVar(&c.Domain, "domain", c.Domain, "what their names end with: SERVICE.NAMESPACE.DOMAIN")
	f.BoolVar(&c.AllowRemote, "allow-remote", c.AllowRemote, "permit listening where other machines reach it; needs --principals")
	f.BoolVar(&c.PlainHTTP, "plain-http", c.PlainHTTP, "permit that without TLS, behind a proxy that encrypts")
	c.AdminFlags(f)
	f.BoolVar(&c.HTTP2, "http2", c.HTTP2, "let clients speak HTTP/2, without TLS as well")

	f.StringVar(&c.Store.Dir, "data", c.Store.Dir, "`FOLDER` of an etcd of its own")
	f.BoolVar(&scratch, "scratch", false, "a new folder in the system's temporary one instead of --data, removed at the end: for measurements")
	f.StringVar(&c.Store.Name, "name", c.Store.Name, "this replica's name among --peers")
	f.StringToStringVar(&c.Store.Peers, "peers", c.Store.Peers, "where the etcds of all replicas listen for each other: a=host:port,b=host:port,c=host:port")
	f.StringVar(&c.Store.PeerListen, "peer-listen", c.Store.PeerListen, "where this one's etcd listens for its peers, if they know it by a name: IP:port")
	f.StringVar(&c.Store.PeerCA, "peer-ca", c.Store.PeerCA, "`FILE` of certificates that the peers' are signed by")
	f.StringVar(&c.Store.PeerCert, "peer-cert", c.Store.PeerCert, "`FILE` with the certificate to show peers")
	f.StringVar(&c.Store.PeerKey, "peer-key", c.Store.PeerKey, "`FILE` with its key")
	f.IntVar(&cluster, "cluster", 0, "replicas to start on this machine, for trying; one that ends is started again")
	f.StringSliceVar(&c.Store.Endpoints, "etcd", c.Store.Endpoints, "an etcd cluster instead: host:port,host:port")
	f.StringVar(&c.Store.CA, "etcd-ca", c.Store.CA, "`FILE` of certificates that the cluster's are signed by; connections are encrypted then")
	f.StringVar(&c.Store.Cert, "etcd-cert", c.Store.Cert, "`FILE` with the certificate to show the cluster")
	f.StringVar(&c.Store.Key, "etcd-key", c.Store.Key, "`FILE` with its key")
	f.StringVar(&c.Store.User, "etcd-user", c.Store.User, "the cluster's user to be")
	f.StringVar(&passwordFile, "etcd-password-file", "", "`FILE` with that user's password")
	f.StringVar(&c.Store.Prefix, "etcd-prefix", c.Store.Prefix, "what all keys begin with")
	f.StringVar(&replica, "replica", "", "this replica's name among those of a cluster (default: the host's and the process's)")
	f.DurationVar(&c.Plane.ForgetAfter, "forget-after", c.Plane.ForgetAfter, "how long the history of what was removed is kept")
	f.StringVar(&restore, "restore", "", "fill the empty store from a backup's `FILE` first")
	f.Int64Var(&c.Store.Quota, "quota", c.Store.Quota, "bytes that the database of --data may have; beyond, writes are refused")
	f.BoolVar(&c.Store.NoSync, "no-sync", c.Store.NoSync, "do not wait for the disk: a power cut loses what was acknowledged")
	f.IntVar(&c.Store.MaxInflightTxns, "max-inflight-txns", c.Store.MaxInflightTxns, "transactions in flight at a time")
	f.IntVar(&c.Store.GroupRequests, "group-requests", c.Store.GroupRequests, "changes in one transaction")
	f.IntVar(&c.Store.Queue, "queue", c.Store.Queue, "changes that may wait; beyond: 503")
	f.DurationVar(&c.OpenTimeout, "open-timeout", c.OpenTimeout, "how long the store may take to answer at the start: one that was away for long is sent the database first")
	f.DurationVar(&c.Store.Timeout, "store-timeout", c.Store.Timeout, "how long the store may take to answer")
	f.Int64Var(&c.Store.KeepRevisions, "keep-revisions", c.Store.KeepRevisions, "revisions that remain for replicas that come back")
	f.Int64Var(&c.Store.KeepChanges, "keep-changes", c.Store.KeepChanges, "at most this number of changes of this replica")
	f.DurationVar(&c.Store.CompactPeriod, "compact-period", c.Store.CompactPeriod, "how often older ones are removed; 0 is never, as with --etcd")
	f.DurationVar(&c.Store.JournalAge, "audit-age", c.Store.JournalAge, "how long the audit goes back")

	f.Int64Var(&c.Store.JournalBytes, "audit-bytes", c.Store.JournalBytes, "about how many bytes of it are kept")

	f.StringVar(&c.Principals, "principals", c.Principals, "`FILE` of who may do what, read again when it changes; without it, everybody on this machine may do everything")
	f.StringVar(&c.Certificate, "tls-cert", c.Certificate, "`FILE` with the certificate to show clients, read again when it changes, as is the key")
	f.StringVar(&c.Key, "tls-key", c.Key, "`FILE` with its key")
	f.StringVar(&c.ClientCA, "tls-client-ca", c.ClientCA, "`FILE` of certificates that clients' may be signed by")
	f.BoolVar(&c.SessionTickets, "tls-tickets", c.SessionTickets, "let clients come back without a full handshake")
	f.Float64Var(&c.Rate, "rate", c.Rate, "requests a second of one client; 0 is no limit; beyond: 429")
	f.IntVar(&c.Burst, "burst", c.Burst, "requests of one client at once")

	l := &c.Plane.Limits
	f.IntVar(&l.Policies, "max-policies", l.Policies, "policies in all")
	f.IntVar(&l.Configs, "max-configs", l.Configs, "configurations in all")
	f.IntVar(&l.Instances, "max-instances", l.Instances, "instances in all")
	f.IntVar(&l.PerService, "max-per-service", l.PerService, "instances of one service")
	f.IntVar(&l.PolicyBytes, "max-policy", l.PolicyBytes, "bytes of a policy")
	f.IntVar(&l.ConfigBytes, "max-config", l.ConfigBytes, "bytes of a configuration")
	f.IntVar(&l.History, "history", l.History, "earlier versions that are kept")

	live := &c.Plane.Liveness
	f.DurationVar(&live.Grace, "grace", live.Grace, "how long an instance that is overdue is kept")
	f.Float64Var(&live.Threshold, "self-preservation-threshold", live.Threshold, "if a larger share is silent, the fault is looked for here, and none is removed")
	f.DurationVar(&live.ProtectFor, "protect-for", live.ProtectFor, "for how long")
	f.DurationVar(&live.RecoveryGrace, "recovery-grace", live.RecoveryGrace, "how long instances have to be heard again after an outage")

	f.IntVar(&c.MaxWatchers, "max-watchers", c.MaxWatchers, "streams and long polls at a time; beyond: 503")
	f.IntVar(&c.Plane.QueueChanges, "queue-changes", c.Plane.QueueChanges, "changes that may wait for one watcher; beyond, it reads everything again")
	f.IntVar(&c.Plane.RecentChanges, "recent-changes", c.Plane.RecentChanges, "changes that are remembered for watchers that come back")
	f.DurationVar(&c.Heartbeat, "heartbeat", c.Heartbeat, "of streams: a comment after so long without a change")
	f.DurationVar(&c.ReadTimeout, "read-timeout", c.ReadTimeout, "of reading a request")
	f.DurationVar(&c.WriteTimeout, "write-timeout", c.WriteTimeout, "of writing an answer, or once to a stream")
	f.DurationVar(&c.IdleTimeout, "idle-timeout", c.IdleTimeout, "of waiting for a connection's next request")
	f.IntVar(&c.StreamWindow, "stream-window", c.StreamWindow, "bytes of one request over HTTP/2 or gRPC that a client may send ahead; 0 leaves it to the libraries")
	f.IntVar(&c.ConnectionWindow, "connection-window", c.ConnectionWindow, "the same of all requests of a connection")
	f.IntVar(&c.Workers, "workers", c.Workers, "goroutines that carry out requests over HTTP; 0: each connection's own does")
	f.IntVar(&gc.percent, "gc-percent", 0, "how much the heap may grow, in percent of what is live, before it is collected (GOGC); 0: as the environment says, without that 100, but a small heap may grow by 128 MiB; -1: only at --memory-limit")
	f.Int64Var(&gc.limit, "memory-limit", 0, "bytes from which on it is collected more often (GOMEMLIMIT); 0: as the environment says")
	f.DurationVar(&c.DrainTimeout, "drain-timeout", c.DrainTimeout, "how long the end may take")
	f.BoolVarP(&verbose, "verbose", "v", false, "log what happens to single requests")
	return cmd
}

// restoreControl fills the store from a backup.
func restoreControl(cmd *cobra.Command, c control.Config, file string) error {
	backup, err := os.Open(file)
	if err != nil {
		return &command.Failure{Code: command.Usage, Err: fmt.Errorf("--restore: %w", err)}
	}
	defer backup.Close() //nolint:errcheck // it was only read
	c.Store.Logger = c.Logger
	if err := control.Restore(cmd.Context(), c.Store, backup); err != nil {
		hint := ""
		if !errors.Is(err, fs.ErrNotExist) {
			hint = "a backup is restored into an empty store, in one go"
		}
		return &command.Failure{Code: command.Failed, Err: fmt.Errorf("--restore: %w", err), Hint: hint}
	}
	c.Logger.Info("restored", "backup", file)
	return nil
}
