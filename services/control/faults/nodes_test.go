package faults

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/storage/wal"
	"golang.org/x/sys/unix"

	"dyno/services/control/program"
)

// role, in the environment, makes this program a replica or a member of etcd.
const (
	role    = "DYNO_TEST_FAULTS_ROLE"
	replica = "replica"
	member  = "member"
)

// segment is how large a file of etcd's log is, in bytes. Etcd reserves them ahead: with
// its own 64 MB, a disk could be full for long before that is noticed.
const segment = 256 << 10

// runMember is an etcd until it fails. args are its name, folder, the URLs of peers and
// clients, and the members.
func runMember(args []string) error {
	c := embed.NewConfig()
	c.Name, c.Dir = args[0], args[1]
	peers, err := url.Parse(args[2])
	if err != nil {
		return err
	}
	clients, err := url.Parse(args[3])
	if err != nil {
		return err
	}
	c.ListenPeerUrls, c.AdvertisePeerUrls = []url.URL{*peers}, []url.URL{*peers}
	c.ListenClientUrls, c.AdvertiseClientUrls = []url.URL{*clients}, []url.URL{*clients}
	c.InitialCluster = args[4]
	c.LogLevel, c.LogOutputs = "warn", []string{"stderr"}
	etcd, err := embed.StartEtcd(c)
	if err != nil {
		return err
	}
	defer etcd.Close()
	select {
	case err := <-etcd.Err():
		return err
	case <-etcd.Server.StopNotify():
		return errors.New("it has stopped")
	}
}

// A node is a process with a network and perhaps a disk of its own. It is started again
// whenever it ends.
type node struct {
	name, ip string
	role     string
	args     []string
	disk     string // "" is none of its own
	network  *network
	log      *os.File

	mu   sync.Mutex // guards what follows
	pid  int        // 0 while it does not run
	ends int
}

// restartPause is after how long a node that has ended is started again.
const restartPause = 200 * time.Millisecond

// keep runs the node until ctx ends.
func (n *node) keep(ctx context.Context) error {
	// The thread is that of the node's network, and its parent: it ends with this function,
	// and the kernel kills the node when it does.
	runtime.LockOSThread()
	if err := n.network.enter(); err != nil {
		return err
	}
	for ctx.Err() == nil {
		if err := n.once(ctx); err != nil {
			return fmt.Errorf("%s: %w", n.name, err)
		}
		pause(ctx, restartPause)
	}
	return nil
}

// once runs it until it ends.
func (n *node) once(ctx context.Context) error {
	cmd := exec.Command(os.Args[0], n.args...)
	cmd.Env = append(os.Environ(), role+"="+n.role)
	cmd.Stdout, cmd.Stderr = n.log, n.log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return err
	}
	n.mu.Lock()
	n.pid = cmd.Process.Pid
	n.mu.Unlock()
	stop := context.AfterFunc(ctx, func() { _ = cmd.Process.Kill() }) // one that has ended is none to kill
	defer stop()
	_ = cmd.Wait() // however it ends, it is started again
	n.mu.Lock()
	n.pid = 0
	n.ends++
	n.mu.Unlock()
	return nil
}

// signal sends a signal to the node, if it runs.
func (n *node) signal(s syscall.Signal) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.pid == 0 {
		return nil
	}
	if err := syscall.Kill(n.pid, s); err != nil && !errors.Is(err, syscall.ESRCH) {
		return err
	}
	return nil
}

func (n *node) ended() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.ends
}

// A network is a node's: a network namespace that a pair of veth devices connects with
// the bridge of all. Where there are no namespaces, its descriptor is -1 and it is
// everybody's.
type network struct {
	ip        string
	namespace int // descriptor
}

// hub is where clients are among nodes in namespaces.
const hub = "10.77.0.1"

// enter has the calling thread, which must be locked, be in the network from now on.
func (n *network) enter() error {
	if n.namespace < 0 {
		return nil
	}
	return unix.Setns(n.namespace, unix.CLONE_NEWNET)
}

// run runs commands of ip(8) in the network.
func (n *network) run(commands ...string) error {
	return n.within(func() error { return ip(commands...) })
}

// within calls do on a thread that is in the network.
func (n *network) within(do func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // the thread ends with this function
		if err := n.enter(); err != nil {
			done <- err
			return
		}
		done <- do()
	}()
	return <-done
}

func ip(commands ...string) error {
	cmd := exec.Command("ip", "-batch", "-")
	cmd.Stdin = strings.NewReader(strings.Join(commands, "\n") + "\n")
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("ip %q: %w: %s", commands, err, bytes.TrimSpace(text))
	}
	return nil
}

// lose has the network lose what it sends to addresses.
func (n *network) lose(addresses []string) error { return n.routes("add", addresses) }

