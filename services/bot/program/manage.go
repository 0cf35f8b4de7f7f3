package program

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"dyno/internal/command"
	"dyno/internal/exit"
	"dyno/internal/secretfile"
	"dyno/services/bot/directory"
	"dyno/services/bot/directory/rest"
)

// A manager has the flags of the commands that use a gateway's API for what is made at run time.
type manager struct {
	admin, tokenFile string
	ca, cert, key    string
	json             bool
}

// manageTimeout bounds a request.
const manageTimeout = 30 * time.Second

// manageCommands returns a command for each kind of items.
func manageCommands() (commands []*cobra.Command) {
	for _, k := range directory.Kinds() {
		m := &manager{}
		cmd := &cobra.Command{Use: k.One(), Short: fmt.Sprintf("Make and change the %s of a gateway that runs with --manage-keys", k), Args: command.NoArgs}
		f := cmd.PersistentFlags()
		f.StringVar(&m.admin, "admin", "http://127.0.0.1:8001", "the `URL` of the gateway's admin listener")
		f.StringVar(&m.tokenFile, "admin-token-file", "", "the `FILE` of that listener's token, or of yours by the OpenID Connect issuer")
		f.StringVar(&m.ca, "ca", "", "`FILE` of certificates that the listener's is signed by (default the system's)")
		f.StringVar(&m.cert, "cert", "", "`FILE` with the client certificate to show")
		f.StringVar(&m.key, "key", "", "`FILE` with its key")
		f.BoolVar(&m.json, "json", false, "print JSON")
		add := func(use, short string, args cobra.PositionalArgs, run func(cmd *cobra.Command, args []string) error) *cobra.Command {
			c := &cobra.Command{Use: use, Short: short, Args: args, RunE: run}
			cmd.AddCommand(c)
			return c
		}
		// one has a command for one item, which sends a body.
		one := func(word, short, method, path string, body func(cmd *cobra.Command) map[string]any) *cobra.Command {
			exactly := func(_ *cobra.Command, args []string) error {
				if len(args) != 1 {
					return exit.Misused(fmt.Sprintf("such as %s %s %s ID; %s %[2]s list lists them", Name, k.One(), word, Name), "want one ID, and there are %d", len(args))
				}
				return nil
			}
			return add(word+" ID", short, exactly, func(cmd *cobra.Command, args []string) error {
				var sent map[string]any
				if body != nil {
					sent = body(cmd)
				}
				return m.show(cmd, k, method, string(k)+"/"+url.PathEscape(args[0])+path, sent)
			})
		}
		create := add("create [ID]", "Make one; the secret of a key is printed, and shown only here", cobra.MaximumNArgs(1), func(cmd *cobra.Command, args []string) error {
			body := members(cmd)
			if len(args) > 0 {
				body["id"] = args[0]
			}
			return m.show(cmd, k, http.MethodPost, string(k), body)
		})
		itemFlags(create.Flags(), k)
		update := one("update", "Change what the flags say; an empty value removes what was there", http.MethodPatch, "", members)
		itemFlags(update.Flags(), k)
		update.Aliases = []string{"set"}
		one("show", "Print one", http.MethodGet, "", nil)
		one("delete", "Delete one, and limits that it has", http.MethodDelete, "", nil).Aliases = []string{"remove"}
		list := add("list", "List them", command.NoArgs, func(cmd *cobra.Command, _ []string) error { return m.list(cmd, k) })
		has := func(name string) bool {
			return slices.ContainsFunc(directory.Fields(k), func(f directory.Field) bool { return f.Name == name })
		}
		for _, of := range []string{"key", "team", "user"} {
			if has(of) && k != directory.Providers {
				list.Flags().String(of, "", "those of a "+of+", by its `ID`")
			}
		}
		if has("disabled") {
			is := func(disabled bool) func(*cobra.Command) map[string]any {
				return func(*cobra.Command) map[string]any { return map[string]any{"disabled": disabled} }
			}
			one("disable", "Have requests by its keys refused", http.MethodPatch, "", is(true))
			one("enable", "The opposite of disable", http.MethodPatch, "", is(false))
		}
		if k == directory.Users {
			one("erase", "Delete what there is of a user, of any key, but for amounts in the ledger", http.MethodDelete, "/data", nil)
		}
		if k == directory.Keys {
			var grace time.Duration
			one("rotate", "Print another secret, which replaces the one before", http.MethodPost, "/rotate", func(*cobra.Command) map[string]any {
				return map[string]any{"grace_seconds": int64((grace + time.Second - 1) / time.Second)}
			}).Flags().DurationVar(&grace, "grace", 0, "how long the secret before works on")
		}
		if k == directory.Deployments {
			one("reset", "End its cool-downs and its provider's, at this gateway", http.MethodPost, "/reset", nil)
		}
		commands = append(commands, cmd)
	}
	return commands
}

