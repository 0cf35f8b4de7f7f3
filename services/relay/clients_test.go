package relay

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"dyno/internal/freeport"
)

// TestRealClients runs other people's clients and servers through every model.
func TestRealClients(t *testing.T) {
	for _, c := range []struct {
		name string
		test func(bed)
	}{{"redis", redis}, {"nginx and curl", nginx}, {"iperf3", iperf}} {
		for _, m := range models {
			t.Run(c.name+" "+string(m), func(t *testing.T) { c.test(bed{t, m}) })
		}
	}
}

// need skips the test where a program is missing.
func (b bed) need(names ...string) {
	b.Helper()
	for _, n := range names {
		if _, err := exec.LookPath(n); err != nil {
			b.Skipf("%s is not installed", n)
		}
	}
}

// server starts a program that listens on the address and waits until it does.
func (b bed) server(address, name string, args ...string) {
	b.Helper()
	cmd := exec.Command(name, args...)
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	exited := make(chan struct{})
	go func() { defer close(exited); _ = cmd.Wait() }()
	b.Cleanup(func() { _ = cmd.Process.Kill(); <-exited })
	b.eventually(name+" listens", func() bool {
		select {
		case <-exited:
			b.Fatalf("%s: %s", name, out.String())
		default:
		}
		c, err := net.Dial("tcp", address)
		if err == nil {
			_ = c.Close()
		}
		return err == nil
	})
}

// client runs a program and returns what it prints.
func (b bed) client(name string, args ...string) string {
	b.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), hang)
	defer cancel()
	out, err := exec.CommandContext(ctx, name, args...).CombinedOutput()
	if err != nil {
		b.Fatalf("%s: %v\n%s", name, err, out)
	}
	return string(out)
}

func port(s *Server) string {
	return fmt.Sprint(s.Addr().(*net.TCPAddr).Port)
}

func redis(b bed) {
	b.need("redis-server", "redis-cli")
	p := freeport.Port(b)
	b.server("127.0.0.1:"+p, "redis-server", "--port", p, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", b.TempDir())
	s := b.relay("127.0.0.1:"+p, nil)
	value := strings.Repeat("0123456789", 20_000)
	file := filepath.Join(b.TempDir(), "value")
	if err := os.WriteFile(file, []byte(value), 0o600); err != nil {
		b.Fatal(err)
	}
	cli := []string{"-h", "127.0.0.1", "-p", port(s)}
	set := exec.Command("redis-cli", append(cli, "-x", "set", "key")...)
	set.Stdin = strings.NewReader(value)
	if out, err := set.CombinedOutput(); err != nil || strings.TrimSpace(string(out)) != "OK" {
		b.Fatalf("set: %v, %s", err, out)
	}
	if got := strings.TrimSpace(b.client("redis-cli", append(cli, "get", "key")...)); got != value {
		b.Errorf("got %d bytes back, want %d", len(got), len(value))
	}
}

func nginx(b bed) {
	b.need("nginx", "curl")
	p, dir := freeport.Port(b), b.TempDir()
	body := strings.Repeat("hello, relay\n", 100_000)
	conf := fmt.Sprintf(`daemon off; master_process off; pid %[1]s/pid; error_log stderr;
events {}
http {
	access_log off; client_body_temp_path %[1]s/b; proxy_temp_path %[1]s/p;
	fastcgi_temp_path %[1]s/f; uwsgi_temp_path %[1]s/u; scgi_temp_path %[1]s/s;
	server { listen 127.0.0.1:%[2]s; root %[1]s/www; }
}`, dir, p)
	for name, text := range map[string]string{"conf": conf, "www/big": body, "www/small": "hi\n"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			b.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			b.Fatal(err)
		}
	}
	b.server("127.0.0.1:"+p, "nginx", "-p", dir, "-c", filepath.Join(dir, "conf"))
	s := b.relay("127.0.0.1:"+p, nil)
	url := "http://127.0.0.1:" + port(s)
	if got := b.client("curl", "-sS", url+"/small", url+"/big", url+"/small"); got != "hi\n"+body+"hi\n" {
		b.Errorf("got %d bytes, want %d", len(got), len(body)+6)
	}
}

func iperf(b bed) {
	b.need("iperf3")
	p := freeport.Port(b)
	cmd := []string{"-s", "-p", p, "-B", "127.0.0.1"}
	b.server("127.0.0.1:"+p, "iperf3", cmd...)
	s := b.relay("127.0.0.1:"+p, nil)
	for _, reverse := range []bool{false, true} {
		args := []string{"-c", "127.0.0.1", "-p", port(s), "-n", "32M", "-P", "2"}
		if reverse {
			args = append(args, "-R")
		}
		// The server takes one test at a time and may not have finished with the last.
		b.eventually("iperf3", func() bool {
			ctx, cancel := context.WithTimeout(context.Background(), hang)
			defer cancel()
			out, err := exec.CommandContext(ctx, "iperf3", args...).CombinedOutput()
			if err != nil && !strings.Contains(string(out), "busy") && !strings.Contains(string(out), "reset") {
				b.Fatalf("iperf3: %v\n%s", err, out)
			}
			return err == nil
		})
	}
	// iperf3's server closes as soon as its client says on another connection that it
	// is done, so that not all bytes need have arrived.
	if st := s.Stats(); st.ToServer < 1<<20 || st.ToClient < 1<<20 {
		b.Errorf("%d bytes to the server and %d to the client", st.ToServer, st.ToClient)
	}
}
