package ctl

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"dyno/internal/exit"
	"dyno/services/control/client"
	"dyno/services/control/resource"
)

func (s *session) tokenCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "token", Short: "Make, list and revoke tokens of principals"}
	cmd.AddCommand(
		s.tokenCreateCommand(),
		s.showing(&cobra.Command{Use: "list PRINCIPAL", Short: "Show a principal's tokens, by their hashes", Args: exactly(1, "a principal")}, func(c *call, args []string) error {
			return c.all(tokens, c.each(tokens, addressOf(resource.Ref{Kind: tokens, Name: args[0]}), url.Values{}), maxEntries)
		}),
		s.asking(&cobra.Command{Use: "revoke PRINCIPAL ID…", Short: "Revoke tokens", Args: atLeast(2, "a principal and IDs")}, func(c *call, args []string) error {
			for _, id := range args[1:] {
				if err := c.act(resource.Ref{Kind: tokens, Name: args[0], ID: id}, http.MethodDelete, "", nil, gone); err != nil {
					return err
				}
			}
			return nil
		}),
	)
	return cmd
}

// addressOf returns the API's path of a resource, of a token of a principal, or of all of its tokens.
func addressOf(r resource.Ref) string {
	switch r.Kind {
	case tokens:
	case members:
		return memberPath + "/" + url.PathEscape(r.Name)
	default:
		return r.Address()
	}
	return strings.TrimSuffix(resource.Ref{Kind: resource.Principals, Name: r.Name}.Address()+"/tokens/"+url.PathEscape(r.ID), "/")
}

func (s *session) tokenCreateCommand() *cobra.Command {
	var description, lasts string
	cmd := s.asking(&cobra.Command{
		Use:   "create PRINCIPAL",
		Short: "Make a token, and print it: it is shown only here",
		Long: `Make a token of a principal, and print it: it is shown only here. Its ID, which revokes it, is
printed to standard error.`,
		Example: `  dyno ctl token create deployer --expires 30d --description "pipeline" > token`,
		Args:    exactly(1, "a principal"),
	}, func(c *call, args []string) error {
		body := map[string]any{"description": description}
		if lasts != "" {
			after, err := lifetime(lasts)
			if err != nil {
				return err
			}
			body["expires_at"] = time.Now().Add(after).UTC().Truncate(time.Second)
		}
		answer, text, err := ask(c.ctx(), c.Client, client.Request{Method: http.MethodPost, Path: addressOf(resource.Ref{Kind: tokens, Name: args[0]}), Body: body})
		if err != nil {
			return err
		}
		var made struct {
			resource.Token
			Text string `json:"token"`
		}
		if err := answered(answer.Server, json.Unmarshal(text, &made)); err != nil {
			return err
		}
		c.note("token %s, until %s", made.ID, until(made.Expires))
		return c.say("%s", made.Text)
	})
	f := cmd.Flags()
	f.StringVar(&lasts, "expires", "", "for how long it is valid, such as 12h or 30d (default what max_token_ttl permits)")
	f.StringVar(&description, "description", "", "what it is for")
	return cmd
}

// until returns a time, or what stands for none.
func until(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.UTC().Format(time.RFC3339)
}

// lifetime parses a duration, which may be in days.
func lifetime(text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if days, ok := strings.CutSuffix(text, "d"); ok {
		var n uint64
		n, err = strconv.ParseUint(days, 10, 16)
		d = time.Duration(n) * 24 * time.Hour //nolint:gosec // 16 bits
	}
	if err != nil || d <= 0 {
		return 0, exit.Misused("such as --expires 12h or --expires 30d", "--expires: %q is no duration", text)
	}
	return d, nil
}