// itemFlags adds a flag for each field that clients set.
func itemFlags(flags *pflag.FlagSet, k directory.Kind) {
	for _, f := range directory.Fields(k) {
		if !f.Set || f.Name == "id" {
			continue
		}
		name := strings.ReplaceAll(f.Name, "_", "-")
		switch t := f.Type; {
		case k == directory.Providers && f.Name == "key":
			flags.String(name, "", "")
			_ = flags.MarkHidden(name) // others would see it among the processes
			flags.Func("key-file", "the `FILE` of "+f.About, func(path string) (err error) {
				var text []byte
				if path != "" {
					text, err = secretfile.Read(path)
				}
				return errors.Join(err, flags.Set(name, string(text)))
			})
		case t.Kind() == reflect.Struct, t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Struct: // one of a list
			flags.StringToInt64(name, nil, f.About)
		case t.Kind() == reflect.Slice:
			flags.StringSlice(name, nil, f.About)
		case t.Kind() == reflect.Map:
			flags.StringToString(name, nil, f.About)
		case t.Kind() == reflect.Bool:
			flags.Bool(name, false, f.About)
		case t == reflect.TypeFor[*int64](), t.Kind() == reflect.Int, t.Kind() == reflect.Int64 && t != reflect.TypeFor[time.Duration]():
			flags.Int64(name, 0, f.About)
		default:
			flags.String(name, "", f.About)
		}
	}
}

// own calls f for each given flag that not all of the commands have.
func own(cmd *cobra.Command, f func(*pflag.Flag)) {
	cmd.Flags().Visit(func(flag *pflag.Flag) {
		if cmd.InheritedFlags().Lookup(flag.Name) == nil {
			f(flag)
		}
	})
}

// members returns what the given flags say, as members of an item.
func members(cmd *cobra.Command) map[string]any {
	is := map[string]any{}
	own(cmd, func(f *pflag.Flag) {
		var err error
		name := strings.ReplaceAll(f.Name, "-", "_")
		switch flags := cmd.Flags(); f.Value.Type() {
		case "stringSlice":
			is[name], err = flags.GetStringSlice(f.Name)
		case "stringToString":
			is[name], err = flags.GetStringToString(f.Name)
		case "stringToInt64":
			is[name], err = flags.GetStringToInt64(f.Name)
		case "bool":
			is[name], err = flags.GetBool(f.Name)
		case "int64":
			is[name], err = flags.GetInt64(f.Name)
		default:
			is[name] = f.Value.String()
		}
		if err != nil || f.Value.String() == "" {
			is[name] = nil // which removes it
		}
	})
	return is
}

