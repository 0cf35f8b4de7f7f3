package generator

import (
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"dyno/host/child"
	"dyno/lab/plan"
	"dyno/load/scenario"
	"dyno/selftest/oracle"
)

func networks(t *testing.T, texts ...string) (all []Network) {
	t.Helper()
	for _, text := range texts {
		var n Network
		if err := n.SetText(text, ""); err != nil {
			t.Fatal(err)
		}
		all = append(all, n)
	}
	return all
}

// A plan that goes beyond what the owner of a machine allows is refused, with the field and the setting.
func TestAdmit(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	for _, folder := range []string{"in", "out"} {
		if err := os.Mkdir(folder, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(folder, "ca.pem"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("../out/ca.pem", "in/link"); err != nil {
		t.Fatal(err)
	}
	in := filepath.Join(dir, "in")
	v4, v6 := networks(t, "10.0.0.0/8", "127.0.0.1:80"), networks(t, "[::1]:80")
	const notThere, notRead, elsewhere = "and there is no such file (--files)", "allows no files to be read (--files)", "does not allow connections to "
	for _, c := range []struct {
		limits Limits
		change func(*plan.Variant)
		want   string // an error, or the address
	}{
		{Limits{}, func(*plan.Variant) {}, "localhost:80"},
		{Limits{}, func(v *plan.Variant) { v.Load.Window = time.Hour }, "the load takes 1h0m0s, and the machine's owner allows 1m0s (--max-time)"},
		{Limits{}, func(v *plan.Variant) { v.Target.TLS = &plan.TLS{CA: "in/ca.pem"} }, "target.tls.ca: in/ca.pem: the machine's owner " + notRead},
		{Limits{Files: in}, func(v *plan.Variant) { v.Target.TLS = &plan.TLS{CA: "in/ca.pem"} }, "localhost:80"},
		{Limits{Files: in}, func(v *plan.Variant) { v.Target.TLS = &plan.TLS{CA: "in/../out/ca.pem"} }, notThere},
		{Limits{Files: in}, func(v *plan.Variant) { v.Target.TLS = &plan.TLS{CA: "in/link"} }, notThere},
		{Limits{Files: in}, func(v *plan.Variant) { v.Target.TLS = &plan.TLS{CA: "in/none"} }, notThere},
		{Limits{Files: in}, func(v *plan.Variant) { v.Load.Call = &plan.Call{ImportPaths: []string{"out"}} }, "load.call.import_paths: out: "},
		{Limits{Files: in}, func(v *plan.Variant) { v.Target.Address = "unix:out/ca.pem" }, "target.address: out/ca.pem: "},
		{Limits{Networks: v4}, func(v *plan.Variant) { v.Load.Scenario = &scenario.Spec{Env: []string{"TOKEN"}} }, "load.scenario.env: the environment belongs to the machine's owner"},
		{Limits{Networks: v4}, func(v *plan.Variant) { v.Target.Address = "localhost:http" }, "127.0.0.1:80"},
		{Limits{Networks: v4}, func(v *plan.Variant) { v.Target.Address = "[::ffff:10.1.2.3]:8080" }, "10.1.2.3:8080"},
		{Limits{Networks: v4}, func(v *plan.Variant) { v.Target.Address = "127.0.0.1:81" }, "target.address: the machine's owner " + elsewhere + "127.0.0.1:81 (--network)"},
		{Limits{Networks: v4}, func(v *plan.Variant) { v.Target.Address = "[::1]:80" }, elsewhere},
		{Limits{Networks: v6}, func(v *plan.Variant) { v.Target.Address = "[::1]:80" }, "[::1]:80"},
		{Limits{Networks: v4}, func(v *plan.Variant) { v.Target.Proxy = "http://192.0.2.1:80" }, "target.proxy: the machine's owner " + elsewhere},
		{Limits{Networks: v4}, func(v *plan.Variant) { v.Target.Proxy = "http://u:p@10.0.0.1:80" }, "127.0.0.1:80"},
		{Limits{Networks: v4}, func(v *plan.Variant) { v.Target.Proxy, v.Target.Address = "10.0.0.1:80", "192.0.2.1:80" }, "target.address: "},
		{Limits{Networks: v4}, func(v *plan.Variant) { v.Target.Proxy, v.Target.Address = "10.0.0.1:80", "unix:/run/x" }, notRead},
	} {
		v := plan.DefaultVariant(plan.HTTP)
		v.Target.Address, v.Load.Window, v.Load.Warmup = "localhost:80", time.Second, 0
		c.change(&v)
		c.limits.Time = time.Minute
		err := c.limits.admit(t.Context(), &partPlan{Variant: &v, Window: v.Load.Window})
		if got := v.Target.Address; err == nil && got != c.want || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %s, %v, want %s", c.limits, got, err, c.want)
		}
	}
	for _, text := range []string{"", "here", "10.0.0.0/40", "10.0.0.0/8:0", "10.0.0.0/8:http"} {
		var n Network
		if err := n.SetText(text, ""); err == nil {
			t.Errorf("%q: %+v", text, n)
		}
	}
}

// A part ends itself when its time is over, whatever it was doing: this one waits for the start.
func TestOvertime(t *testing.T) {
	server := startStream(t, oracle.StreamConfig{})
	v := sseVariant(server, 5)
	c, _, err := Config(t.Context(), v, 1)
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		limits Limits
		want   string
	}{
		{Limits{Connections: 5, Time: c.Warmup + c.Window}, "the part takes longer than the "},
		{Limits{Connections: 4, Time: time.Hour}, "the part has 5 connections, and the machine's owner allows 4 (--max-connections)"},
	} {
		p, err := startPart(t.Context(), Local{Limits: &test.limits}, partPlan{Variant: v, Portion: Portion{Count: 5}, Warmup: c.Warmup, Window: c.Window, Interval: c.Interval})
		if err != nil {
			t.Fatal(err)
		}
		for err == nil {
			_, err = p.hear()
		}
		if !strings.Contains(err.Error(), test.want) {
			t.Errorf("%v, want %s", err, test.want)
		}
		_ = p.kill() // it has failed
	}
}

// A process has the rights of the user who is named.
func TestUser(t *testing.T) {
	nobody, err := user.Lookup("nobody")
	if os.Geteuid() != 0 || err != nil {
		t.Skip("only root can change to another user")
	}
	var id uint32
	if _, err := fmt.Sscan(nobody.Uid, &id); err != nil {
		t.Fatal(err)
	}
	p, err := Local{User: &child.User{ID: id, Group: id}}.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.(localProcess).Command.Process.Pid))
	if want := fmt.Sprintf("Uid:\t%d\t%[1]d\t%[1]d\t%[1]d\n", id); err != nil || !strings.Contains(string(status), want) {
		t.Errorf("%s, %v, want %s", status, err, want)
	}
	p.Kill()
	_ = p.Wait() // it was killed
}