// find undoes lose.
func (n *network) find(addresses []string) error { return n.routes("del", addresses) }

func (n *network) routes(verb string, addresses []string) error {
	var commands []string
	for _, a := range addresses {
		if a != n.ip {
			commands = append(commands, "route "+verb+" blackhole "+a+"/32")
		}
	}
	return n.run(commands...)
}

// newNetworks makes networks with a bridge in this process's own, which must be one that
// nobody else is in.
func newNetworks(n int) (networks []*network, err error) {
	if err := ip("link set lo up", "link add hub type bridge", "addr add "+hub+"/24 dev hub", "link set hub up"); err != nil {
		return nil, err
	}
	for i := range n {
		one, err := newNamespace()
		if err != nil {
			return nil, err
		}
		one.ip = fmt.Sprintf("10.77.0.%d", 11+i)
		networks = append(networks, one)
		outside, inside := fmt.Sprint("outside", i), fmt.Sprint("inside", i)
		if err := ip("link add "+outside+" type veth peer name "+inside, "link set "+outside+" master hub up",
			fmt.Sprintf("link set %s netns /proc/%d/fd/%d", inside, os.Getpid(), one.namespace)); err != nil {
			return nil, err
		}
		if err := one.run("link set lo up", "addr add "+one.ip+"/24 dev "+inside, "link set "+inside+" up"); err != nil {
			return nil, err
		}
	}
	return networks, nil
}

// newNamespace makes a network namespace, which is there for as long as its descriptor.
func newNamespace() (*network, error) {
	type made struct {
		descriptor int
		err        error
	}
	result := make(chan made, 1)
	go func() {
		runtime.LockOSThread() // the thread ends with this function
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			result <- made{-1, err}
			return
		}
		fd, err := unix.Open(fmt.Sprintf("/proc/self/task/%d/ns/net", unix.Gettid()), unix.O_RDONLY|unix.O_CLOEXEC, 0)
		result <- made{fd, err}
	}()
	got := <-result
	return &network{namespace: got.descriptor}, got.err
}

// A cluster is three replicas over three members of etcd, which are within the replicas or
// apart.
type cluster struct {
	nodes    []*node
	replicas []*node
	members  []*node // the same where they are within
	apart    bool
	isolated bool // networks may be cut, and disks be full
	http     []string
	grpc     []string
	checked  string // the address of instances with checks, on each replica's own machine
	failed   chan error
	stop     context.CancelFunc
	kept     sync.WaitGroup
}

// diskBytes is how large a member's disk is.
const diskBytes = 384 << 20

// size is of replicas and of members.
const size = 3

// storeTime bounds how long a replica pursues the fate of a change: for less than most
// faults last, so that it is not known of some.
const storeTime = time.Second

// newCluster starts one in a folder. isolated says that this process has network and
// mounts of its own.
func newCluster(t *testing.T, apart, isolated bool) *cluster {
	t.Helper()
	dir := t.TempDir()
	ctx, stop := context.WithCancel(context.Background())
	c := &cluster{apart: apart, isolated: isolated, stop: stop, failed: make(chan error, 2*size)}
	count := size
	if apart {
		count = 2 * size
	}
	var networks []*network
	if isolated {
		var err error
		if networks, err = newNetworks(count); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			for _, n := range networks {
				_ = unix.Close(n.namespace) // it ends with the process at the latest
			}
		})
	} else {
		// No connection of another program takes a port of these addresses while a node is away.
		var at [2]byte
		_, _ = rand.Read(at[:])
		for i := range count {
			networks = append(networks, &network{ip: fmt.Sprintf("127.%d.%d.%d", 1+at[0]%254, at[1], 1+i), namespace: -1})
		}
	}
	address := func(i, port int) string { return fmt.Sprintf("%s:%d", networks[i].ip, port) }
	c.plan(t, dir, networks, address)
	for _, n := range c.nodes {
		if isolated && n.disk != "" {
			if err := unix.Mount("tmpfs", n.disk, "tmpfs", 0, fmt.Sprintf("size=%d", diskBytes)); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := unix.Unmount(n.disk, 0); err != nil {
					t.Error(err)
				}
			})
		}
	}
	t.Cleanup(c.close)
	for _, n := range c.nodes {
		c.kept.Go(func() {
			if err := n.keep(ctx); err != nil {
				c.failed <- err
			}
		})
	}
	return c
}