// ask sends a request, and reads the answer's JSON.
func (m *manager) ask(ctx context.Context, method, path string, body map[string]any, to any) error {
	var sent io.Reader = http.NoBody
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return err
		}
		sent = bytes.NewReader(text)
	}
	ctx, cancel := context.WithTimeout(ctx, manageTimeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, strings.TrimSuffix(m.admin, "/")+rest.Path+path, sent)
	if err != nil {
		return exit.Misused("such as --admin http://127.0.0.1:8001", "--admin: %w", err)
	}
	if m.tokenFile != "" {
		token, err := secretfile.Read(m.tokenFile)
		if err != nil {
			return exit.Misused("the file of admin_token_file of the gateway", "--admin-token-file: %w", err)
		}
		r.Header.Set("Authorization", "Bearer "+string(token))
	}
	trust, err := secretfile.ClientTLS("--", m.ca, m.cert, m.key)
	if err != nil {
		return exit.Misused("such as --ca ca.pem --cert me.pem --key me-key.pem", "%w", err)
	}
	client := &http.Client{Transport: &http.Transport{Proxy: http.ProxyFromEnvironment, TLSClientConfig: trust, ForceAttemptHTTP2: true}, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := client.Do(r)
	if err != nil {
		hint := "--admin is where the gateway's admin listener is, which takes changes with --manage-keys"
		if m.cert == "" && r.URL.Scheme == "https" { // TLS 1.3 refuses a client after its handshake, and HTTP/2 does not say why
			hint += "; it may want a client certificate: --cert, --key"
		}
		return exit.With(exit.Target, err, hint)
	}
	defer resp.Body.Close() //nolint:errcheck // it was only read
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return exit.With(exit.Target, err, "")
	}
	if resp.StatusCode/100 != 2 {
		var fault struct{ Error struct{ Message string } }
		_ = json.Unmarshal(text, &fault) // the listener itself says it without JSON
		return errors.New(cmp.Or(fault.Error.Message, strings.TrimSpace(string(text)), resp.Status))
	}
	if len(text) == 0 {
		return nil
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber() // amounts are exact
	if err := d.Decode(to); err != nil {
		return exit.With(exit.Target, fmt.Errorf("%s does not answer as the API for keys and deployments: %w", m.admin, err), "--admin is where the gateway's admin listener is, which takes changes with --manage-keys")
	}
	return nil
}

// maxAnswer bounds an answer, in bytes: a page of items.
const maxAnswer = 64 << 20

// show sends a request about one item, and prints the answer.
func (m *manager) show(cmd *cobra.Command, k directory.Kind, method, path string, body map[string]any) error {
	var item map[string]any
	if err := m.ask(cmd.Context(), method, path, body, &item); err != nil || item == nil {
		return err
	}
	return m.print(cmd, k, item, []map[string]any{item})
}

// list prints all items.
func (m *manager) list(cmd *cobra.Command, k directory.Kind) error {
	query, items := url.Values{"limit": {"1000"}}, []map[string]any{}
	own(cmd, func(f *pflag.Flag) { query.Set(f.Name, f.Value.String()) })
	for {
		var page struct {
			Items []map[string]any
			Next  string
		}
		if err := m.ask(cmd.Context(), http.MethodGet, string(k)+"?"+query.Encode(), nil, &page); err != nil {
			return err
		}
		items = append(items, page.Items...)
		if page.Next == "" {
			return m.print(cmd, k, items, items)
		}
		query.Set("after", page.Next)
	}
}

// print prints JSON, or a table of the members that some item has.
func (m *manager) print(cmd *cobra.Command, k directory.Kind, answer any, items []map[string]any) error {
	if m.json {
		out := json.NewEncoder(cmd.OutOrStdout())
		out.SetIndent("", "  ")
		return out.Encode(answer)
	}
	columns := slices.DeleteFunc(append(directory.Fields(k), directory.Field{Name: "secret"}), func(f directory.Field) bool {
		return !slices.ContainsFunc(items, func(i map[string]any) bool { return i[f.Name] != nil })
	})
	table := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
	for _, f := range columns {
		_, _ = fmt.Fprint(table, strings.ToUpper(f.Name), "\t") // Flush has the error
	}
	for _, item := range items {
		_, _ = fmt.Fprintln(table)
		for _, f := range columns {
			text := ""
			switch v := item[f.Name].(type) {
			case nil:
			case string:
				text = v
			default:
				b, _ := json.Marshal(v) // of what was JSON
				text = strings.NewReplacer(`"`, "", "[", "", "]", "", "{", "", "}", "").Replace(string(b))
			}
			_, _ = fmt.Fprint(table, cmp.Or(text, "-"), "\t")
		}
	}
	_, _ = fmt.Fprintln(table)
	return table.Flush()
}
