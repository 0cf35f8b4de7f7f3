// Package ctl is the command line for users of the control plane, dyno ctl: it shows, changes and watches resources,
// and completes their names.
//
// It is part of dyno, and not of dyno-control: users of a control plane need not have its server, whose etcd alone is
// larger than dyno. The shell's completion asks dyno, which would otherwise have to start another program for each
// key. Of the control plane's Go packages, it uses only the client's.
//
// To read the source: ctl.go has what all commands share. kinds.go has the kinds of resources, document.go the files
// that are applied, and print.go the forms of output; the other files are commands.
package ctl

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"dyno/internal/exit"
	"dyno/internal/secretfile"
	"dyno/internal/terminal"
	"dyno/internal/textfile"
	"dyno/services/control/client"
	"dyno/services/control/resource"
)

// Environment variables that stand for flags.
const (
	serverVariable    = "DYNO_CTL_SERVER"
	tokenVariable     = "DYNO_CTL_TOKEN_FILE"
	namespaceVariable = "DYNO_CTL_NAMESPACE"
)

// defaultServer is where the examples of dyno serve control listen.
const defaultServer = "http://127.0.0.1:7100"

// A session has what the commands share: the flags that choose servers, namespace and credentials, and those that
// several commands have.
type session struct {
	servers       []string
	tokenFile     string
	ca, cert, key string
	namespace     string
	timeout       time.Duration
	output        string // one of forms
	dry           bool
}

// Command returns the command with those below it. They read and write the streams that
// cobra has for them. Errors are *exit.Failure where the exit code is not 1.
func Command() *cobra.Command {
	s := &session{}
	cmd := &cobra.Command{
		Use:   "ctl",
		Short: "Use a control plane: show, change and watch its resources",
		Long: `Use a control plane: show, change and watch its resources.

Kinds are services, instances, configs, policies, sessions, locks, counters, principals,
roles, rollout and audit; their singular and
KIND/NAME are understood, too. Changes are made once, however often they have to be sent;
those to what somebody else has changed meanwhile are refused.

Servers are those of --server, else of ` + serverVariable + `, else ` + defaultServer + `.
A token is read from a file (--token-file or ` + tokenVariable + `), and never an argument.
Only callers who may read secrets see secret configurations, one at a time and by
-o json or yaml only.

Completion of commands, kinds and names: dyno completion --help`,
		Example: `  dyno ctl get services
  dyno ctl get instances shop --watch
  dyno ctl apply -f policies.yaml --dry-run
  dyno ctl put config limits limits.json
  dyno ctl release limits new-limits.json --percent 5
  dyno ctl rollout status config/limits --wait
  dyno ctl rollback config/limits --to 3`,
	}
	f := cmd.PersistentFlags()
	f.StringArrayVar(&s.servers, "server", nil, "`ADDRESS` of a replica, such as http://127.0.0.1:7100; may be repeated: the next one is asked if one does not answer")
	f.StringVar(&s.tokenFile, "token-file", "", "`FILE` with the token to show")
	f.StringVar(&s.ca, "ca", "", "`FILE` of certificates that the servers' are signed by (default the system's)")
	f.StringVar(&s.cert, "cert", "", "`FILE` with the client certificate to show")
	f.StringVar(&s.key, "key", "", "`FILE` with its key")
	f.StringVarP(&s.namespace, "namespace", "n", "", "where resources are (default "+namespaceVariable+", else default)")
	f.DurationVar(&s.timeout, "timeout", 10*time.Second, "how long an answer may take")
	cmd.AddCommand(
		s.getCommand(), s.applyCommand(), s.importCommand(), s.putCommand(), s.historyCommand(), s.releaseCommand(), s.rolloutCommand(),
		s.registerCommand(), s.lockCommand(), s.counterCommand(), s.tokenCommand(), s.memberCommand(), s.statusCommand(), s.backupCommand(), s.reclaimCommand(),
	)
	cmd.AddCommand(s.changeCommands()...)
	return cmd
}

// A call is a command under way.
type call struct {
	*session
	*printer
	*client.Client
	cmd *cobra.Command
}

func (c *call) ctx() context.Context { return c.cmd.Context() }

