package ctl

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"dyno/services/control/client"
)

// completionTime bounds how long a shell waits for names, and maxNames how many it has.
const (
	completionTime = 500 * time.Millisecond
	maxNames       = 1000
)

// names are those of a kind that begin with a text. before are the arguments between the
// kind and the name: of an instance's ID, its service. Whatever goes wrong, there are none.
func (s *session) names(ctx context.Context, k kind, before []string, begun string) []string {
	ctx, cancel := context.WithTimeout(ctx, completionTime)
	defer cancel()
	c, err := s.connect(func(cfg *client.Config) { cfg.RequestTimeout = completionTime })
	if err != nil {
		return nil
	}
	defer c.Close()
	query := in(s.space())
	query.Set("stale", "true") // it is only an offer
	query.Set("limit", strconv.Itoa(maxNames))
	place := path(k, "")
	switch {
	case k == rollouts:
		return s.rolloutNames(ctx, begun)
	case k == audits:
		return nil
	case k == services, k == instances && len(before) == 0:
		place = "/v1/services"
	case k == instances && len(before) == 1:
		place = instancePath(before[0], "")
	case k == instances:
		return nil
	}
	var page struct {
		Items []struct {
			Name string `json:"name"`
			ID   string `json:"id"`
		} `json:"items"`
	}
	if get(ctx, c, place, query, &page) != nil {
		return nil
	}
	var list []string
	for _, i := range page.Items {
		name := i.Name
		if i.ID != "" {
			name = i.ID
		}
		if strings.HasPrefix(name, begun) && !slices.Contains(before, name) {
			list = append(list, name)
		}
	}
	return list
}

// rolloutNames offers KIND/NAME.
func (s *session) rolloutNames(ctx context.Context, begun string) []string {
	word, rest, slash := strings.Cut(begun, "/")
	if !slash {
		return []string{string(configs) + "/", string(policies) + "/"}
	}
	k, err := kindOf(word, configs, policies)
	if err != nil {
		return nil
	}
	var list []string
	for _, name := range s.names(ctx, k, nil, rest) {
		list = append(list, word+"/"+name)
	}
	return list
}
