package plane

import (
	"context"
	"net"
	"slices"
	"time"

	"dyno/services/control/access"
	"dyno/services/control/resource"
	"dyno/services/control/store"
)

// Members returns the peers of this replica's etcd.
func (p *Plane) Members(ctx context.Context, by Caller) ([]store.Peer, error) {
	if err := by.may(access.Administer, access.AllNamespaces); err != nil {
		return nil, err
	}
	return p.store.Peers(ctx)
}

// AddMember permits a new replica to join this one's etcd. It returns it as a peer.
func (p *Plane) AddMember(ctx context.Context, by Caller, address string) (store.Peer, error) {
	if err := by.may(access.Administer, access.AllNamespaces); err != nil {
		return store.Peer{}, err
	}
	if host, port, err := net.SplitHostPort(address); err != nil || host == "" || port == "" {
		return store.Peer{}, resource.Invalid{{Pointer: "#/address", Detail: "must be host:port, where the new replica's etcd listens for its peers"}}
	}
	peer, err := p.store.AddPeer(ctx, address)
	if err != nil {
		return peer, err
	}
	return peer, p.noteMember(ctx, by, resource.Created, address)
}

// RemoveMember removes a peer of this replica's etcd, by its name, address or ID.
func (p *Plane) RemoveMember(ctx context.Context, by Caller, name string) error {
	peers, err := p.Members(ctx, by)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(peers, func(m store.Peer) bool { return name == m.Name || name == m.Address || name == m.ID })
	if i < 0 {
		return &NotFound{memberRef(name)}
	}
	if err := p.store.RemovePeer(ctx, peers[i]); err != nil {
		return err
	}
	return p.noteMember(ctx, by, resource.Removed, peers[i].Address)
}

func memberRef(name string) resource.Ref {
	return resource.Ref{Kind: "member", Namespace: resource.Everywhere, Name: name}
}

// noteMember notes a change in the audit. A note goes with a change of the store: of a key that nobody reads.
func (p *Plane) noteMember(ctx context.Context, by Caller, act resource.Act, name string) error {
	audit := resource.Audit{At: time.Now().UTC(), Who: by.Name, From: by.From, Act: act, Ref: memberRef(name)}
	_, err := p.store.Apply(ctx, store.Request{Then: []store.Op{{Key: store.Log + "member", Value: []byte(name)}}, Note: audit.AppendJSON(nil)})
	return err
}