// note prints a remark to standard error.
func (c *call) note(format string, args ...any) {
	fmt.Fprintln(c.cmd.ErrOrStderr(), terminal.Line(fmt.Sprintf(format, args...)))
}

// say prints a line to standard output.
func (c *call) say(format string, args ...any) error {
	_, err := fmt.Fprintln(c.out, terminal.Line(fmt.Sprintf(format, args...)))
	return err
}

// asking completes a command: run gets a client, and its error a hint.
func (s *session) asking(cmd *cobra.Command, run func(c *call, args []string) error) *cobra.Command {
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if !slices.Contains(forms, s.output) {
			return exit.Misused("one of "+strings.Join(forms, ", "), "--output: unknown form %q", s.output)
		}
		c, err := s.connect(nil)
		if err != nil {
			return err
		}
		defer c.Close()
		return explain(run(&call{s, &printer{cmd.OutOrStdout(), s.output, time.Now}, c, cmd}, args))
	}
	return cmd
}

// showing completes a command that shows entries: it has -o.
func (s *session) showing(cmd *cobra.Command, run func(c *call, args []string) error) *cobra.Command {
	cmd.Flags().StringVarP(&s.output, "output", "o", asTable, strings.Join(forms, ", "))
	must(cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(forms, cobra.ShellCompDirectiveNoFileComp)))
	return s.asking(cmd, run)
}

// changing completes a command that can check a change without making it: it has --dry-run.
func (s *session) changing(cmd *cobra.Command, run func(c *call, args []string) error) *cobra.Command {
	cmd.Flags().BoolVar(&s.dry, "dry-run", false, "check everything, and change nothing")
	return s.asking(cmd, run)
}

// connect makes a client, which has not connected yet. change may change its configuration.
func (s *session) connect(change func(*client.Config)) (*client.Client, error) {
	cfg := client.Defaults()
	cfg.Servers = s.addresses()
	cfg.Namespace = s.space()
	cfg.RequestTimeout = s.timeout
	cfg.MaxPause = 2 * time.Second // a person is waiting
	var err error
	if cfg.Token, err = s.token(); err != nil {
		return nil, err
	}
	if cfg.TLS, err = s.tls(); err != nil {
		return nil, err
	}
	if change != nil {
		change(&cfg)
	}
	c, err := client.New(cfg)
	if err != nil {
		return nil, exit.With(exit.Usage, err, "")
	}
	return c, nil
}

// addresses returns the servers' addresses.
func (s *session) addresses() []string {
	list := s.servers
	if len(list) == 0 {
		list = strings.FieldsFunc(os.Getenv(serverVariable), func(r rune) bool { return r == ',' || r == ' ' })
	}
	if len(list) == 0 {
		return []string{defaultServer}
	}
	scheme := "http://"
	if s.ca != "" || s.cert != "" {
		scheme = "https://"
	}
	list = slices.Clone(list)
	for i, one := range list {
		if !strings.Contains(one, "://") {
			list[i] = scheme + one
		}
	}
	return list
}

// space returns the namespace.
func (s *session) space() string {
	return cmp.Or(s.namespace, os.Getenv(namespaceVariable), resource.DefaultNamespace)
}

// token reads the token; without a file there is none.
func (s *session) token() (string, error) {
	flag, name := "--token-file", s.tokenFile
	if name == "" {
		flag, name = tokenVariable, os.Getenv(tokenVariable)
	}
	if name == "" {
		return "", nil
	}
	text, err := secretfile.Read(name)
	if err != nil {
		return "", exit.With(exit.Usage, fmt.Errorf("%s: %w", flag, err), "")
	}
	token := strings.TrimSpace(string(text))
	if token == "" || strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return "", exit.Misused("it should hold the token and nothing else", "%s: %s holds no token", flag, name)
	}
	return token, nil
}

// tls returns how servers are verified; nil is by the system's authorities.
func (s *session) tls() (*tls.Config, error) {
	if s.ca == "" && s.cert == "" && s.key == "" {
		return nil, nil
	}
	c, err := secretfile.ClientTLS("--", s.ca, s.cert, s.key)
	if err != nil {
		return nil, exit.With(exit.Usage, err, "such as --ca ca.pem --cert me.pem --key me-key.pem")
	}
	return c, nil
}

