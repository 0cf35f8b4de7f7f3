package ctl

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"dyno/internal/exit"
	"dyno/internal/terminal"
	"dyno/services/control/client"
	"dyno/services/control/resource"
)

// tokens are what the commands below show. They are no resources: a principal has them.
const tokens kind = "token"

func (s *session) tokenCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "token", Short: "Make, list and revoke tokens of principals"}
	cmd.AddCommand(s.tokenCreateCommand(), s.tokenListCommand(), s.tokenRevokeCommand())
	return cmd
}

func (s *session) tokenCreateCommand() *cobra.Command {
	var description, lasts string
	cmd := &cobra.Command{
		Use:   "create PRINCIPAL",
		Short: "Make a token, and print it: it is shown only here",
		Long: `Make a token of a principal, and print it: it is shown only here. Its ID, which revokes it, is
printed to standard error.`,
		Example: `  dyno ctl token create deployer --expires 30d --description "pipeline" > token`,
		Args:    exactly(1, "a principal"),
	}
	cmd.RunE = s.asked(func(cmd *cobra.Command, args []string, c *client.Client) error {
		body := map[string]any{"description": description}
		if lasts != "" {
			after, err := lifetime(lasts)
			if err != nil {
				return err
			}
			body["expires_at"] = time.Now().Add(after).UTC().Truncate(time.Second)
		}
		answer, text, err := ask(cmd.Context(), c, client.Request{Method: http.MethodPost, Path: path(principals, args[0], "tokens"), Body: body})
		if err != nil {
			return err
		}
		var made struct {
			resource.Token
			Text string `json:"token"`
		}
		if err := json.Unmarshal(text, &made); err != nil {
			return fmt.Errorf("%s: the answer is not from a control plane: %w", answer.Server, err)
		}
		if _, err := fmt.Fprintln(cmd.OutOrStdout(), terminal.Line(made.Text)); err != nil {
			return err
		}
		_, err = fmt.Fprintln(cmd.ErrOrStderr(), terminal.Line("token "+made.ID+", until "+until(made.Expires)))
		return err
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

func (s *session) tokenListCommand() *cobra.Command {
	var form string
	cmd := &cobra.Command{Use: "list PRINCIPAL", Short: "Show a principal's tokens, by their hashes", Args: exactly(1, "a principal")}
	cmd.RunE = s.asked(func(cmd *cobra.Command, args []string, c *client.Client) error {
		p, err := newPrinter(cmd, form)
		if err != nil {
			return err
		}
		g := &getter{session: s, client: c, printer: p, limit: maxEntries, cmd: cmd}
		entries, err := g.pages(tokens, path(principals, args[0], "tokens"))
		if err != nil {
			return err
		}
		return p.list(tokens, entries)
	})
	formFlag(cmd, &form)
	return cmd
}

func (s *session) tokenRevokeCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "revoke PRINCIPAL ID…", Short: "Revoke tokens", Args: atLeast(2, "a principal and IDs")}
	cmd.RunE = s.asked(func(cmd *cobra.Command, args []string, c *client.Client) error {
		for _, id := range args[1:] {
			r := resource.Ref{Kind: resource.Kind(tokens), Name: args[0], ID: id}
			if err := s.remove(cmd, c, r, path(principals, args[0], "tokens", id), false); err != nil {
				return err
			}
		}
		return nil
	})
	return cmd
}
