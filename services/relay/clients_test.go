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

// TestRealClients runs nginx and curl through every model.
func TestRealClients(t *testing.T) {
	for _, name := range []string{"nginx", "curl"} {
		if _, err := exec.LookPath(name); err != nil {
			t.Skipf("%s is not installed", name)
		}
	}
	for _, m := range models {
		t.Run(string(m), func(t *testing.T) { nginx(bed{t, m}) })
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

func nginx(b bed) {
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