// readFile reads a file, or standard input for "-" where there is one, of at most limit bytes.
func readFile(name string, stdin io.Reader, limit int) ([]byte, error) {
	var from io.Reader
	if name == "-" && stdin != nil {
		from, name = stdin, "standard input"
	} else {
		f, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		defer f.Close() //nolint:errcheck // it was only read
		from = f
	}
	return textfile.ReadAll(name, from, limit)
}

// explain gives an error its exit code and a hint. All faults of a problem are in its
// text.
func explain(err error) error {
	var (
		known   *exit.Failure
		nobody  *client.Unreachable
		refused *client.Problem
	)
	switch {
	case err == nil || errors.As(err, &known):
		return err
	case errors.Is(err, client.ErrText):
		return exit.With(exit.Usage, err, "")
	case errors.As(err, &nobody):
		return exit.With(exit.Target, err, "is the control plane running, and is the address right? --server or "+serverVariable+" says another")
	case errors.As(err, &refused):
		return exit.With(exit.Failed, err, hintFor(refused))
	}
	return err
}

// hints say what a user can do about a refusal, by the end of its type or by its status.
var hints = map[string]string{
	"limit": "remove unneeded resources, or start dyno-control with a higher limit: --help lists those that begin with --max",
	"disk":  "make room on the disk of dyno-control's --data",
	"401":   "show a token by --token-file, or a certificate by --cert and --key",
	"403":   "use --token-file with the token of a principal with that role, or give the principal that role: dyno ctl apply, or the file of --principals",
	"412":   "if another client has changed it meanwhile: look at it, and repeat the command",
	"413":   "make it smaller, or start dyno-control with a larger --max-policy or --max-config",
	"429":   "try it again in a moment",
	"503":   "try it again in a moment, or ask another replica by --server",
	"507":   "start dyno-control with a larger --quota, or remove unneeded resources, and then run: dyno ctl reclaim",
}

// hintFor returns what a user can do about a refusal; "" adds nothing.
func hintFor(p *client.Problem) string {
	if p.Primary != "" {
		return "send changes to the primary: --server " + p.Primary
	}
	return cmp.Or(hints[p.Type[strings.LastIndex(p.Type, ":")+1:]], hints[strconv.Itoa(p.Status)])
}

// maxAnswer bounds an answer that is kept in memory, in bytes.
const maxAnswer = 64 << 20

// ask sends a request and reads its whole response.
func ask(ctx context.Context, c *client.Client, r client.Request) (answer *client.Answer, body []byte, err error) {
	answer, err = c.Do(ctx, r)
	if err != nil {
		return nil, nil, err
	}
	defer answer.Body.Close() //nolint:errcheck // it was only read
	body, err = io.ReadAll(io.LimitReader(answer.Body, maxAnswer+1))
	if err == nil && len(body) > maxAnswer {
		err = fmt.Errorf("the answer has more than %d bytes", maxAnswer)
	}
	return answer, body, err
}

// get reads a JSON document.
func get(ctx context.Context, c *client.Client, path string, query url.Values, into any) error {
	answer, body, err := ask(ctx, c, client.Request{Method: http.MethodGet, Path: path, Query: query})
	if err != nil {
		return err
	}
	return answered(answer.Server, json.Unmarshal(body, into))
}

// answered returns why the answer of a server, or at a place, cannot be read; nil if it was.
func answered(from string, err error) error {
	if err != nil {
		return fmt.Errorf("%s: the answer is not from a control plane: %w", from, err)
	}
	return nil
}

// missing reports whether the error says that a resource does not exist.
func missing(err error) bool {
	var p *client.Problem
	return errors.As(err, &p) && p.Status == http.StatusNotFound
}

// exactly requires n arguments; what describes them.
func exactly(n int, what string) cobra.PositionalArgs { return between(n, n, what) }

// atLeast requires n arguments or more.
func atLeast(n int, what string) cobra.PositionalArgs { return between(n, math.MaxInt, what) }

func between(least, most int, what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) < least || len(args) > most {
			return exit.Misused("as in: "+cmd.UseLine(), "%s: want %s, got %d arguments", cmd.CommandPath(), what, len(args))
		}
		return nil
	}
}
