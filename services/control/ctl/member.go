package ctl

import (
	"net/http"
	"net/url"

	"github.com/spf13/cobra"

	"dyno/services/control/client"
	"dyno/services/control/resource"
)

const memberPath = "/v1/members"

// A member is a replica as lists of members have it.
type member struct {
	Name    string `json:"name"`
	Address string `json:"address"`
	ID      string `json:"id"`
	Learner bool   `json:"learner"`
}

func (s *session) memberCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "member", Short: "List, add and remove replicas whose etcds form one cluster"}
	cmd.AddCommand(
		s.showing(&cobra.Command{Use: "list", Short: "Show the replicas", Args: exactly(0, "no arguments")}, func(c *call, _ []string) error {
			return c.all(members, c.each(members, memberPath, url.Values{}), maxEntries)
		}),
		s.asking(&cobra.Command{
			Use:   "add ADDRESS",
			Short: "Permit a replica to join, by where its etcd is to listen for the others",
			Long: `Permit a replica to join, by where its etcd is to listen for the others: host:port. Then start it with
--join, and all members as its --peers. It has a vote once it has received the database.`,
			Example: "  dyno ctl member add 10.0.0.4:7380",
			Args:    exactly(1, "an address"),
		}, func(c *call, args []string) error {
			if _, _, err := ask(c.ctx(), c.Client, client.Request{Method: http.MethodPost, Path: memberPath, Body: map[string]any{"address": args[0]}}); err != nil {
				return err
			}
			return c.report(resource.Ref{Kind: members, Name: args[0]}, "added", 0)
		}),
		s.asking(&cobra.Command{Use: "remove NAME…", Short: "Remove replicas, by name, address or ID: their processes end", Args: atLeast(1, "names")}, func(c *call, args []string) error {
			for _, name := range args {
				if err := c.act(resource.Ref{Kind: members, Name: name}, http.MethodDelete, "", nil, gone); err != nil {
					return err
				}
			}
			return nil
		}),
	)
	return cmd
}
