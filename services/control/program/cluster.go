package program

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"dyno/services/control"
	"dyno/services/internal/command"
)

// perReplica are the flags that differ from replica to replica, or are the cluster's own.
var perReplica = []string{"cluster", "listen", "grpc", "dns", "admin", "data", "scratch", "name", "peers", "peer-listen", "replica"}

// controlCluster runs replicas as processes of their own until the context ends. Replica
// i listens at the i-th port from --listen's on, and its etcd at one of those after all of
// these.
func (a *app) controlCluster(cmd *cobra.Command, c control.Config, n int) error {
	if n < 2 {
		return command.Misused("3 can lose one and go on", "--cluster: %d: must be 2 or more", n)
	}
	if c.Store.Dir == "" || len(c.Store.Peers) > 0 {
		return command.Misused("such as --data cluster.d --cluster 3", "--cluster: needs --data, and neither --etcd nor --peers")
	}
	ports, err := successive(c.Listen, n)
	if err != nil {
		return command.Misused("such as --listen 127.0.0.1:7100", "--listen: %v", err)
	}
	etcds, err := successive(ports[n], n)
	if err != nil {
		return command.Misused("", "--listen: %v", err)
	}
	taken := map[string]string{} // by whom each address is
	if err := claim(taken, "--listen", ports[:n]); err != nil {
		return err
	}
	if err := claim(taken, "the etcds, whose ports are after those of --listen", etcds[:n]); err != nil {
		return err
	}
	more := make([][]string, n) // of each replica
	for _, l := range []struct{ flag, address, example string }{{"--grpc", c.GRPC, "127.0.0.1:7300"}, {"--dns", c.DNS, "127.0.0.1:7400"}, {"--admin", c.Admin, "127.0.0.1:7200"}} {
		if l.address == "" {
			continue
		}
		list, err := successive(l.address, n)
		if err != nil {
			return command.Misused("such as "+l.flag+" "+l.example, "%s: %v", l.flag, err)
		}
		if err := claim(taken, l.flag, list[:n]); err != nil {
			return err
		}
		for i := range more {
			more[i] = append(more[i], l.flag, list[i])
		}
	}
	var same []string
	cmd.Flags().Visit(func(f *pflag.Flag) {
		for _, name := range perReplica {
			if f.Name == name {
				return
			}
		}
		same = append(same, "--"+f.Name+"="+f.Value.String())
	})
	var peers []string
	for i := range n {
		peers = append(peers, strconv.Itoa(i+1)+"="+etcds[i])
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	log := command.Logger(a.stderr, false)
	var replicas sync.WaitGroup
	for i := range n {
		name := strconv.Itoa(i + 1)
		args := append([]string{"--cluster=0", "--listen", ports[i], "--data", filepath.Join(c.Store.Dir, name), "--name", name, "--replica", name, "--peers", strings.Join(peers, ",")}, same...)
		args = append(args, more[i]...)
		replicas.Go(func() { a.keepReplica(cmd.Context(), log.With("replica", name), self, args) })
	}
	log.Info("replicas", "listen", strings.Join(ports[:n], ","))
	replicas.Wait()
	return nil
}

// claim notes whose addresses are, and refuses one that is somebody else's.
func claim(taken map[string]string, owner string, addresses []string) error {
	for _, a := range addresses {
		if port, ok := strings.CutPrefix(a, "localhost:"); ok {
			a = "127.0.0.1:" + port
		}
		if other, ok := taken[a]; ok {
			return command.Misused(fmt.Sprintf("each flag takes %d ports from its own on, and the etcds as many after those of --listen", len(addresses)), "%s: %s is of %s", owner, a, other)
		}
		taken[a] = owner
	}
	return nil
}

// successive returns an address and the n that have the ports after its own.
func successive(address string, n int) ([]string, error) {
	host, text, err := net.SplitHostPort(address)
	ip, ipErr := netip.ParseAddr(host)
	if err != nil || host != "localhost" && (ipErr != nil || !ip.IsLoopback()) {
		return nil, fmt.Errorf("%q: replicas for trying listen on loopback ports", address)
	}
	port, err := strconv.Atoi(text)
	if err != nil || port < 1 || port+2*n > 65535 {
		return nil, fmt.Errorf("%q: want a port from 1 to %d: each replica takes two", address, 65535-2*n)
	}
	var list []string
	for i := range n + 1 {
		list = append(list, net.JoinHostPort(host, strconv.Itoa(port+i)))
	}
	return list, nil
}

// Pauses before a replica that has ended is started again.
const (
	firstPause = time.Second
	lastPause  = 30 * time.Second
)

// keepReplica runs a replica, and runs it again when it ends by itself, until ctx ends.
// Then it is told to end, and waited for. It ends with this process, whatever happens to
// that.
func (a *app) keepReplica(ctx context.Context, log *slog.Logger, self string, args []string) {
	// The kernel ends the child when the thread ends that started it.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for pause := firstPause; ctx.Err() == nil; pause = min(2*pause, lastPause) {
		began := time.Now()
		replica := exec.CommandContext(ctx, self, args...)
		replica.Stdout, replica.Stderr = a.stdout, a.stderr
		replica.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		replica.Cancel = func() error { return replica.Process.Signal(syscall.SIGTERM) }
		err := replica.Run()
		if ctx.Err() != nil {
			return
		}
		var exit *exec.ExitError
		if errors.As(err, &exit) && exit.ExitCode() == command.Usage {
			log.Error("not started again: its configuration is at fault")
			return
		}
		if time.Since(began) > lastPause {
			pause = firstPause
		}
		log.Warn("replica has ended and is started again", "error", err, "after", pause)
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}
