package ctl

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"dyno/internal/exit"
	"dyno/internal/textfile"
	"dyno/services/control/client"
	"dyno/services/control/imports"
	"dyno/services/control/resource"
)

func (s *session) importCommand() *cobra.Command {
	var checks []string
	in := &imports.Import{}
	cmd := s.changing(&cobra.Command{
		Use:   "import consul|nacos FILE…",
		Short: "Make resources of what Consul or Nacos exported",
		Long: `Make resources of what Consul or Nacos exported: configurations, policies and instances. What
cannot be carried over is listed with the reason. What is so already stays, and an instance
gets a heartbeat. A repetition makes only what has changed.

Of Consul, JSON of: consul kv export, consul config read, /v1/health/service/NAME,
/v1/catalog/service/NAME, /v1/agent/services, and service definitions. Give the
configuration entries of services together: one policy is made of all of a service.
Of Nacos, the ZIP of exported configurations, and JSON of /nacos/v1/ns/instance/list, v2
or v3.`,
		Example: `  consul kv export > kv.json && dyno ctl import consul kv.json --dry-run
  dyno ctl import nacos nacos_config_export.zip -n shop`,
		Args: atLeast(2, "consul or nacos, and files"),
	}, func(c *call, args []string) error {
		in.Namespace = s.space()
		for _, text := range checks {
			one, err := checkOf(text, 10*time.Second)
			if err != nil {
				return err
			}
			in.TTL, in.Checks = 0, append(in.Checks, one)
		}
		read, ok := map[string]func([]byte) error{"consul": in.Consul, "nacos": in.Nacos}[args[0]]
		if !ok {
			return exit.Misused("consul or nacos", "unknown tool %q", args[0])
		}
		for _, name := range args[1:] {
			before := len(in.Entries)
			data, err := textfile.ReadBytes(name, imports.MaxTotal)
			if err == nil && !bytes.HasPrefix(data, []byte("PK")) {
				data, err = textfile.Decode(name, data)
			}
			if err != nil {
				return exit.With(exit.Usage, err, "")
			}
			if err := read(data); err != nil {
				return exit.With(exit.Usage, fmt.Errorf("%s: %w", name, err), "nothing was changed")
			}
			for i := range in.Entries[before:] {
				in.Entries[before+i].Where = name + ": " + in.Entries[before+i].Where
			}
		}
		in.End()
		return c.carryOver(in.Entries)
	})
	cmd.Flags().Float64Var(&in.TTL, "ttl", resource.MaxTTL, "seconds after which an instance without a sign of life counts as gone")
	cmd.Flags().StringArrayVar(&checks, "check", nil, "how the control plane finds out whether instances can take requests, as with register, instead of --ttl")
	return cmd
}

const leftOut = "left out"

// carryOver makes the resources of imported entries, and lists what was left out.
func (c *call) carryOver(entries []imports.Entry) error {
	var steps []step
	known, counts := map[resource.Ref]string{}, map[string]int{}
	for _, e := range entries {
		if e.Why == "" && known[e.Ref()] != "" {
			e.Why = fmt.Sprintf("%s is at %s already", e.Ref(), known[e.Ref()])
		}
		if e.Why == "" {
			known[e.Ref()] = e.Where
			st, err := c.plan(manifestOfEntry(e))
			var p *client.Problem
			switch {
			case err == nil:
				counts[st.what]++
				steps = append(steps, st)
			case errors.As(err, &p) && (p.Status == http.StatusUnprocessableEntity || p.Status == http.StatusRequestEntityTooLarge):
				e.Why = err.Error()
			default:
				return fmt.Errorf("%s: %w", e.Where, err)
			}
		}
		if e.Why != "" {
			counts[leftOut]++
			c.note("%s: %s: %s", leftOut, e.Where, e.Why)
		}
	}
	if err := c.carryOut(steps); err != nil {
		return err
	}
	return c.say("%d created, %d changed, %d unchanged, %d left out", counts[created], counts[changed], counts[unchanged], counts[leftOut])
}

// manifestOfEntry makes the wanted state of an imported entry.
func manifestOfEntry(e imports.Entry) *manifest {
	raw, err := json.Marshal(e.Resource)
	must(err) // it was checked
	w := &manifest{parsed: &parsed{file: e.Where}, Ref: e.Ref()}
	must(json.Unmarshal(raw, &w.body))
	for _, name := range made {
		delete(w.body, name)
	}
	return w
}