// plan says what processes there are.
func (c *cluster) plan(t *testing.T, dir string, networks []*network, address func(i, port int) string) {
	t.Helper()
	cert, key := newCertificate(t, dir, networks)
	principals := filepath.Join(dir, "principals.yaml")
	sum := sha256.Sum256([]byte(secret))
	text := fmt.Sprintf("principals:\n  - {name: faults, token_sha256: %s, grants: [{namespace: \"*\", role: admin}]}\n", hex.EncodeToString(sum[:]))
	if err := os.WriteFile(principals, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	add := func(name, as string, i int, disk bool, args ...string) *node {
		n := &node{name: name, ip: networks[i].ip, role: as, args: args, network: networks[i]}
		log, err := os.Create(filepath.Join(dir, name+".log"))
		if err != nil {
			t.Fatal(err)
		}
		n.log = log
		t.Cleanup(func() {
			if t.Failed() {
				showEnd(t, n)
			}
			log.Close()
		})
		if disk {
			n.disk = filepath.Join(dir, name)
			if err := os.Mkdir(n.disk, 0o700); err != nil {
				t.Fatal(err)
			}
		}
		c.nodes = append(c.nodes, n)
		return n
	}
	letters := []string{"a", "b", "c"}
	var peers, members, endpoints []string
	for i := range size {
		if c.apart {
			peers = append(peers, address(size+i, 2380))
			members = append(members, letters[i]+"=http://"+peers[i])
			endpoints = append(endpoints, address(size+i, 2379))
		} else {
			peers = append(peers, letters[i]+"="+address(i, 7102))
		}
	}
	c.checked = "127.0.0.1:7300"
	if !c.isolated {
		c.checked = address(0, 7300)
	}
	for i := range size {
		c.http = append(c.http, address(i, 7100))
		c.grpc = append(c.grpc, address(i, 7101))
		name := "replica-" + letters[i]
		args := []string{
			"--listen", c.http[i], "--grpc", c.grpc[i], "--principals", principals, "--allow-remote", "--plain-http",
			"--store-timeout", storeTime.String(), "--history", "1000",
			// So that a watch that was away sometimes gets a listing or a resync.
			"--compact-period", "1s", "--keep-revisions", "50", "--recent-changes", "100",
		}
		if c.apart {
			c.replicas = append(c.replicas, add(name, replica, i, false, append(args, "--etcd", strings.Join(endpoints, ","), "--replica", letters[i])...))
			continue
		}
		n := add(name, replica, i, true)
		n.args = append(args, "--data", filepath.Join(n.disk, "data"), "--name", letters[i], "--peers", strings.Join(peers, ","),
			"--peer-ca", cert, "--peer-cert", cert, "--peer-key", key)
		c.replicas = append(c.replicas, n)
	}
	c.members = c.replicas
	if c.apart {
		c.members = nil
		for i := range size {
			n := add("member-"+letters[i], member, size+i, true)
			n.args = []string{letters[i], filepath.Join(n.disk, "data"), "http://" + peers[i], "http://" + endpoints[i], strings.Join(members, ",")}
			c.members = append(c.members, n)
		}
	}
}

// listenNextToReplicas opens a port on each replica's own machine. Without networks, that is one port.
func (c *cluster) listenNextToReplicas() (listeners []net.Listener, err error) {
	for _, n := range c.replicas {
		if err := n.network.within(func() error {
			l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", c.checked)
			listeners = append(listeners, l)
			return err
		}); err != nil || !c.isolated {
			return listeners, err
		}
	}
	return listeners, nil
}

// close ends all processes.
func (c *cluster) close() {
	c.stop()
	c.kept.Wait()
}

// addresses are those of nodes.
func addresses(nodes []*node) (list []string) {
	for _, n := range nodes {
		list = append(list, n.ip)
	}
	return list
}

// showEnd logs what a node has last said.
func showEnd(t *testing.T, n *node) {
	t.Helper()
	text, err := os.ReadFile(n.log.Name())
	if err != nil {
		t.Log(err)
		return
	}
	const most = 6000
	t.Logf("%s, which has ended %d times, says in the end:\n%s", n.name, n.ended(), text[max(0, len(text)-most):])
}

// newCertificate makes a certificate and its key, in files, that all members show each other and
// trust.
func newCertificate(t *testing.T, dir string, networks []*network) (cert, key string) {
	t.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	for _, n := range networks {
		template.IPAddresses = append(template.IPAddresses, net.ParseIP(n.ip))
	}
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalECPrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for file, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: der}, key: {Type: "EC PRIVATE KEY", Bytes: secret}} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return cert, key
}

// pause lets time pass, unless ctx ends.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// play makes this program what the environment says.
func play(as string) int {
	wal.SegmentSizeBytes = segment
	if as == replica {
		return program.Main(context.Background(), os.Args[1:], os.Stdout, os.Stderr)
	}
	fmt.Fprintln(os.Stderr, "etcd:", runMember(os.Args[1:]))
	return 1
}
