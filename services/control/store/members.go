package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"

	"dyno/services/internal/wait"
)

// A Peer is an etcd of the cluster that replicas form by Config.Peers.
type Peer struct {
	Name    string `json:"name,omitempty"` // none before it has started
	Address string `json:"address"`
	ID      string `json:"id"`
	Learner bool   `json:"learner"` // it has no vote yet, because it still receives the database

	id uint64
}

// Peers returns all peers, in the order of their names.
func (s *Store) Peers(ctx context.Context) ([]Peer, error) {
	return s.changePeers(ctx, func(ctx context.Context) ([]*pb.Member, error) {
		got, err := s.client.MemberList(ctx)
		if err != nil {
			return nil, err
		}
		return got.Members, nil
	})
}

// AddPeer permits a new peer at an address, host:port, to join with Config.Join. It has a vote once it has started, and has received
// the database: so a peer that never starts does no harm.
func (s *Store) AddPeer(ctx context.Context, address string) (Peer, error) {
	if host, _, err := net.SplitHostPort(address); err != nil || !isLocal(host) && s.cfg.PeerCA == "" {
		return Peer{}, fmt.Errorf("%w: %q can be reached from other machines: start all replicas with --peer-ca, --peer-cert and --peer-key", ErrPeers, address)
	}
	list, err := s.changePeers(ctx, func(ctx context.Context) ([]*pb.Member, error) {
		got, err := s.client.MemberAddAsLearner(ctx, []string{s.cfg.peerScheme() + "://" + address})
		if err != nil {
			return nil, err
		}
		return []*pb.Member{got.Member}, nil
	})
	if err != nil {
		return Peer{}, err
	}
	return list[0], nil
}

// RemovePeer removes one of Peers. Its process ends, if it runs.
func (s *Store) RemovePeer(ctx context.Context, p Peer) error {
	if p.id == uint64(s.server.Server.MemberID()) {
		return fmt.Errorf("%w: this replica would end before it could answer: ask another one", ErrPeers)
	}
	_, err := s.changePeers(ctx, func(ctx context.Context) ([]*pb.Member, error) {
		_, err := s.client.MemberRemove(ctx, p.id)
		return nil, err
	})
	return err
}

// peerPause is the pause between attempts to change peers.
const peerPause = 500 * time.Millisecond

// changePeers calls etcd about its members, and returns those of its answer.
func (s *Store) changePeers(ctx context.Context, call func(context.Context) ([]*pb.Member, error)) (peers []Peer, err error) {
	if len(s.cfg.Peers) == 0 {
		return nil, fmt.Errorf("%w: this replica has none: it was started without --peers", ErrPeers)
	}
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	members, err := call(ctx)
	for errors.Is(err, rpctypes.ErrUnhealthy) && wait.For(ctx, peerPause) { // the peers may have connected less than 5 s ago
		members, err = call(ctx)
	}
	var refused rpctypes.EtcdError
	switch {
	case errors.Is(err, rpctypes.ErrUnhealthy), errors.As(err, &refused) && refused.Code() != codes.Unavailable:
		return nil, fmt.Errorf("%w: %w", ErrPeers, err)
	case err != nil:
		return nil, unavailable(ctx, err)
	}
	for _, m := range members {
		p := Peer{Name: m.Name, ID: strconv.FormatUint(m.ID, 16), Learner: m.IsLearner, id: m.ID}
		_, p.Address, _ = strings.Cut(m.PeerURLs[0], "://")
		peers = append(peers, p)
	}
	slices.SortFunc(peers, func(a, b Peer) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(a.Address, b.Address))
	})
	return peers, nil
}

// getVote asks for this peer's vote until it has one: its leader agrees once it has received the database. Without a vote it answers
// as with one.
func (s *Store) getVote() {
	for s.server.Server.IsLearner() && s.ctx.Err() == nil {
		if _, err := s.client.MemberPromote(s.ctx, uint64(s.server.Server.MemberID())); err == nil {
			s.log.Info("this replica has joined its peers", "name", s.cfg.Name)
		}
		wait.For(s.ctx, peerPause)
	}
}
