// Command link runs a server at the far end of a network link of its own: two network namespaces, with a TUN device
// in each, and a queue, a rate, a delay and losses between them. Unlike dyno serve relay, it carries packets: TCP's
// handshakes, acknowledgements and congestion control cross it. Kernels without netem have no other such link.
//
//	unshare --net link --delay 20ms --rate 20Mbit/s -- iperf3 -s
//
// The near end is where it is started: there, 10.99.0.2 is the server's address. It takes root, and ip(8).
package main

import (
	"context"
	"os"
	"os/exec"

	"github.com/spf13/cobra"

	"dyno/internal/command"
	"dyno/internal/exit"
	"dyno/internal/fields"
	"dyno/internal/settings"
)

func main() {
	os.Exit(command.Main(context.Background(), newCommand(), os.Args[1:], os.Stdout, os.Stderr))
}

func newCommand() *cobra.Command {
	c := fields.Default[Conditions]()
	s := settings.New(&c)
	var ends Settings
	cmd := &cobra.Command{
		Use:   "link [flags] -- COMMAND [ARGUMENT…]",
		Short: "Run a command at the far end of a simulated network link",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return exit.Misused("link --delay 20ms -- COMMAND", "no command for the far end")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			s.Read()
			if err := s.Validate(func(*fields.Report) {}); err != nil {
				return exit.Misused("link --help lists the flags", "%w", err)
			}
			far := exec.CommandContext(cmd.Context(), args[0], args[1:]...) //nolint:gosec // what it is for
			far.Stdout, far.Stderr = cmd.OutOrStdout(), cmd.ErrOrStderr()
			return run(cmd.Context(), c, ends, far)
		},
	}
	s.AddFieldFlags(cmd.Flags())
	cmd.Flags().StringToStringVar(&ends.Sysctl, "sysctl", nil, "settings of the kernel's network at both ends, such as net.ipv4.tcp_slow_start_after_idle=0")
	cmd.Flags().StringVar(&ends.Route, "route", "", "attributes of the routes to the other end (ip-route(8)), such as 'congctl cubic' or 'quickack 1'")
	return cmd
}
